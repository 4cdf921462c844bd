"""The demonstration: the whole pipeline, small, on data that every machine has.

Samples cells, trains them on handwritten digits under three recipes and three seeds through the
real launcher on this machine, collects the records, ranks with the noise baseline and writes the
report. Everything lies in one folder; called again, it goes on where it was.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Final

import numpy as np

from rebench.analysis import Choices, Reranking, compare
from rebench.analysis.study import study
from rebench.errors import InputError, RebenchError
from rebench.launch.expansion import expand_spec
from rebench.launch.state import cancel_jobs
from rebench.launch.status import Status, follow
from rebench.launch.submit import submit
from rebench.machine import cores
from rebench.report import Written, write_report
from rebench.runs import Run, parse_spec
from rebench.search import Budget
from rebench.search.compared import Compared
from rebench.search.compared import compare as compare_algorithms
from rebench.tables.opening import read_rows

__all__ = ["CELLS", "Demonstrated", "Stage", "demonstrate"]

# From the weakest to the best on the benchmark, one of a functional class: cells that a few seconds
# tell apart. All are cells of `experiments/surface`.
CELLS: Final = (
    *(7062, 9619, 6927, 1696, 6169, 10052, 6203, 10364, 3954, 3979, 1739, 11821),
    *(2903, 11865, 11122, 10789, 9393, 12900, 5891, 8420, 102, 15501, 2238, 1335),
)

_LOOK_S: Final = 1.0
_SEARCHES: Final = 200

Stage = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstrated:
    """What the demonstration left."""

    spec: Path
    run: Path
    report: Written
    findings: tuple[str, ...]
    searched: Compared
    """Whether two NAS algorithms rank alike on the tables of two recipes."""
    released: Reranking
    """How far the recipe moves the ranking on real images, in the released table."""
    best: int
    """Index of the cell that ranks first after re-training."""
    seconds: float


def demonstrate(out: Path, *, cells: int, epochs: int, draws: int, tell: Stage) -> Demonstrated:
    """Run the demonstration in `out`, or what is left of it; a second call finds all done.

    Interrupted, it ends its jobs, which keep their checkpoints.
    """
    begun = time.monotonic()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {out}: {error.strerror}") from error
    spec_file, folder = out / "sweep.toml", out / "run"
    chosen = [CELLS[round(at)] for at in np.linspace(0, len(CELLS) - 1, cells)]
    template = Template(Path(__file__).with_name("demo.toml").read_text("utf-8"))
    content = template.substitute(n=cells, cells=chosen, epochs=epochs)
    spec_file.write_text(content)
    total = len(expand_spec(parse_spec(content, str(spec_file))).trials)
    _train(spec_file, folder, total, tell)
    tell("Comparing, drawing and writing", 0, 1)
    asked = study(read_rows(folder), Choices(draws=draws), name=folder)
    written = write_report(asked, out / "report")
    tell("Comparing, drawing and writing", 1, 1)
    return Demonstrated(
        spec=spec_file,
        run=folder,
        report=written,
        findings=tuple(str(reranking) for reranking in asked.rerankings),
        searched=compare_algorithms(
            [f"{folder}@nb201", f"{folder}@topology"],
            ["rea", "random"],
            budget=Budget(evaluations=max(2, cells // 3)),
            repeats=_SEARCHES,
        ),
        released=compare("surface@fixed", "surface@topology"),
        best=int(asked.rerankings[-1].top["index"].iloc[0]),
        seconds=time.monotonic() - begun,
    )


def _train(spec: Path, folder: Path, total: int, tell: Stage) -> None:
    """Submit what is pending or lost until every trial has a record."""
    each = -(-total // max(1, min(cores(), 8)))
    send = functools.partial(
        submit, spec, folder, cluster="local", trials_per_job=each, accept_change=True
    )

    def look(status: Status) -> None:
        tell("Training", _finished(status), total)

    try:
        send()
        status = follow(Run.open(folder), look, every_s=_LOOK_S, send=send)
    except KeyboardInterrupt:
        with contextlib.suppress(RebenchError):  # there may be no run yet
            cancel_jobs(Run.open(folder))
        raise
    if _finished(status) < total:
        counts = ", ".join(f"{count} {state}" for state, count in status.counts.items() if count)
        raise RebenchError(
            f"the demonstration's trials did not all finish ({counts}): see `rebench status"
            f" {folder} --trials` and `rebench logs {folder} TRIAL`, then run the same"
            " command again"
        )


def _finished(status: Status) -> int:
    return status.counts["done"] + status.counts["diverged"]
