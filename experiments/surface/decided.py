"""What came of the fourteen predictions of plan.md: each holds, fails or is undecided.

usage: python -m experiments.surface.decided PUBLISHED.csv [--json] [SWEEP=TABLE ...]

PUBLISHED.csv has the columns `index` and `cifar10_ori_test`, as for draw.py. SWEEP is parts, seeds,
last, undecayed, foretell, or second: the second look of E2, at sixty cells more. TABLE is a run's
folder, a file or a released table, `runs/SWEEP` unless said. Trials are known by their ids, which
tell all that was asked of them; nothing is computed of a sweep before all of its trials are there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from experiments.surface.reranked import DRAWS, of_pair
from rebench.analysis.concordance import tau_curves
from rebench.analysis.paired import Paired, read_accuracies
from rebench.analysis.ranking import with_interval
from rebench.errors import RebenchError
from rebench.runs import SweepSpec, choose_cells, read_spec
from rebench.tables.opening import read_rows

HERE = Path(__file__).parent
SWEEPS = (
    "mini",
    "mini-init-parts",
    "mini-init-parts-seeds",
    "mini-60ep-first",
    "mini-60ep-second",
    "mini-60ep-nodecay",
    "mini-proxy",
)
BEST = 0.95  # from this quantile of published accuracy up, as draw.py has it


class Prediction(NamedTuple):
    """A line of the plan's tables; `below` where it holds if the upper limit is under `holds`."""

    number: int
    sweeps: tuple[str, ...]
    first: str
    second: str
    below: bool
    holds: float
    fails: float
    level: float = 0.95
    note: str = ""

    def verdict(self, low: float, high: float) -> str:
        """What the limits of an interval say; some lines of the plan leave room for both."""
        holds = high < self.holds if self.below else low > self.holds
        fails = low > self.fails if self.below else high < self.fails
        said = [word for word, true in (("holds", holds), ("fails", fails)) if true]
        return " and ".join(said) or "undecided"


E1 = (
    "mini",
    "mini-init-parts-seeds",
    "mini-init-parts",
)  # `fixed` and `topology` have the seeds of two sweeps
E3 = ("mini-proxy",)
PREDICTIONS = (
    Prediction(1, E1, "fixed", "topology(init_at=others)", True, 0.18, 0.18),
    Prediction(2, E1, "fixed", "topology-lr(init_at=normalised)", False, 0.10, 0.10),
    Prediction(3, E1, "fixed", "topology-lr(init_at=others)", True, 0.18, 0.18),
    Prediction(4, E1, "fixed", "fixed(init=he)", False, 0.05, 0.05),
    Prediction(5, E1, "topology", "topology-lr(init_at=normalised)", True, 0.10, 0.10),
    Prediction(6, ("mini-init-parts-seeds",), "fixed", "topology", False, 0.05, 0.18),
    Prediction(
        7,
        ("mini-init-parts",),
        "topology(init_at=others)",
        "topology-lr(init_at=others)",
        True,
        0.10,
        0.10,
    ),
    Prediction(8, ("mini-60ep-first",), "fixed", "topology", True, 0.10, 0.10, 0.975),
    Prediction(9, ("mini-60ep-first",), "topology", "topology-lr", True, 0.10, 0.10, 0.975),
    Prediction(10, ("mini-60ep-nodecay",), "fixed", "topology", False, 0.05, 0.10),
    Prediction(11, E3, "fixed", "topology(base_lr=2.3)", False, 0.0, 0.05, 0.975),
    Prediction(12, E3, "fixed", "topology-init", False, 0.0, 0.05, 0.975),
    Prediction(13, E3, "fixed", "topology", True, 0.0, -0.05),
    Prediction(14, E3, "fixed", "topology-lr(base_lr=0.09)", True, 0.0, -0.05),
)


def asked(sweep: str) -> SweepSpec:
    """Return the specification of a sweep; of `mini`, only the recipes of the five-seed sweep."""
    if sweep == "mini":
        recipes = read_spec(HERE / "mini-init-parts-seeds.toml").recipes
        return read_spec(HERE / "mini.toml").model_copy(update={"recipes": recipes})
    return read_spec(HERE / f"{sweep}.toml")


def trials_of(sweep: str, table: str) -> tuple[pd.DataFrame | None, str]:
    """The rows of a sweep's trials on test images, None unless all are there; and how many are."""
    cells, _ = choose_cells(asked(sweep).cells, lambda _: np.empty(0))
    wanted = {trial.trial_id for family in asked(sweep).families(cells) for trial in family}
    try:
        rows = read_rows(table)
    except RebenchError as error:
        return None, f"0 of {len(wanted)} trials: {str(error).split(';')[0]}"
    rows = rows[rows["trial_id"].isin(wanted) & (rows["split"] == "ori-test")]
    there, ended = rows["trial_id"].nunique(), int((rows["status"] == "diverged").sum())
    said = f"{there} of {len(wanted)} trials" + (f", {ended} diverged" if ended else "")
    return rows if there == len(wanted) else None, said


def foretold(paired: Paired, published: pd.Series, level: float) -> dict[str, float]:
    """How much better the second table's runs rank the cells as published, strata kept."""
    final = published[paired.before.cells].to_numpy()
    rng, cells = np.random.default_rng(0), np.arange(len(paired))
    sample = np.tile(cells, (1 + DRAWS, 1))
    best = final >= published.quantile(BEST)
    for stratum in filter(len, (cells[best], cells[~best])):
        sample[1:, stratum] = rng.choice(stratum, (DRAWS, len(stratum)))
    first, second = (
        np.mean([tau_curves(final[sample], run[sample], [100])[0] for run in table.runs.T], axis=0)
        for table in (paired.before, paired.after)
    )
    taus = {"first_tau": float(first[0, 0]), "second_tau": float(second[0, 0])}
    gain = with_interval("gain", (second - first)[:, 0], level=level)
    return {"n_cells": len(paired), **taus, **gain}


def decide(tables: dict[str, str], published: pd.Series) -> dict[str, Any]:
    """How many trials of each sweep there are, what came of the predictions, and what follows."""
    known = {sweep: trials_of(sweep, table) for sweep, table in tables.items()}
    best = published.index[published >= published.quantile(BEST)]

    def row(told: Prediction, **changes: Any) -> dict[str, Any]:
        told = told._replace(**changes)
        frames = [known[sweep][0] for sweep in told.sweeps]
        if any(frame is None for frame in frames):
            return {**told._asdict(), "verdict": "no verdict: trials are missing"}
        rows = pd.concat(frames)
        if told.sweeps == E3 and not rows["index"].isin(published.index).all():
            return {**told._asdict(), "verdict": "no verdict: PUBLISHED.csv lacks cells of it"}
        rows = rows if told.number else rows[rows["index"].isin(best)]
        dataset = rows["dataset"].iloc[0]
        pair = [read_accuracies(rows, dataset=dataset, recipe=x) for x in (told.first, told.second)]
        if told.sweeps == E3:
            values, name = foretold(Paired.of(*pair).whole, published, told.level), "gain"
        else:
            values, name = of_pair(pair[0], pair[1], DRAWS, told.level), "drop"
        low, high = values[f"{name}_low"], values[f"{name}_high"]
        verdict = told.verdict(low, high) if told.number else "shown, not foretold"
        return {**told._asdict(), **values, "verdict": verdict}

    rows = [row(told) for told in PREDICTIONS]
    verdicts = {told["number"]: told["verdict"] for told in rows}
    alone = {"sweeps": ("mini", "mini-init-parts"), "note": "without seeds 111 and 222"}
    rows += [row(told, **alone) for told in PREDICTIONS[:5]]
    if verdicts[8] == "undecided":
        second = {
            "sweeps": ("mini-60ep-first", "mini-60ep-second"),
            "note": "the second look, which decides",
        }
        rows += [row(told, **second) for told in PREDICTIONS[7:9]]
    within = {"number": 0, "note": "in the best 5 % alone"}
    rows += [row(PREDICTIONS[10], second=x, **within) for x in ("fixed(lr=0.05)", "topology-init")]
    rows += [row(PREDICTIONS[at], **within) for at in (10, 12, 13)]
    missing = any(verdicts[number].startswith("no") for number in (1, 2, 3, 5))
    if missing:
        rate = "not decided yet"
    elif all(verdicts[number] == "holds" for number in (1, 2, 3, 5)):
        rate = "may be said without `mostly`"
    elif verdicts[2] == "fails" or verdicts[1] == verdicts[3] == "fails":
        rate = "may not be said"
    else:
        rate = "partly, with the figures"
    trials = {sweep: said for sweep, (_, said) in known.items()}
    return {"trials": trials, "predictions": rows, "the init is a rate": rate}


def line(told: dict[str, Any]) -> str:
    """A row as text."""
    note = f"; {told['note']}" if told["note"] else ""
    text = f"{told['number'] or '-':>2}  {told['first']} against {told['second']}"
    text += f" ({', '.join(told['sweeps'])}{note}): {told['verdict']}\n    "
    if "n_cells" in told:
        name = "gain" if "gain" in told else "drop"
        text += f"{name} {told[name]:.3f} [{told[name + '_low']:.3f}, {told[name + '_high']:.3f}] "
        text += f"at {100 * told['level']:g} %, {told['n_cells']} cells, "
        if name == "drop":
            text += f"tau {told['tau']:.2f}, of noise {told['seed_tau']:.2f}: {told['ratio']:.2f}; "
        else:
            text += f"tau {told['first_tau']:.2f} and {told['second_tau']:.2f}; "
    sides = ("upper limit <", "lower limit >")[:: 1 if told["below"] else -1]
    return f"{text}holds if {sides[0]} {told['holds']:g}, fails if {sides[1]} {told['fails']:g}"


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--json"]
    if not words:
        sys.exit(__doc__)
    given = dict(word.split("=", 1) for word in words[1:])
    if unknown := set(given) - set(SWEEPS):
        sys.exit(f"no sweep is called {', '.join(unknown)}; there are {', '.join(SWEEPS)}")
    tables = {sweep: f"runs/{sweep}" for sweep in SWEEPS} | {"mini": "mini"} | given
    decided = decide(tables, pd.read_csv(words[0]).set_index("index")["cifar10_ori_test"])
    text = json.dumps(decided, indent=1)
    if "--json" not in sys.argv:
        lines = [f"{sweep}: {there}" for sweep, there in decided["trials"].items()]
        lines += map(line, decided["predictions"])
        text = "\n".join([*lines, f"`the init is a rate`: {decided['the init is a rate']}"])
    sys.stdout.write(f"{text}\n")
