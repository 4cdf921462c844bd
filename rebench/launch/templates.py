"""The files that users of a cluster take and adapt: where they lie in the package."""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["template_files"]

_FOLDER: Final = Path(__file__).parent / "cluster_files"
_PURPOSES: Final = {
    "one-job.sbatch": "a whole sweep inside one job, where jobs may not be sent from scripts",
    "rebench.def": "an Apptainer image of rebench, for container_image in a sweep",
}


def template_files() -> dict[Path, str]:
    """Every file and what it is for."""
    return {_FOLDER / name: purpose for name, purpose in _PURPOSES.items()}
