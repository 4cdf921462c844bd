"""What `rebench benchmark` reads of others: who published it, and how its files are had."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rebench.errors import MissingDataError, UnknownNameError
from rebench.surfaces.download import Download, Downloaded, download
from rebench.surfaces.jahs import ARCHIVE
from rebench.surfaces.nas_hpo_bench import FILES

__all__ = ["PUBLISHED", "Published", "fetch", "published"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A benchmark of others: who published it, and a file that a program can fetch, if any.

    Attributes:
        by_hand: what to do where there is none.
    """

    cite: str
    licence: str
    file: Download | None = None
    by_hand: str = ""


PUBLISHED: Final = {
    "nats-bench": Published(
        cite="Dong, Liu, Musial, Gabrys: NATS-Bench (TPAMI 2021)",
        licence="MIT",
        by_hand=(
            "it lies on Google Drive, behind a page for people. In a browser open "
            "https://drive.google.com/file/d/17_saCsj_krKjlCBLOJEpNtzPXArMCqxU/view, "
            "choose `Download anyway`, and give NATS-tss-v1_0-3ffb9-simple.tar to "
            "`rebench benchmark ingest`"
        ),
    ),
    "nas-hpo-bench-ii": Published(
        cite="Hirose, Yoshinari, Shirakawa: NAS-HPO-Bench-II (ACML 2021)",
        licence="MIT",
        by_hand=(
            "it lies on Google Drive, behind a page for people. In a browser open "
            "https://drive.google.com/drive/folders/1sxnBo5A6WXxt44WQG8f8WlYYicKd9g-h, "
            "choose `Download all` in the folder's menu, and unpack what comes so that one folder "
            f"holds {' and '.join(FILES)}"
        ),
    ),
    "jahs-bench-201": Published(
        cite="Bansal, Stoll, Janowski, Zela, Hutter: JAHS-Bench-201 (NeurIPS 2022)",
        licence="MIT",
        file=Download(
            name=ARCHIVE,
            url=(
                "https://ml.informatik.uni-freiburg.de/research-artifacts/jahs_bench_201/v1.1.0/"
                f"{ARCHIVE}"
            ),
            largest_bytes=64 * 2**30,
        ),
    ),
}


def published(name: str) -> Published:
    """Return what is known of the benchmark `name`."""
    if name not in PUBLISHED:
        raise UnknownNameError("published benchmark", name, PUBLISHED)
    return PUBLISHED[name]


def fetch(
    name: str,
    folder: Path,
    *,
    url: str | None = None,
    on_progress: Callable[[int, int | None], None] = lambda _done, _total: None,
    pause_s: float = 2.0,
) -> Downloaded:
    """Fetch the file of a published benchmark into `folder`.

    Args:
        name: one of `PUBLISHED`.
        folder: where to.
        url: another address of the same file, such as a mirror.
        on_progress: see `download`.
        pause_s: see `download`.

    Raises:
        MissingDataError: no program can fetch it; the message says how people do.
    """
    found = published(name)
    if found.file is None:
        raise MissingDataError(f"{name} cannot be fetched by a program: {found.by_hand}")
    file = dataclasses.replace(found.file, url=url) if url else found.file
    return download(file, folder, on_progress=on_progress, pause_s=pause_s)
