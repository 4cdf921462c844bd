"""What the searches of maximal rates say of equation 8: against the paper, and as a rate."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from rebench.intervals import Estimate
from rebench.theory.result import Verdict

__all__ = ["rate_verdict", "rule_verdict"]


def rate_verdict(
    *, law: str, title: str, paper: float | None, rule: str, scores: pd.DataFrame, settings: str
) -> Verdict:
    """Return the verdict on one experiment, by the scores that `score_experiment` returns.

    `rule` is the predictor that stands for equation 8.
    """
    table = scores.set_index("predictor")
    ours = _estimate(table, rule, "r")
    readings = {
        str(name).removeprefix("eq. 8, "): _estimate(table, str(name), "r")
        for name in table.index
        if str(name).startswith("eq. 8") and name != rule
    }
    return Verdict(
        law=law,
        quantity=f"r of equation 8 with measured maximal rates: {title}",
        paper=paper,
        ours=ours,
        settings=settings,
        verdict=f"{_against(paper, ours, readings)}; {_calibration(table, rule)}",
    )


def rule_verdict(*, law: str, rule: str, scores: pd.DataFrame, settings: str) -> Verdict:
    """Return the verdict on one rule as a rate: how far off it is, beside one rate for all."""
    table = scores.set_index("predictor")
    return Verdict(
        law=law,
        quantity=f"factor that a rate set by {rule} is off, after the best common scale",
        paper=None,
        ours=_estimate(table, rule, "factor"),
        settings=settings,
        verdict=f"{_calibration(table, rule)}; r {_estimate(table, rule, 'r')}",
    )


def _against(paper: float | None, ours: Estimate, readings: Mapping[str, Estimate]) -> str:
    if paper is None:
        return "no correlation is shown" if ours.covers(0.0) else "correlates"
    if ours.covers(paper):
        return "agrees with the paper's r"
    side = "above" if paper > ours.high else "below"
    others = [name for name, r in readings.items() if r.covers(paper)]
    inside = f", inside that of {' and '.join(others)}" if others else ""
    return f"the paper's r is {side} our interval{inside}"


def _calibration(table: pd.DataFrame, rule: str) -> str:
    off = _estimate(table, rule, "factor")
    constant = _estimate(table, "constant", "factor").value
    side = "worse" if off.low > constant else "better" if off.high < constant else "no better"
    return f"as a rate {side} than a constant, off by a factor {off} against {constant:.2f}"


def _estimate(table: pd.DataFrame, predictor: str, column: str) -> Estimate:
    row = table.loc[predictor]
    return Estimate(row[column], row[f"{column}_low"], row[f"{column}_high"])
