"""The depth law of the maximal-update learning rate in ReLU MLPs (Jelassi et al., 2023).

Hidden weights N(0, 2/n), readout N(0, 1/n^2), one input with ||x||^2 = n, one step of gradient
descent with rate eta and loss derivative 1. The paper: E[(dz_l)^2] grows like eta^2 l^3, so the
rate at which it is 1 at depth L falls like L^(-3/2). `docs/explanation/laws.md` derives it.
Layers may be of unequal widths, narrowing, widening, or wide and narrow in turn: widths in fixed
ratios leave the power of the depth, and change what stands before it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from experiments.laws.depth_recursion import (
    TERMS,
    finite_width_terms,
    infinite_width_moment,
    infinite_width_terms,
    maximal_lr,
    moments_at_ratio,
    printed_moment,
    unequal_width_moment,
    unequal_width_terms,
)
from experiments.laws.depth_step import STEP_FACTORS, sample_updates
from experiments.laws.estimate import fit_exponent, log_slope, standard_error
from experiments.laws.pieces import Pieces
from experiments.laws.result import Measured, Verdict, median_and_range, span, text, verdict
from rebench.errors import InputError
from rebench.intervals import Estimate

PAPER_EXPONENT = -1.5
# So deep that the leading power is what is left at a fixed L/n; and with unequal widths.
LARGE_DEPTH = 1024
DEEP = (256, 512)
PROFILES = ("narrowing", "widening", "alternating")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UnequalSettings:
    """The narrowest and the widest layer, and what is drawn."""

    narrow: int = 64
    wide: int = 256
    depths: tuple[int, ...] = (2, 3, 4, 6, 8, 12, 16)
    draws: int = 200
    readouts: int = 4


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

    @property
    def fitted(self) -> str:
        """The same in words, with the draws."""
        return f"L = {self.fit_depths[0]}-{self.fit_depths[1]}, {self.draws} draws"


def measure(settings: DepthSettings, pieces: Pieces) -> Measured:
    """Measure growth and exponent at every width; one piece per width and depth."""
    rng = np.random.default_rng(settings.seed)
    fitted = settings.fitted_depths
    limit = log_slope(fitted, [maximal_lr(depth) for depth in fitted])
    growth, fits, terms, verdicts = [], [], [], []
    for width in settings.widths:
        by_term = finite_width_terms(width, max(settings.depths))
        exact = by_term.sum(axis=1)
        shapes = [[width] * (depth + 1) for depth in settings.depths]
        first = settings.seed * 1_000_003 + width * 1009
        layers = _last_layers("depth-terms", shapes, first, settings, pieces)
        for depth, top in zip(settings.depths, layers, strict=True):
            growth.append(_growth_row(width, depth, top, float(exact[depth - 1])))
            terms += _term_rows(width, depth, top, by_term[depth - 1])
        samples = [
            top["linear"].to_numpy()
            for depth, top in zip(settings.depths, layers, strict=True)
            if depth in fitted
        ]
        slope = fit_exponent(fitted, samples, -0.5, rng)
        expected = log_slope(fitted, exact[np.array(fitted) - 1] ** -0.5)
        fits.append(
            {"width": width, "exponent": slope.value, "low": slope.low, "high": slope.high,
             "exact": expected, "limit": limit}
        )  # fmt: skip
        verdicts.append(
            exponent_verdict(
                f"width {width}", slope, drawn=settings.fitted, exact=expected, limit=limit
            )
        )
    tables = {
        "growth": pd.DataFrame(growth), "terms": pd.DataFrame(terms),
        "exponent": pd.DataFrame(fits), "ratio": moments_at_ratio(LARGE_DEPTH),
    }  # fmt: skip
    for width, rows in tables["terms"].groupby("width", sort=False):
        of_fit = rows[rows["depth"].isin(fitted)]
        verdicts.append(
            exactness_verdict(
                f"terms A, B, C of our recursion: Monte Carlo over exact, width {width}",
                of_fit, "measured", drawn=f"{settings.fitted}, {len(of_fit)} terms",
            )
        )  # fmt: skip
    verdicts += [_ratio_verdict(tables["ratio"]), _printed_verdict(fitted)]
    tables["widths"], unequal = measure_unequal(settings.unequal, settings.seed, pieces)
    return tables, verdicts + unequal


def _last_layers(
    kind: str,
    shapes: Sequence[list[int]],
    seed: int,
    settings: DepthSettings | UnequalSettings,
    pieces: Pieces,
) -> list[pd.DataFrame]:
    """Draws of the last layer's update, for every list of widths; one piece each."""
    cases = [{"widths": widths, "seed": seed + len(widths) - 1} for widths in shapes]
    frames = pieces.map(kind, _sample, cases, draws=settings.draws, readouts=settings.readouts)
    return [
        frame[frame["layer"] == len(widths) - 1]
        for frame, widths in zip(frames, shapes, strict=True)
    ]


def _sample(widths: list[int], draws: int, readouts: int, seed: int) -> pd.DataFrame:
    generator = torch.Generator().manual_seed(seed)
    return sample_updates(widths, draws=draws, readouts=readouts, generator=generator)


def _growth_row(width: int, depth: int, top: pd.DataFrame, exact: float) -> dict[str, float]:
    mean = float(top["linear"].mean())
    return {
        "width": width,
        "depth": depth,
        "second_moment": mean,
        "standard_error": standard_error(top["linear"]),
        "exact": exact,
        "limit": infinite_width_moment(depth),
        "maximal_lr": mean**-0.5,
        **{f"actual_{f:g}": float(top[f"actual_{f:g}"].mean()) / mean for f in STEP_FACTORS},
    }


def _term_rows(
    width: int, depth: int, top: pd.DataFrame, exact: npt.NDArray[np.float64]
) -> list[dict[str, object]]:
    return [
        {
            "width": width,
            "depth": depth,
            "term": term,
            "measured": float(top[term].mean()),
            "standard_error": standard_error(top[term]),
            "exact": float(value),
            "limit": limit,
        }
        for term, value, limit in zip(TERMS, exact, infinite_width_terms(depth), strict=True)
    ]


def exponent_verdict(
    networks: str, slope: Estimate, *, drawn: str, exact: float, limit: float, more: str = ""
) -> Verdict:
    """Hold the exponent of the maximal rate in L against the paper's and our recursion's.

    Args:
        networks: which.
        slope: what was measured.
        drawn: how.
        exact: by our recursion at these widths.
        limit: by it at infinite width.
        more: a clause that the verdict ends with.
    """
    return verdict(
        "depth.exponent", slope, networks=networks, drawn=drawn, exact=exact, limit=limit,
        more=more, holds="agrees with" if slope.covers(PAPER_EXPONENT) else "differs from",
        own="agrees" if slope.covers(exact) else "disagrees",
    )  # fmt: skip


def exactness_verdict(quantity: str, rows: pd.DataFrame, column: str, *, drawn: str) -> Verdict:
    """Hold a column of means of draws against `exact`, by ratio and in standard errors."""
    away = (rows[column] - rows["exact"]).abs() / rows["standard_error"]
    return verdict(
        "depth.exact", median_and_range(rows[column] / rows["exact"]), quantity=quantity,
        drawn=drawn, near=(away < 2).sum(), count=len(away), farthest=away.max(),
    )  # fmt: skip


def _ratio_verdict(table: pd.DataFrame) -> Verdict:
    listed = ", ".join(
        f"{row['over_cube']:.3g} at L/n = {row['ratio']:.3g}" for row in table.to_dict("records")
    )
    ours = median_and_range(table["over_cube"])
    return verdict("depth.ratio", ours, depth=LARGE_DEPTH, listed=listed)


def _printed_verdict(depths: Sequence[int]) -> Verdict:
    ratios = [printed_moment(depth) / infinite_width_moment(depth) for depth in depths]
    middle = len(ratios) // 2
    return verdict(
        "depth.printed", Estimate(ratios[middle], ratios[-1], ratios[0]), depths=span(depths),
        middle=depths[middle], first=depths[0], factor=ratios[0],
    )  # fmt: skip


def profile_widths(profile: str, narrow: int, wide: int, depth: int) -> list[int]:
    """The widths of the input and of every layer; alternating ones end with a wide one."""
    if profile == "alternating":
        return [narrow if (depth - layer) % 2 else wide for layer in range(depth + 1)]
    narrowing = [round(wide * (narrow / wide) ** (layer / depth)) for layer in range(depth + 1)]
    return narrowing if profile == "narrowing" else narrowing[::-1]


def measure_unequal(
    settings: UnequalSettings, seed: int, pieces: Pieces
) -> tuple[pd.DataFrame, list[Verdict]]:
    """The last layer's update by profile and depth, and the verdicts on it."""
    depths = settings.depths
    rng = np.random.default_rng(seed)
    measured = f"L = {span(depths)}, {settings.draws} draws"
    between = f"widths {settings.narrow} to {settings.wide}"
    tables, verdicts = [], []
    for index, profile in enumerate(PROFILES):
        shapes = [
            profile_widths(profile, settings.narrow, settings.wide, depth) for depth in depths
        ]
        first = seed * 1_000_003 + index * 1009
        layers = _last_layers("depth-widths", shapes, first, settings, pieces)
        samples = [top["linear"].to_numpy() for top in layers]
        table = pd.DataFrame(
            {
                "profile": profile,
                "depth": depths,
                "second_moment": [sample.mean() for sample in samples],
                "standard_error": [standard_error(sample) for sample in samples],
                "exact": [unequal_width_terms(widths)[-1].sum() for widths in shapes],
                "limit": [_wide_moment(settings, profile, depth) for depth in depths],
                "equal_widths": [infinite_width_moment(depth) for depth in depths],
            }
        )
        tables.append(table)
        deep = np.array([_wide_moment(settings, profile, depth) for depth in DEEP])
        verdicts.append(
            exponent_verdict(
                f"layers of unequal widths, {profile}",
                fit_exponent(depths, samples, -0.5, rng),
                drawn=f"{between}, {measured}",
                exact=log_slope(depths, table["exact"] ** -0.5),
                limit=log_slope(depths, table["limit"] ** -0.5),
                more=text(
                    "depth.deep", "more", depths=DEEP, slope=log_slope(DEEP, deep**-0.5),
                    ratio=deep[-1] / infinite_width_moment(DEEP[1]),
                ),
            )
        )  # fmt: skip
    whole = pd.concat(tables, ignore_index=True)
    verdicts.append(
        exactness_verdict(
            "E dz^2 of our recursion for unequal widths: Monte Carlo over exact",
            whole, "second_moment",
            drawn=f"{between}, {', '.join(PROFILES)}, {measured}, {len(whole)} shapes",
        )
    )  # fmt: skip
    return whole, verdicts


def _wide_moment(settings: UnequalSettings, profile: str, depth: int) -> float:
    """The update of the last layer where all widths are large, in the same ratios."""
    large = 10**6  # so that rounding to whole units changes nothing
    widths = profile_widths(profile, settings.narrow * large, settings.wide * large, depth)
    return unequal_width_moment(widths)
