"""The verdict on a power of the depth, fitted to draws at several depths."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rebench.intervals import Estimate
from rebench.theory.estimate import fit_exponent
from rebench.theory.result import Verdict

__all__ = ["depth_exponent"]


def depth_exponent(
    rows: pd.DataFrame,
    column: str,
    rng: np.random.Generator,
    *,
    law: str,
    quantity: str,
    paper: float | None,
    text: str,
    width: int,
    settings: str,
    geometric: bool = False,
) -> Verdict:
    """Return the verdict on the exponent in depth of a column's mean over draws, a row each.

    `text` is what it says besides how ours stands to the paper's; `settings` what they say besides
    width, depths and draws. With `geometric` logarithms are averaged.
    """
    samples = {int(str(depth)): drawn.to_numpy() for depth, drawn in rows.groupby("depth")[column]}
    slope = fit_exponent(list(samples), list(samples.values()), 1.0, rng, geometric=geometric)
    depths = f"L = {min(samples)}-{max(samples)}"
    return Verdict(
        law=law,
        quantity=quantity,
        paper=paper,
        ours=slope,
        settings=f"width {width}, {depths}, {len(samples[min(samples)])} draws, {settings}",
        verdict=text if paper is None else f"{_agreement(slope, paper)}; {text}",
    )


def _agreement(slope: Estimate, paper: float) -> str:
    if slope.covers(paper):
        return "agrees"
    if abs(slope.value - paper) < 0.12:
        return "within 0.12 of it, which is outside the interval"
    return "differs"
