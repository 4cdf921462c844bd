"""``trials.jsonl``: the trials that a run is to have, one a line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from rebench.errors import StoreError
from rebench.runs import Trial
from rebench.runs.shards import atomic_file

__all__ = ["listed_trials", "write_trials"]

_HEAD: Final = '{"trial_id":"'
_BETWEEN: Final = '","trial":'
_WRITTEN_ANEW: Final = "`rebench submit` with the sweep's file writes it anew"


def write_trials(run: Path, trials: Iterable[Trial]) -> None:
    """Store what is to be trained."""
    with atomic_file(run / "trials.jsonl") as file, file.open("w") as lines:
        lines.writelines(
            f"{_HEAD}{trial.trial_id}{_BETWEEN}{trial.model_dump_json()}}}\n" for trial in trials
        )


def listed_trials(run: Path, tell: Callable[[str], None]) -> Iterator[tuple[str, str]]:
    """Yield each trial's id and its JSON; there may be millions. What is wrong is told."""
    path, damaged = run / "trials.jsonl", 0
    start, end = len(_HEAD), len(_HEAD) + 16
    try:
        with path.open(errors="replace") as lines:
            for line in map(str.rstrip, lines):
                if line.startswith(_HEAD) and line.endswith("}}"):
                    yield line[start:end], line[end + len(_BETWEEN) : -1]
                else:
                    damaged += 1
    except FileNotFoundError:
        if (run / "spec.json").exists():
            tell(f"{path} is gone: {_WRITTEN_ANEW}")
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from error
    if damaged:
        tell(f"{path} is damaged in {damaged} lines: {_WRITTEN_ANEW}")
