"""Decide the predictions of a plan: holds, fails or inconclusive; of plan H: yes, no or open.

usage: python -m experiments.surface.decided E|F|G|H [--json] [SWEEP=TABLE ...]

The plans are plan.md (E), plan-f.md (F), plan-g.md (G) and plan-h.md (H).
SWEEP is the name of a sweep's file in this folder, without `.toml`. TABLE is the folder of a run, a
file or a released table. If it is not given, it is the released table of a complete sweep, and
`runs/SWEEP` of another sweep. Trials are recognised by their ids. A sweep is evaluated only after
all of its trials have records. Published accuracies are those of the table `nb201`: mean accuracies
on the test images of CIFAR-10 after 200 epochs.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

import rebench.search
from cells.classes import functional_classes
from experiments.surface.draw import draw_plan_f
from experiments.surface.plan_h import measured
from experiments.surface.reranked import DRAWS, of_pair
from rebench.analysis.paired import Accuracies, Paired, read_accuracies
from rebench.analysis.seed_tau import with_interval
from rebench.analysis.tau import Floats, Ints, resampled_curves
from rebench.errors import RebenchError
from rebench.runs import SweepSpec, choose_cells, read_spec
from rebench.tables.opening import open_table, read_rows

__all__ = [
    "PLANS",
    "RELEASED",
    "SAMPLES",
    "VERDICTS",
    "Prediction",
    "decide",
    "of_classes",
    "order_of_algorithms",
    "published_accuracy",
    "published_taus",
    "stratified",
    "sweeps_of",
]

HERE: Final = Path(__file__).parent
BEST: Final = 0.95  # quantile of published accuracy where the best 5 % begin, as in draw.py
_BEST_5: Final = "best 5 %"
# The released table of each complete sweep.
RELEASED: Final = {
    "mini": "mini",
    "mini-init-parts": "mini-init-parts",
    "mini-init-parts-seeds": "mini-init-parts",
    "mini-60ep-first": "mini-60ep",
    "mini-60ep-second": "mini-60ep",
    "mini-60ep-nodecay": "mini-60ep-nodecay",
    "mini-proxy": "mini-proxy",
    "mini-he-parts": "mini-he-parts",
    "mini-proxy-upper": "mini-proxy-upper",
    "mini-proxy-he": "mini-proxy-he",
    "mini-proxy-60ep": "mini-proxy-60ep",
    "mini-32px": "mini-32px",
    "mini-all": "mini-all",
    "mini-all-888": "mini-all",
}


class Prediction(NamedTuple):
    """A line of a plan: it holds, or fails, by the limits of one interval.

    It holds if the interval is inside `holds_above` to `holds_below`. It fails if the interval is
    above `fails_above` or below `fails_below`.
    """

    number: str
    sweeps: tuple[str, ...]
    first: str
    second: str
    measure: str = "drop"
    """`drop`, or `gain`: the difference in tau with the published accuracies, second - first.
    Plan H has the measures of `plan_h`."""
    holds_above: float = -math.inf
    holds_below: float = math.inf
    fails_above: float = math.inf
    fails_below: float = -math.inf
    level: float = 0.95
    cells: str = ""
    """A key of `SAMPLES`; all cells if empty."""
    note: str = ""

    def verdict(self, low: float, high: float) -> str:
        """Return the verdict for the limits of an interval; some predictions both hold and fail."""
        holds = self.holds_above < low and high < self.holds_below
        fails = low > self.fails_above or high < self.fails_below
        said = [word for word, true in (("holds", holds), ("fails", fails)) if true]
        return " and ".join(said) or "inconclusive"


def _under(limit: float, fails: float | None = None) -> dict[str, Any]:
    return {"holds_below": limit, "fails_above": limit if fails is None else fails}


def _over(limit: float, fails: float | None = None) -> dict[str, Any]:
    return {"holds_above": limit, "fails_below": limit if fails is None else fails}


# `fixed` and `topology` have the seeds of two sweeps.
_E1: Final = ("mini", "mini-init-parts-seeds", "mini-init-parts")
_E2: Final = ("mini-60ep-first",)
_E3: Final = ("mini-proxy",)
_F1: Final = ("mini-he-parts", "mini", "mini-init-parts-seeds")
_F2: Final = ("mini-proxy-upper",)
_F3: Final = ("mini-all", "mini-all-888")
_G: Final = ("mini-32px",)
_NORMALISED: Final = "topology-lr(init_at=normalised)"
_OTHERS: Final = ("topology(init_at=others)", "topology-lr(init_at=others)")
_FASTER: Final = "topology(base_lr=2.3)"
_HE: Final = "fixed(init=he)"
_HE_NORMALISED: Final = "fixed(init=he,init_at=normalised)"
_LOWER: Final = "two-rates(normalised_lr=0.0167)"
_GAIN: Final[dict[str, Any]] = {"measure": "gain"}
_H1: Final = ("mini-best-60ep",)
_H2: Final = ("mini-all", "mini-all-888", "mini-all-999", "mini-all-lower")
_H3: Final = ("mini-32px", "mini-32px-seeds")
_LOW: Final = "fixed(lr=0.0125)"
_500: Final = "random 500"
_DIFFERENCE: Final = "difference of drops"  # from the drop between `fixed` and `topology`
VERDICTS: Final = {"holds": "yes", "fails": "no", "inconclusive": "open"}
"""The words of plans E to G, and those of plan H and of the pages."""

PLANS: Final = {
    "E": (
        Prediction("1", _E1, "fixed", _OTHERS[0], **_under(0.18)),
        Prediction("2", _E1, "fixed", _NORMALISED, **_over(0.10)),
        Prediction("3", _E1, "fixed", _OTHERS[1], **_under(0.18)),
        Prediction("4", _E1, "fixed", _HE, **_over(0.05)),
        Prediction("5", _E1, "topology", _NORMALISED, **_under(0.10)),
        Prediction("6", _E1[1:2], "fixed", "topology", **_over(0.05, 0.18)),
        Prediction("7", _E1[2:], *_OTHERS, **_under(0.10)),
        Prediction("8", _E2, "fixed", "topology", level=0.975, **_under(0.10)),
        Prediction("9", _E2, "topology", "topology-lr", level=0.975, **_under(0.10)),
        Prediction("10", ("mini-60ep-nodecay",), "fixed", "topology", **_over(0.05, 0.10)),
        Prediction("11", _E3, "fixed", _FASTER, level=0.975, **_GAIN, **_over(0.0, 0.05)),
        Prediction("12", _E3, "fixed", "topology-init", level=0.975, **_GAIN, **_over(0.0, 0.05)),
        Prediction("13", _E3, "fixed", "topology", **_GAIN, **_under(0.0, -0.05)),
        Prediction("14", _E3, "fixed", "topology-lr(base_lr=0.09)", **_GAIN, **_under(0.0, -0.05)),
    ),
    "F": (
        Prediction("F1.1", _F1, _HE_NORMALISED, _LOWER, **_under(0.10)),
        Prediction("F1.2", _F1, "fixed(init=he,init_at=others)", "fixed", **_under(0.10, 0.05)),
        Prediction("F2.1", _F2, "fixed", _HE, level=0.975, **_GAIN, **_over(0.0, 0.05)),
        Prediction(
            "F2.2", _F2, _FASTER, _HE, level=0.975, **_GAIN,
            holds_above=-0.10, holds_below=0.10, fails_above=0.10, fails_below=-0.10,
        ),
        Prediction(
            "F2.3", ("mini-proxy-60ep", *_F2), "fixed", _FASTER, level=0.975, **_GAIN,
            **_over(-0.08),
        ),
        Prediction("F3.1", _F3, "fixed", "topology", cells="random 500", **_over(0.10)),
        Prediction("F3.2", _F3, "fixed", "topology", cells="upper half of them", **_over(0.10)),
    ),
    "G": (
        Prediction("G1", _G, "fixed", "topology", **_over(0.10)),
        Prediction("G2", _G, "fixed", "topology", cells="best 30 published", **_over(0.10)),
        Prediction("G3", _G, "topology", "fixed", **_GAIN, **_over(0.0)),
    ),
    "H": (
        Prediction("H1.1", _H1, "fixed", "topology", **_under(0.15)),
        Prediction("H1.2", _H1, "fixed", "topology", measure="drop of overlap", **_under(0.20)),
        Prediction("H1.3", _H1, "fixed", "topology", measure="accuracy", **_under(0.0)),
        Prediction("H2.1", _H2, "fixed", _LOW, cells=_500, **_over(0.10)),
        Prediction("H2.2", _H2, _LOW, "topology", cells=_500, **_under(0.20)),
        Prediction(
            "H2.3", _H2, _LOW, "topology", measure=_DIFFERENCE, cells=_500, **_over(0.0, 0.05)
        ),
        Prediction(
            "H2.4", _H2[:3], "fixed", "topology", measure="drop over seeds", cells=_500,
            **_over(0.0, 0.10),
        ),
        Prediction("H3.1", _H3[1:], "fixed", "topology", **_over(0.0, 0.10)),
        Prediction("H3.2", _H3, "fixed", "topology", **_over(0.10)),
        Prediction(
            "H3.3", (*_H3, "mini-32px-lower"), _LOW, "topology", measure=_DIFFERENCE, **_over(0.0)
        ),
    ),
}  # fmt: skip


def published_accuracy() -> pd.Series[float]:
    """Return the mean published accuracy of each cell on CIFAR-10's test images, by index."""
    return open_table("nb201").means("cifar10", "ori-test", 200)


def of_classes(published: pd.Series[float]) -> pd.Series[float]:
    """Return the mean published accuracy of each class of equal networks, by smallest index."""
    means: pd.Series[float] = published.groupby(pd.Series(functional_classes("strict"))).mean()
    return means


def sweeps_of(plan: str) -> tuple[str, ...]:
    """Return the names of the sweeps that a plan needs."""
    named = [sweep for line in PLANS[plan] for sweep in line.sweeps]
    return tuple(dict.fromkeys([*named, *(["mini-60ep-second"] if plan == "E" else [])]))


def asked(sweep: str) -> SweepSpec:
    """Return the specification of a sweep; of `mini`, only the recipes of the five-seed sweep."""
    if sweep == "mini":
        recipes = read_spec(HERE / "mini-init-parts-seeds.toml").recipes
        return read_spec(HERE / "mini.toml").model_copy(update={"recipes": recipes})
    return read_spec(HERE / f"{sweep}.toml")


def trials_of(sweep: str, table: str) -> tuple[pd.DataFrame | None, str]:
    """Return the rows of a sweep on test images (None if a trial is missing), and their count."""
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


def stratified(final: Floats, published: pd.Series[float]) -> Ints:
    """Return all cells and then samples with replacement [1 + DRAWS, cells].

    The number of cells from the published best 5 % is the same in every sample.
    """
    rng, cells = np.random.default_rng(0), np.arange(len(final))
    sample = np.tile(cells, (1 + DRAWS, 1))
    best = final >= published.quantile(BEST)
    for stratum in filter(len, (cells[best], cells[~best])):
        sample[1:, stratum] = rng.choice(stratum, (DRAWS, len(stratum)))
    return sample


def published_taus(runs: Floats, final: Floats, sample: Ints) -> Floats:
    """Return tau of runs [cells, seeds] with published accuracies: the mean over seeds, [draws]."""
    curves = resampled_curves([(final, run) for run in runs.T], sample, [100])
    taus = [tau[:, 0] for tau, _ in curves]
    found: Floats = np.mean(taus, axis=0)
    return found


def gain(paired: Paired, published: pd.Series[float], level: float) -> dict[str, float]:
    """Return the gain in tau with the published accuracies from the first table to the second."""
    final = published[paired.baseline.cells].to_numpy()
    sample = stratified(final, published)
    first, second = (
        published_taus(table.runs, final, sample) for table in (paired.baseline, paired.other)
    )
    taus = {"first_tau": float(first[0]), "second_tau": float(second[0])}
    return {"n_cells": len(paired), **taus, **with_interval("gain", second - first, level=level)}


def _upper_half_of_them(published: pd.Series[float]) -> list[int]:
    """Return the classes among the 500 that are in the best half of all classes with a path."""
    drawn, of_class = draw_plan_f(published), of_classes(published)
    median = of_class[drawn["mini-all"]].median()
    return [cell for cell in drawn["random 500"] if of_class[cell] >= median]


def _best_tenth(published: pd.Series[float]) -> list[int]:
    """Return the published best tenth of the classes with a path."""
    accuracy = of_classes(published)[draw_plan_f(published)["mini-all"]]
    return accuracy.nlargest(round(len(accuracy) / 10)).index.tolist()


def _best_30_published(published: pd.Series[float]) -> list[int]:
    """Return half of the 60 cells of plan-g.md: those with the best published accuracies."""
    cells = asked("mini-32px").cells.indices or ()
    return published[list(cells)].nlargest(30).index.tolist()


SAMPLES: Final[Mapping[str, Callable[[pd.Series[float]], list[int]]]] = {
    # The random classes of plan-f.md, without the best tenth that is added to them.
    "random 500": lambda published: draw_plan_f(published)["random 500"],
    "upper half of them": _upper_half_of_them,
    "best tenth": _best_tenth,
    "best 30 published": _best_30_published,
    _BEST_5: lambda published: published.index[published >= published.quantile(BEST)].tolist(),
}


def decide(
    tables: Mapping[str, str], published: pd.Series[float], plan: str = "E"
) -> dict[str, Any]:
    """Return the number of trials of each sweep and the decided lines of a plan."""
    known = {sweep: trials_of(sweep, table) for sweep, table in tables.items()}
    trials = {sweep: said for sweep, (_, said) in known.items()}
    frames = {sweep: frame for sweep, (frame, _) in known.items()}
    rows = [_decided(line, frames, published) for line in PLANS[plan]]
    if plan == "E":
        rows += [_decided(line, frames, published) for line in _shown_too(rows)]
    return {"trials": trials, "predictions": rows}


def _decided(
    line: Prediction, frames: Mapping[str, pd.DataFrame | None], published: pd.Series[float]
) -> dict[str, Any]:
    found = {sweep: frames[sweep] for sweep in line.sweeps}
    parts = [frame for frame in found.values() if frame is not None]
    if len(parts) < len(found):
        return {**line._asdict(), "verdict": "no verdict: trials are missing"}
    recipes = [line.first, line.second]
    if line.number == "F2.3":  # recipes of two sweeps with different epochs
        pair = [_runs(part, recipe) for part, recipe in zip(parts, recipes, strict=True)]
    else:
        rows = pd.concat(parts)
        if line.cells:
            rows = rows[rows["index"].isin(SAMPLES[line.cells](published))]
        third = ["fixed"] if line.measure == _DIFFERENCE else []
        pair = [_runs(rows, recipe) for recipe in recipes + third]
    if line in PLANS["H"]:
        values = measured(line.measure, pair)
    elif line.measure == "gain":
        values = gain(Paired.of(*pair).whole, published, line.level)
    else:
        values = of_pair(pair[0], pair[1], line.level)
    low, high = values[f"{line.measure}_low"], values[f"{line.measure}_high"]
    verdict = line.verdict(low, high) if line.number else "shown, not predicted"
    if line in PLANS["H"]:
        verdict = " and ".join(VERDICTS[word] for word in verdict.split(" and "))
    return {**line._asdict(), **values, "verdict": verdict}


def _runs(rows: pd.DataFrame, recipe: str) -> Accuracies:
    return read_accuracies(rows, dataset=rows["dataset"].iloc[0], recipe=recipe)


def _shown_too(rows: list[dict[str, Any]]) -> list[Prediction]:
    """Return further predictions of plan E: other samples, and the second look if it is needed."""
    plan = PLANS["E"]
    fewer = ("mini", "mini-init-parts")
    lines = [line._replace(sweeps=fewer, note="without seeds 111 and 222") for line in plan[:5]]
    if rows[7]["verdict"] == "inconclusive":
        both, note = (*_E2, "mini-60ep-second"), "the second look, which decides"
        lines += [line._replace(sweeps=both, note=note) for line in plan[7:9]]
    others = [plan[10]._replace(second=name) for name in ("fixed(lr=0.05)", "topology-init")]
    within = [*others, plan[10], *plan[12:]]
    note = f"in the {_BEST_5}"
    return lines + [line._replace(number="", cells=_BEST_5, note=note) for line in within]


def order_of_algorithms(table: str, *, repeats: int = 60) -> dict[str, Any]:
    """Decide F3.3: whether the search algorithms have the same order on both recipes of a table.

    A pair of algorithms differs on a table if the 95 % interval of its win probability excludes
    0.5. If no pair differs on one of the tables, no pair can change its order significantly. Then
    nothing is decided.
    """
    recipes = [f"{table}@fixed", f"{table}@topology"]
    found = rebench.search.compare(recipes, repeats=repeats)
    swaps = [] if found.agreement is None else found.agreement.swaps.to_dict("records")
    tau = None if found.agreement is None else found.agreement.tau
    tables = []
    for result in found.results:
        wins = result.wins()
        differ = int(((wins["low"] > 0.5) | (wins["high"] < 0.5)).sum())
        p = float(result.ranks()["friedman_p"].iloc[0])
        tables.append({"pairs": len(wins), "pairs_that_differ": differ, "friedman_p": p})
    verdict = "fails" if swaps else "holds"
    if not all(row["pairs_that_differ"] for row in tables):
        verdict = "inconclusive"
    return {"number": "F3.3", "tau": tau, "swaps": swaps, "tables": tables, "verdict": verdict}


def line(row: Mapping[str, Any]) -> str:
    """Return a decided prediction as text."""
    of = ", ".join(filter(None, [*row["sweeps"], row["cells"], row["note"]]))
    text = f"{row['number'] or '-':>4}  {row['first']} against {row['second']}: {row['verdict']}\n"
    if "n_cells" not in row:
        return f"{text}      {of}"
    name = row["measure"]
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    text += f"      {name} {row[name]:.3f} ({100 * row['level']:g} % CI {low:.3f} to {high:.3f}), "
    if "by_seed_low" in row:
        shown = f"over seeds {row['by_seed_low']:.3f} to {row['by_seed_high']:.3f}"
    else:
        taus = ("first_tau", "second_tau") if name == "gain" else ("tau", "seed_tau")
        shown = ", ".join(f"{tau.replace('_', ' ')} {row[tau]:.2f}" for tau in taus)
    return f"{text}{shown}, {row['n_cells']} cells\n      {of}"


def main(words: list[str]) -> None:
    """Decide a plan and print it."""
    names = [word for word in words if word != "--json" and "=" not in word]
    if len(names) != 1 or names[0] not in PLANS:
        sys.exit(__doc__)
    given = dict(word.split("=", 1) for word in words if "=" in word)
    sweeps = sweeps_of(names[0])
    if unknown := set(given) - set(sweeps):
        sys.exit(f"no sweep is called {', '.join(unknown)}; there are {', '.join(sweeps)}")
    tables = {sweep: RELEASED.get(sweep, f"runs/{sweep}") for sweep in sweeps} | given
    decided = decide(tables, published_accuracy(), names[0])
    if "--json" in words:
        finite = [
            {name: value for name, value in row.items() if value not in (-math.inf, math.inf)}
            for row in decided["predictions"]
        ]
        text = json.dumps({**decided, "predictions": finite}, indent=1)
    else:
        counts = [f"{sweep}: {there}" for sweep, there in decided["trials"].items()]
        text = "\n".join([*counts, *map(line, decided["predictions"])])
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
