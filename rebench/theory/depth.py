"""The depth law of the maximal-update learning rate in ReLU MLPs (Jelassi et al., 2023).

Hidden weights N(0, 2/n), readout N(0, 1/n^2), one input with ||x||^2 = n, one step of gradient
descent with rate eta and loss derivative 1. The paper: E[(dz_l)^2] grows like eta^2 l^3, so the
rate at which it is 1 at depth L falls like L^(-3/2). `docs/explanation/laws.md` derives it.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from rebench.errors import InputError
from rebench.intervals import Estimate
from rebench.theory.depth_recursion import (
    TERMS,
    finite_width_terms,
    infinite_width_moment,
    infinite_width_terms,
    maximal_lr,
    moments_at_ratio,
    printed_moment,
)
from rebench.theory.depth_step import STEP_FACTORS, sample_updates
from rebench.theory.depth_verdicts import LAW, exactness_verdict, exponent_verdict
from rebench.theory.estimate import fit_exponent, log_slope
from rebench.theory.pieces import Piece, Pieces
from rebench.theory.result import LawResult, Verdict, median_and_range
from rebench.theory.unequal_widths import UnequalSettings, measure_unequal

__all__ = [
    "FULL",
    "QUICK",
    "DepthSettings",
    "measure_depth_law",
]

# So deep that the leading power is what is left at a fixed L/n.
LARGE_DEPTH = 1024


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DepthSettings:
    """Sizes of the measurement; the exponent is fitted over `fit_depths`."""

    widths: tuple[int, ...] = (64, 128, 256)
    depths: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
    fit_depths: tuple[int, int] = (2, 16)
    draws: int = 400
    readouts: int = 4
    unequal: UnequalSettings = dataclasses.field(default_factory=UnequalSettings)
    seed: int = 0

    def __post_init__(self) -> None:
        if len(self.fitted_depths) < 2:
            raise InputError(
                f"fit_depths must span two of the depths {self.depths}, got {self.fit_depths}"
            )

    @property
    def fitted_depths(self) -> list[int]:
        """The depths that the exponent is fitted over."""
        return [d for d in self.depths if self.fit_depths[0] <= d <= self.fit_depths[1]]


FULL = DepthSettings()
QUICK = DepthSettings(
    widths=(64, 256), depths=(1, 2, 4, 8, 16), draws=100,
    unequal=UnequalSettings(narrow=32, wide=128, depths=(2, 4, 8, 16), draws=100),
)  # fmt: skip


def measure_depth_law(settings: DepthSettings = FULL, pieces: Pieces | None = None) -> LawResult:
    """Measure growth and exponent at every width; one piece per width and depth."""
    pieces = pieces or Pieces()
    pieces.expect(len(settings.widths) * len(settings.depths))
    rng = np.random.default_rng(settings.seed)
    growth, fits, terms, verdicts = [], [], [], []
    for width in settings.widths:
        last: dict[int, npt.NDArray[np.float64]] = {}
        by_term = finite_width_terms(width, max(settings.depths))
        exact = by_term.sum(axis=1)
        frames = pieces.get([_piece(settings, width, depth) for depth in settings.depths])
        for depth, frame in zip(settings.depths, frames, strict=True):
            top = frame[frame["layer"] == depth]
            last[depth] = top["linear"].to_numpy()
            growth.append(_growth_row(width, depth, top, float(exact[depth - 1])))
            terms += _term_rows(width, depth, top, by_term[depth - 1])
        fitted = settings.fitted_depths
        slope = fit_exponent(fitted, [last[depth] for depth in fitted], -0.5, rng)
        expected = log_slope(fitted, exact[np.array(fitted) - 1] ** -0.5)
        fits.append(
            {"width": width, "exponent": slope.value, "low": slope.low, "high": slope.high,
             "exact": expected, "limit": _limit_slope(fitted)}
        )  # fmt: skip
        verdicts.append(
            exponent_verdict(
                f"width {width}", slope, exact=expected, limit=_limit_slope(fitted),
                settings=f"{_measured(settings)}, first-order update",
            )
        )  # fmt: skip
    tables = {
        "growth": pd.DataFrame(growth), "terms": pd.DataFrame(terms), "exponent": pd.DataFrame(fits)
    }  # fmt: skip
    for width, found in tables["terms"].groupby("width", sort=False):
        fitted_terms = found[found["depth"].isin(settings.fitted_depths)]
        verdicts.append(
            exactness_verdict(
                f"terms A, B, C of our recursion: Monte Carlo over exact, width {width}",
                fitted_terms["measured"], fitted_terms["exact"], fitted_terms["standard_error"],
                settings=f"{_measured(settings)}, {len(fitted_terms)} terms",
            )
        )  # fmt: skip
    tables["ratio"] = moments_at_ratio(LARGE_DEPTH)
    verdicts += [_ratio_verdict(tables["ratio"]), _printed_verdict(settings)]
    tables["widths"], unequal = measure_unequal(settings.unequal, settings.seed, pieces)
    verdicts += unequal
    return LawResult(law="depth", tables=tables, verdicts=tuple(verdicts))


def _piece(settings: DepthSettings, width: int, depth: int) -> Piece:
    def compute() -> pd.DataFrame:
        generator = torch.Generator().manual_seed(settings.seed * 1_000_003 + width * 1009 + depth)
        return sample_updates(
            [width] * (depth + 1), draws=settings.draws, readouts=settings.readouts,
            generator=generator,
        )  # fmt: skip

    key = {"width": width, "depth": depth, "draws": settings.draws, "seed": settings.seed}
    return Piece(
        kind="depth-terms", settings={**key, "readouts": settings.readouts}, compute=compute
    )


def _growth_row(width: int, depth: int, top: pd.DataFrame, exact: float) -> dict[str, float]:
    linear = top["linear"].to_numpy()
    mean = float(linear.mean())
    row: dict[str, float] = {
        "width": width,
        "depth": depth,
        "second_moment": mean,
        "standard_error": float(linear.std(ddof=1) / math.sqrt(len(linear))),
        "exact": exact,
        "limit": infinite_width_moment(depth),
        "maximal_lr": mean**-0.5,
    }
    for factor in STEP_FACTORS:
        row[f"actual_{factor:g}"] = float(top[f"actual_{factor:g}"].mean()) / mean
    return row


def _term_rows(
    width: int, depth: int, top: pd.DataFrame, exact: npt.NDArray[np.float64]
) -> list[dict[str, object]]:
    limits = infinite_width_terms(depth)
    return [
        {
            "width": width,
            "depth": depth,
            "term": term,
            "measured": float(top[term].mean()),
            "standard_error": float(top[term].std(ddof=1) / math.sqrt(len(top))),
            "exact": float(exact[index]),
            "limit": limits[index],
        }
        for index, term in enumerate(TERMS)
    ]


def _limit_slope(depths: list[int]) -> float:
    return log_slope(depths, [maximal_lr(depth) for depth in depths])


def _measured(settings: DepthSettings) -> str:
    low, high = settings.fit_depths
    return f"L = {low}-{high}, {settings.draws} draws"


def _ratio_verdict(table: pd.DataFrame) -> Verdict:
    values = table["over_cube"]
    listed = ", ".join(
        f"{row['over_cube']:.3g} at L/n = {row['ratio']:.3g}" for row in table.to_dict("records")
    )
    return Verdict(
        law=LAW,
        quantity="E dz^2 over eta^2 L^3 / 3 at fixed L/n, which theorem 1.1 bounds for all n and L",
        paper=None,
        ours=median_and_range(values),
        settings=f"our exact recursion, L = {LARGE_DEPTH}, median and range over L/n",
        verdict=f"not uniform, its constant depends on L/n: {listed}",
    )


def _printed_verdict(settings: DepthSettings) -> Verdict:
    depths = settings.fitted_depths
    ratios = [printed_moment(depth) / infinite_width_moment(depth) for depth in depths]
    return Verdict(
        law=LAW,
        quantity="E dz^2 at infinite width: the paper's recursion as printed over the exact one",
        paper=None,
        ours=Estimate(ratios[len(ratios) // 2], ratios[-1], ratios[0]),
        settings=f"L = {depths[0]}-{depths[-1]}, both sums written out, value at "
        f"L = {depths[len(ratios) // 2]} and range",
        verdict=f"too large by a factor {ratios[0]:.2f} at L = {depths[0]}, equal in the leading "
        "L^3 / 3, where its two slips cancel",
    )
