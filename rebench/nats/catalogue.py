"""What is read of others: who published it, its files, and how they are had."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["ARCHIVE", "FILES", "PUBLISHED", "SURFACES", "Download", "Published"]

ARCHIVE: Final = "metric_data.tar"
FILES: Final = ("cellinfo.pkl", "bench12.pkl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """One file that is published: `sha256` only where its publisher says it."""

    name: str
    url: str
    largest_bytes: int
    sha256: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A benchmark of others: who published it, and a file that a program can fetch, if any.

    Attributes:
        by_hand: what to do where there is none.
        is_surface: whether it holds accuracies at many learning rates.
    """

    cite: str
    licence: str
    file: Download | None = None
    by_hand: str = ""
    is_surface: bool = False


PUBLISHED: Final = {
    "nats-bench": Published(
        cite="Dong, Liu, Musial, Gabrys: NATS-Bench (TPAMI 2021)",
        licence="MIT",
        by_hand=(
            "it lies on Google Drive, behind a page for people. In a browser open "
            "https://drive.google.com/file/d/17_saCsj_krKjlCBLOJEpNtzPXArMCqxU/view, "
            "choose `Download anyway`, and give NATS-tss-v1_0-3ffb9-simple.tar to "
            "`rebench table ingest`"
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
        is_surface=True,
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
        is_surface=True,
    ),
}

SURFACES: Final = tuple(name for name, known in PUBLISHED.items() if known.is_surface)
