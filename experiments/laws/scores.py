"""Scores of rules from searches of maximal rates: correlation, calibration, identity line.

A correlation is not sufficient: it ignores a wrong slope or scale, and the number of paths also
correlates. Every rule is scored by r, by slope and by typical factor. As in the paper, a rule also
transfers the rate of a base graph: this rate times the prediction for another graph over the
prediction for the base. The distance from the identity line includes a wrong scale.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from experiments.laws.estimate import (
    correlation,
    correlation_gain,
    identity_factor,
    log_slope,
    rms_log_factor,
)
from experiments.laws.graph_rates import Experiment
from experiments.laws.result import Verdict, row_estimate, text, verdict
from rebench.intervals import Estimate

PERFECT: Final = "perfect rule"
# Loss that the best rate minimises: the average of the epoch in the released code, its end in the
# paper's text (here the mean of the last eighth of the steps).
AVERAGE: Final = "average of the epoch"
END: Final = "end of the epoch"
CRITERIA: Final = {AVERAGE: "measured", END: "measured_final"}

# In the released code the base graph has depth 3; as one of the other graphs it has L + 3 = 4.
BASE_COUNTED_3: Final = "eq. 8, L+3, base counted 3"
BASE_DEPTH = 3


def score(
    predictions: Mapping[str, npt.NDArray[np.float64]],
    measured: npt.NDArray[np.float64],
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Score each predictor against the measured rates.

    Returns:
        One row per predictor: `r` with its interval; `slope` of log measured on log predicted
        (1 if the rule has the right power); `factor` with its interval, the typical factor
        between measured rate and c * prediction; `gain` with its interval, r minus the r of the
        first predictor on the same graphs.
    """
    rows = []
    first = next(iter(predictions.values()))
    for name, values in predictions.items():
        gain = correlation_gain(values, first, measured, rng)
        r = correlation(values, measured, rng)
        factor = rms_log_factor(values, measured, rng)
        rows.append(
            {
                "predictor": name,
                **_columns("r", r),
                "slope": log_slope(values, measured) if np.ptp(values) > 0 else math.nan,
                **_columns("factor", factor),
                **_columns("gain", gain),
            }
        )
    return pd.DataFrame(rows)


def _columns(name: str, estimate: Estimate) -> dict[str, float]:
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}


def best_possible(
    measured: npt.NDArray[np.float64], noise: npt.NDArray[np.float64]
) -> dict[str, float]:
    """Return the best possible `r` and `factor`: those of the true rates, given the seed noise.

    The variance of measured rates is the variance of true rates plus that of noise. The share of
    true rates is r squared. It is 0 if noise explains all differences, and nan for one seed.
    """
    errors = np.log(noise)
    share = 1 - float(np.mean((measured * errors) ** 2) / np.var(measured, ddof=1))
    r = max(share, 0.0) ** 0.5 if np.isfinite(share) else share
    return {"r": r, "factor": float(np.exp(np.sqrt(np.mean(errors**2))))}


def _predictors(measured: pd.DataFrame) -> list[str]:
    columns = list(measured.columns)
    return columns[columns.index("measured_final") + 1 :]


def score_experiment(measured: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Score the predictors of one experiment's table, by both criteria of the search.

    The row `perfect rule` is the best possible score: r and factor of a rule that predicts every
    rate except for the noise of its mean over seeds.
    """
    predictions = {name: measured[name].to_numpy() for name in _predictors(measured)}
    scored = score(predictions, measured["measured"].to_numpy(), rng)
    final = score(predictions, measured["measured_final"].to_numpy(), rng)
    scored["r_final"] = final["r"]
    best = best_possible(measured["measured"].to_numpy(), measured["noise"].to_numpy())
    scored = pd.concat([scored, pd.DataFrame([{"predictor": PERFECT, **best}])], ignore_index=True)
    scored.insert(0, "experiment", measured["experiment"].iloc[0])
    return scored


def as_released(names: list[str]) -> str:
    """Return the predictor of the released code, among those of an experiment."""
    by_side = "eq. 8, L+3, q = side"
    return by_side if by_side in names else "eq. 8, L+3"


def score_released(measured: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Score the predictors by both criteria: columns of `score`, and the identity line.

    Args:
        measured: result of `measure_experiment`, with the base graph in its first row.
        rng: generator of the resampling of graphs.

    Returns:
        One row per criterion and predictor: the columns of `score`; `off`, the distance from the
        identity line with its interval; `scale`, the mean factor of measured over predicted.
        Graphs that diverge at every rate are omitted; `perfect rule` needs several seeds.
    """
    base, graphs = measured.iloc[0], measured.iloc[1:]
    names = _predictors(measured)
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
        if criterion == AVERAGE and np.isfinite(noise).all():  # unknown for one seed
            best = best_possible(truth, noise)
            scored = pd.concat([scored, pd.DataFrame([{"predictor": PERFECT, **best}])])
        scored.insert(0, "criterion", criterion)
        parts.append(scored)
    table = pd.concat(parts, ignore_index=True)
    table.insert(0, "experiment", measured["experiment"].iloc[0])
    return table


def rate_verdict(
    *, paper: float | None, rule: str, scores: pd.DataFrame, **searched: object
) -> Verdict:
    """Return the verdict on one experiment from the result of `score_experiment`.

    `rule` is the predictor of equation 8; `searched` is additional text.
    """
    table = scores.set_index("predictor")
    ours = row_estimate(table.loc[rule], "r")
    if paper is None:
        judged = "no correlation is shown" if ours.covers(0.0) else "correlates"
    else:
        judged = _against(paper, ours)
        others = [
            str(name).removeprefix("eq. 8, ")
            for name in table.index
            if str(name).startswith("eq. 8") and row_estimate(table.loc[name], "r").covers(paper)
        ]
        if others and not ours.covers(paper):
            judged += f", but inside the interval for {' and for '.join(others)}"
    factor = row_estimate(table.loc[rule], "factor")
    return verdict(
        "dag.rate", ours, paper, judged=judged, factor=factor, **_calibration(table, factor),
        **searched,
    )  # fmt: skip


def rule_verdict(*, rule: str, scores: pd.DataFrame, **searched: object) -> Verdict:
    """Return the verdict on one rule as a rate: its error, compared with a constant rate."""
    table = scores.set_index("predictor")
    ours, r = (row_estimate(table.loc[rule], column) for column in ("factor", "r"))
    return verdict("cells.rule", ours, rule=rule, r=r, **_calibration(table, ours), **searched)


def _calibration(table: pd.DataFrame, factor: Estimate) -> dict[str, object]:
    """Compare a rule's typical factor with that of one rate for all."""
    constant = float(table["factor"].loc["constant"])
    worse, better = factor.low > constant, factor.high < constant
    compared = "worse" if worse else "better" if better else "not better"
    return {"constant": constant, "compared": compared}


def _against(paper: float, ours: Estimate) -> str:
    if ours.covers(paper):
        return "agrees with the paper's r"
    return f"the paper's r is {'above' if paper > ours.high else 'below'} our interval"


def released_verdicts(
    experiment: Experiment, measured: pd.DataFrame, scores: pd.DataFrame
) -> Iterator[Verdict]:
    """Return the verdicts on one experiment: correlation, and rates from the base's rate."""
    search = experiment.search
    name = as_released(list(measured.columns))
    tables = {
        criterion: part.set_index("predictor") for criterion, part in scores.groupby("criterion")
    }
    average = tables[AVERAGE]
    rates = measured["measured"].iloc[1:]
    edges = int(((rates <= search.lowest_lr) | (rates >= search.highest_lr)).sum())
    searched = text(
        "released.search", "settings", graphs=len(rates), e=experiment, s=search,
        dataset=measured["dataset"].iloc[0],
        plural="s" * (search.seeds > 1),
        edges=f", {edges} best rates at the edge of the grid" if edges else "",
    )  # fmt: skip
    r, paths = row_estimate(average.loc[name], "r"), row_estimate(average.loc["path count"], "r")
    base = row_estimate(average.loc[BASE_COUNTED_3], "off")
    constant = row_estimate(average.loc["constant"], "off")
    better = "better" if base.high < constant.value else "worse"
    if base.covers(constant.value):
        better = "not shown to be better"
    paper = experiment.paper_r
    yield verdict(
        "released.rate", r, paper, title=experiment.title, searched=searched,
        judged="the paper has no value" if paper is None else _against(paper, r),
        final=row_estimate(tables[END].loc[name], "r"),
        # chains have one path each
        paths=f"; r by the number of paths {paths}" if math.isfinite(paths.value) else "",
    )  # fmt: skip
    yield verdict(
        "released.base", base, title=experiment.title, searched=searched, better=better,
        constant=constant,
    )  # fmt: skip
