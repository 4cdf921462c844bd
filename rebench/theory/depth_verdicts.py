"""Verdicts of the depth law: its exponent, and Monte Carlo beside what is exact."""

from __future__ import annotations

import pandas as pd

from rebench.intervals import Estimate
from rebench.theory.result import Verdict, median_and_range

__all__ = ["LAW", "exactness_verdict", "exponent_verdict"]

LAW = "depth (Jelassi et al.)"
PAPER_EXPONENT = -1.5


def exponent_verdict(
    networks: str, slope: Estimate, *, exact: float, limit: float, settings: str, more: str = ""
) -> Verdict:
    """Hold the exponent of the maximal rate in L against the paper's and our recursion's.

    Args:
        networks: which.
        slope: what was measured.
        exact: by our recursion at these widths.
        limit: by it at infinite width.
        settings: what was drawn.
        more: a clause that the verdict ends with.
    """
    holds = "agrees with" if slope.covers(PAPER_EXPONENT) else "differs from"
    own = "agrees" if slope.covers(exact) else "disagrees"
    return Verdict(
        law=LAW,
        quantity=f"exponent of the maximal learning rate in L, {networks}",
        paper=PAPER_EXPONENT,
        ours=slope,
        settings=settings,
        verdict=f"{holds} -3/2; {own} with our exact finite-width recursion ({exact:.3f}; infinite "
        f"width over these depths {limit:.3f}){more and '; '}{more}",
    )


def exactness_verdict(
    quantity: str,
    measured: pd.Series[float],
    exact: pd.Series[float],
    standard_error: pd.Series[float],
    *,
    settings: str,
) -> Verdict:
    """Hold means of draws against exact values, by their ratio and in standard errors."""
    away = (measured - exact).abs() / standard_error
    return Verdict(
        law=LAW,
        quantity=quantity,
        paper=None,
        ours=median_and_range(measured / exact),
        settings=f"{settings}, median and range",
        verdict=f"{(away < 2).sum()} of {len(away)} within 2 standard errors, the farthest "
        f"{away.max():.1f} away",
    )
