"""The source distribution, the wheel, and an environment of a user."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from support import PROJECT, project_metadata

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800), pytest.mark.xdist_group("distribution")]

NEW_IN_SDIST = {"PKG-INFO", "setup.cfg"}
ONLY_FOR_GIT = {".gitignore"}


def _run(*command: str | Path, cwd: Path, code: int = 0, **environment: str) -> str:
    # The installed package must not find modules of the checkout.
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command,
        cwd=cwd,
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == code, f"{command}: {done.stdout}{done.stderr}"
    return done.stderr if code else done.stdout


@pytest.fixture(scope="module")
def tracked() -> set[str]:
    """Paths of all files of the project, relative to the project."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = _run(*listing, cwd=PROJECT).split("\0")
    return {name for name in names if name and (PROJECT / name).is_file()}


@pytest.fixture(scope="module")
def sdist(tracked, tmp_path_factory) -> Path:
    """The source distribution, built from a copy of the project."""
    tree = tmp_path_factory.mktemp("tree")
    for name in tracked:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(PROJECT / name, tree / name)
    out = tmp_path_factory.mktemp("sdist")
    build = f"from setuptools.build_meta import build_sdist; build_sdist({str(out)!r})"
    _run(sys.executable, "-c", build, cwd=tree)
    return next(out.iterdir())


@pytest.fixture(scope="module")
def wheel(sdist, tmp_path_factory) -> Path:
    """The wheel, built from only the source distribution."""
    out = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    _run(*pip, "--wheel-dir", out, sdist, cwd=out)
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def metadata(wheel) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        name = next(one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        return HeaderParser().parsestr(archive.read(name).decode())


def _closure(requirements: list[str]) -> dict[str, importlib.metadata.Distribution]:
    """Return the distributions that these requirements need, as installed here."""
    found: dict[str, importlib.metadata.Distribution] = {}
    open_ones = [(Requirement(one), "") for one in requirements]
    while open_ones:
        wanted, extra = open_ones.pop()
        name = canonicalize_name(wanted.name)
        if wanted.marker and not wanted.marker.evaluate({"extra": extra}):
            continue
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found_already = name in found
            found[name] = importlib.metadata.distribution(name)
            for asked in wanted.extras or ([] if found_already else [""]):
                more = found[name].requires or []
                open_ones += [(Requirement(one), asked) for one in more]
    return found


@pytest.fixture(scope="module")
def user(wheel, tmp_path_factory) -> Path:
    """An environment with the wheel and its dependencies, and nothing else.

    The dependencies are links to those of this environment, so that nothing large is copied.
    """
    environment = tmp_path_factory.mktemp("user") / "venv"
    _run(sys.executable, "-m", "venv", "--without-pip", environment, cwd=environment.parent)
    python = environment / "bin" / "python"
    packages = Path(
        _run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=PROJECT)
        .strip()
    )  # fmt: skip
    here = Path(sysconfig.get_path("purelib"))
    for one in _closure(project_metadata()["dependencies"]).values():
        for top in {Path(file).parts[0] for file in one.files or ()} - {"..", "__pycache__"}:
            with contextlib.suppress(FileExistsError):
                (packages / top).symlink_to(here / top)
    # Without an index, as on a node without a network, all requirements must be installed already.
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--no-index"]
    _run(*pip, "--find-links", wheel.parent, "nas-rebench", cwd=environment)
    return environment


def test_source_distribution_holds_the_whole_project(sdist, tracked):
    with tarfile.open(sdist) as archive:
        names = {one.name.partition("/")[2] for one in archive.getmembers() if one.isfile()}
    ours = {name for name in names if ".egg-info/" not in name} - NEW_IN_SDIST
    assert ours == tracked - ONLY_FOR_GIT


def test_wheel_holds_the_packages_with_all_their_files_and_nothing_else(wheel, tracked):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    pages = {name for name in names if ".data/data/" in name}
    assert names - pages == {name for name in tracked if name.startswith(("cells/", "rebench/"))}
    ours = {name.removeprefix("docs/") for name in tracked if name.startswith("docs/")}
    held = {name.partition("/share/doc/nas-rebench/")[2] for name in pages}
    assert {name for name in held if not name.startswith("results/")} == {
        name for name in ours if name.endswith((".md", ".svg"))
    }
    assert {"rebench/py.typed", "cells/py.typed", "rebench/runs/example.toml"} <= names
    assert "rebench/launch/cluster_files/one-job.sbatch" in names
    for file in ("tables/mini.parquet", "curves/mini.parquet", "README.md", "croissant.json"):
        assert f"rebench/tables/released/{file}" in names


def test_user_is_asked_for_the_dependencies_alone(metadata):
    required = [Requirement(one) for one in metadata.get_all("Requires-Dist")]
    asked = {str(one) for one in required if "extra" not in str(one.marker)}
    assert asked == {str(Requirement(one)) for one in project_metadata()["dependencies"]}
    assert not {"ruff", "mypy", "pytest", "import-linter"} & {
        Requirement(one).name for one in asked
    }


def test_metadata_says_who_what_and_for_which_pythons(metadata):
    assert metadata["Name"] == "nas-rebench"
    assert metadata["Author"] == "The rebench authors"
    assert metadata["License-Expression"] == "MIT"
    versions = {one for one in metadata.get_all("Classifier") if "Python :: 3." in one}
    assert {one.rpartition(" ")[2] for one in versions} == {"3.10", "3.11", "3.12", "3.13"}


def test_user_reads_the_pages_and_their_links_lead_to_files(user, tmp_path):
    rows = json.loads(_run(user / "bin" / "rebench", "doctor", "--json", cwd=tmp_path))
    first = Path(next(row["found"] for row in rows if row["what"] == "documentation"))
    assert first.is_relative_to(user)
    leads = [
        (page, link)
        for page in first.parent.rglob("*.md")
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
    ]
    assert len(leads) > 20
    assert [(page, link) for page, link in leads if not (page.parent / link).exists()] == []


def test_three_uses_of_the_readme_need_the_wheel_alone(user, tmp_path):
    """Run the same uses as `scripts/release --check`, but with the installed torch."""
    path = f"{user / 'bin'}{os.pathsep}{os.environ['PATH']}"
    told = _run(PROJECT / "scripts" / "three_uses", cwd=tmp_path, PATH=path, OMP_NUM_THREADS="1")
    assert "cell 1696, cifar10-jpeg16" in told
    assert re.search(r"1  fixed +- +0\.19\*\n", told)
    assert "Final test accuracy" in told
    assert "38.77 38.06" in told
    assert list(tmp_path.iterdir()) == []


def test_user_runs_the_wheel_from_anywhere(user, tmp_path):
    def ran(command: str, *arguments: str, code: int = 0) -> str:
        line = (user / "bin" / command, *arguments)
        return _run(*line, cwd=tmp_path, code=code, OMP_NUM_THREADS="1")

    where = ran("python", "-c", "import cells, rebench; print(cells.__file__, rebench.__file__)")
    assert all(path.startswith(str(user)) for path in where.split())
    tools = ["pytest", "mypy", "ruff", "hypothesis", "fvcore", "duckdb"]
    absent = f"from importlib.util import find_spec; print(*filter(find_spec, {tools}))"
    assert ran("python", "-c", absent).split() == []
    version = f"rebench {project_metadata()['version']}\n"
    assert ran("rebench", "--version") == version
    assert ran("nas-rebench", "--version") == version
    assert "mini" in ran("rebench", "table", "list")
    assert len(json.loads(ran("rebench", "query", "mini", "1696", "--json"))) > 1
    found = {row["what"]: row["found"] for row in json.loads(ran("rebench", "doctor", "--json"))}
    assert found["torch"] == importlib.metadata.version("torch")
    assert found["data: digits"] == "present"
    ran("rebench", "sweep", "new")
    assert json.loads(ran("rebench", "sweep", "plan", "sweep.toml", "--json"))[0]["trials"] > 0
    ran("rebench", "sweep", "new", "--out", "new.toml", "--cluster-files")
    assert {path.name for path in tmp_path.iterdir()} == {
        "sweep.toml",
        "new.toml",
        "one-job.sbatch",
        "rebench.def",
    }
