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

from rebench.analysis import Choices
from rebench.analysis.rates import rate_gains
from rebench.analysis.study import study
from rebench.analysis.surface import read_surface
from rebench.errors import InputError, RebenchError
from rebench.launch.expansion import expand_spec
from rebench.launch.run import Run
from rebench.launch.state import cancel_jobs
from rebench.launch.status import Status, follow
from rebench.launch.submit import Order, submit_sweep
from rebench.machine import cores
from rebench.recipes import BENCHMARK_LR
from rebench.report import Written, write_report
from rebench.report.recipe_rates import with_rates
from rebench.runs import Expansion, SweepSpec, parse_spec
from rebench.search import Budget, search_table
from rebench.search.comparison import compare
from rebench.tables import open_table
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
    searched: tuple[str, ...]
    """How two NAS algorithms do on the table of each recipe."""
    surface: str
    """What a cell's own rate is worth on real images, from the released table."""
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
    spec = parse_spec(content, str(spec_file))
    expansion = expand_spec(spec)
    _train(folder, spec, expansion, tell)
    tell("Comparing, drawing and writing", 0, 1)
    asked = study(read_rows(folder), Choices(draws=draws), name=folder)
    written = write_report(asked, out / "report")
    tell("Comparing, drawing and writing", 1, 1)
    return Demonstrated(
        spec=spec_file,
        run=folder,
        report=written,
        findings=tuple(str(reranking) for reranking in asked.rerankings),
        searched=tuple(_searched(folder, recipe) for recipe in ("nb201", "topology")),
        surface=_own_rates(),
        best=int(asked.rerankings[-1].top["index"].iloc[0]),
        seconds=time.monotonic() - begun,
    )


def _searched(run: Path, recipe: str) -> str:
    table = open_table(run, recipe=recipe)
    searched = search_table(table, table.usual_key().dataset, validation=False)
    budget = Budget(evaluations=max(2, len(searched.space) // 3))
    compared = compare(searched, ["rea", "random"], budget=budget, repeats=_SEARCHES)
    means = compared.summary().set_index("algorithm")["mean"]
    [pair] = compared.wins().itertuples()
    return (
        f"{recipe}, {budget.evaluations:g} of {len(searched.space)} cells: regularised evolution "
        f"ends at {means['rea']:.1f} %, random search at {means['random']:.1f} %; the first is "
        f"better in {pair.wins:.0%} of all pairs of runs ({pair.low:.0%} to {pair.high:.0%})"
    )


def _own_rates() -> str:
    rows = with_rates(read_rows("surface"))
    surface = read_surface(rows, dataset=str(rows["dataset"].iloc[0]))
    gains = rate_gains(surface, reference=BENCHMARK_LR)
    of, over = gains["of"] == "own best rate", gains["over"] == "best single rate"
    row = gains[of & over & (gains["top_percent"] == 100)].iloc[0]
    return (
        f"{len(surface.cells)} cells trained at {len(surface.rates)} rates on CIFAR-10 at low "
        f"resolution: each cell's own best rate is worth {row['gain']:+.2f} points over the best "
        f"single rate for all ({row['gain_low']:+.2f} to {row['gain_high']:+.2f})"
    )


def _train(folder: Path, spec: SweepSpec, expansion: Expansion, tell: Stage) -> None:
    """Submit what is pending or lost until every trial has a record."""
    total = len(expansion.trials)
    workers = max(1, min(cores(), 8))
    order = Order(cluster="local", trials_per_job=-(-total // workers), accept_change=True)
    send = functools.partial(submit_sweep, folder, spec, expansion, order)

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
