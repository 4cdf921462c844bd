"""What the searches in the released network say of equation 8: correlation, and identity line.

A rule is used from a base: the rate found for the base graph times what the rule says of another
graph over what it says of the base. The distance from the identity line counts a wrong scale too.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import pandas as pd

from rebench.intervals import Estimate
from rebench.theory.estimate import identity_factor
from rebench.theory.predictors import PERFECT, best_possible, score
from rebench.theory.rate_experiments import Experiment
from rebench.theory.result import Verdict, median_and_range

__all__ = [
    "AVERAGE",
    "BASE_COUNTED_3",
    "CRITERIA",
    "as_released",
    "bias_verdict",
    "released_verdicts",
    "score_released",
]

# Which loss the best rate has least of: the released code logs the average of the epoch, the
# paper's text says its end, here the mean of the last eighth of the steps.
AVERAGE: Final = "average of the epoch"
END: Final = "end of the epoch"
CRITERIA: Final = {AVERAGE: "measured", END: "measured_final"}

# The code gives the base graph the depth 3, and L + 3 = 4 to the same graph among the others.
BASE_COUNTED_3: Final = "eq. 8, L+3, base counted 3"
BASE_DEPTH = 3


def as_released(names: list[str]) -> str:
    """Return the predictor that the released code computes, among those of an experiment."""
    by_side = "eq. 8, L+3, q = side"
    return by_side if by_side in names else "eq. 8, L+3"


def score_released(measured: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Return the predictors' scores by both criteria: those of `score`, and the identity line.

    Args:
        measured: what `measure_experiment` returns, the base graph in its first row.
        rng: what resamples the graphs.

    Returns:
        One row per criterion and predictor: what `score` returns, `off`, the distance from the
        identity line with its interval, and `scale`, the mean factor of measured over predicted.
        Graphs that diverge at every rate are left out; `perfect rule` needs more than one seed.
    """
    base, graphs = measured.iloc[0], measured.iloc[1:]
    columns = list(measured.columns)
    names = columns[columns.index("measured_final") + 1 :]
    released = as_released(names)
    parts = []
    for criterion, column in CRITERIA.items():
        kept = graphs[np.isfinite(graphs[column])]
        truth = kept[column].to_numpy()
        rules = {name: (kept[name].to_numpy(), float(base[name])) for name in names}
        at_base = BASE_DEPTH**-1.5 / (float(base["kernel"]) or 1.0)
        rules[BASE_COUNTED_3] = (kept[released].to_numpy(), at_base)
        scored = score({name: values for name, (values, _) in rules.items()}, truth, rng)
        for place, (values, there) in enumerate(rules.values()):
            predicted = float(base[column]) * values / there
            off = identity_factor(predicted, truth, rng)
            scored.loc[place, ["off", "off_low", "off_high"]] = list(off)
            scored.loc[place, "scale"] = math.exp(float(np.log(truth / predicted).mean()))
        noise = kept["noise"].to_numpy()
        if criterion == AVERAGE and np.isfinite(noise).all():  # of one seed there is none to go by
            best = best_possible(truth, noise)
            scored = pd.concat([scored, pd.DataFrame([{"predictor": PERFECT, **best}])])
        scored.insert(0, "criterion", criterion)
        parts.append(scored)
    table = pd.concat(parts, ignore_index=True)
    table.insert(0, "experiment", measured["experiment"].iloc[0])
    return table


def released_verdicts(
    experiment: Experiment, measured: pd.DataFrame, scores: pd.DataFrame, law: str
) -> list[Verdict]:
    """Return the verdicts on one experiment: the correlation, and the rate that the base gives."""
    search = experiment.search
    name = as_released(list(measured.columns))
    tables = {
        criterion: part.set_index("predictor") for criterion, part in scores.groupby("criterion")
    }
    average = tables[AVERAGE]
    rates = measured["measured"].iloc[1:]
    edges = int(((rates <= search.lowest_lr) | (rates >= search.highest_lr)).sum())
    settings = (
        f"{len(rates)} graphs, {experiment.dataset} {experiment.side}x{experiment.side}, "
        f"width {search.width}, {search.steps} steps of {search.batch_size}, "
        f"{search.seeds} seed{'s' * (search.seeds > 1)}"
    )
    if edges:
        settings += f", {edges} best rates at the grid's edge"
    r, paths = _estimate(average, name, "r"), _estimate(average, "path count", "r")
    others = f"by the loss at the end of the epoch {_estimate(tables[END], name, 'r')}"
    if math.isfinite(paths.value):  # chains have one path each
        others += f", number of paths {paths}"
    base = _estimate(average, BASE_COUNTED_3, "off")
    constant = _estimate(average, "constant", "off")
    better = "better" if base.high < constant.value else "worse"
    if base.covers(constant.value):
        better = "not shown to be better"
    return [
        Verdict(
            law=law,
            quantity=f"r of equation 8, depths as the code counts them: {experiment.title}",
            paper=experiment.paper_r,
            ours=r,
            settings=settings,
            verdict=f"{_against(experiment.paper_r, r)}; {others}",
        ),
        Verdict(
            law=law,
            quantity=f"factor from the identity line, from the base's rate: {experiment.title}",
            paper=None,
            ours=base,
            settings=settings,
            verdict=f"{better} than the base's rate for all, off by {constant}",
        ),
    ]


def bias_verdict(shares: pd.DataFrame, width: int, law: str) -> Verdict:
    """Return the verdict on biases that learn at the rate of the weights."""
    part = median_and_range(shares["share"])
    return Verdict(
        law=law,
        quantity="share of biases in the squared one-step update of the output vertex",
        paper=None,
        ours=part,
        settings=f"{len(shares)} graphs with skips, width {width}, median and range",
        verdict="at the rate of the weights biases hardly move the output"
        if part.high < 0.01
        else "biases move the output beside the weights",
    )


def _against(paper: float | None, ours: Estimate) -> str:
    if paper is None:
        return "the paper has none"
    if ours.covers(paper):
        return "agrees with the paper's r"
    return f"the paper's r is {'above' if paper > ours.high else 'below'} our interval"


def _estimate(table: pd.DataFrame, predictor: str, column: str) -> Estimate:
    row = table.loc[predictor]
    return Estimate(row[column], row[f"{column}_low"], row[f"{column}_high"])
