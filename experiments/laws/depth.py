"""The depth law of the maximal-update learning rate in ReLU MLPs (Jelassi et al., 2023).

Hidden weights N(0, 2/n), readout N(0, 1/n^2), one input with ||x||^2 = n, one step of gradient
descent with rate eta and loss derivative 1. The paper: E[(dz_l)^2] grows like eta^2 l^3, so the
rate at which it is 1 at depth L falls like L^(-3/2). `docs/explanation/laws.md` derives it.
Layers may have unequal widths: narrowing, widening or alternating. Widths in fixed ratios keep the
power of the depth and change the factor before it.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from scipy.stats import sem

from experiments.laws.depth_recursion import (
    TERMS,
    finite_width_terms,
    infinite_width_moment,
    infinite_width_terms,
    moments_at_ratio,
    printed_moment,
    unequal_width_moment,
)
from experiments.laws.estimate import fit_exponent, log_slope
from experiments.laws.pieces import Pieces
from experiments.laws.result import Measured, Verdict, median_and_range, span, text, verdict
from rebench.errors import InputError
from rebench.intervals import Estimate

PAPER_EXPONENT = -1.5
# Updates beyond first order are measured at these multiples of the rate with E[(dz_L)^2] = 1.
STEP_FACTORS = (0.01, 0.1, 1.0)
# Depths at which the leading power dominates at a fixed L/n, and with unequal widths.
LARGE_DEPTH = 1024
DEEP = (256, 512)
PROFILES = ("narrowing", "widening", "alternating")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UnequalSettings:
    """Settings of unequal widths: narrowest and widest layer, depths and draws."""

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
        """Return the depths of the fit of the exponent."""
        return [d for d in self.depths if self.fit_depths[0] <= d <= self.fit_depths[1]]

    @property
    def fitted(self) -> str:
        """Return the depths of the fit and the number of draws as text."""
        return f"L = {self.fit_depths[0]}-{self.fit_depths[1]}, {self.draws} draws"


def measure(settings: DepthSettings, pieces: Pieces) -> Measured:
    """Measure growth and exponent at every width; one piece per width and depth."""
    rng = np.random.default_rng(settings.seed)
    fitted = settings.fitted_depths
    growth, fits, terms, verdicts = [], [], [], []
    for width in settings.widths:
        shapes = [[width] * (depth + 1) for depth in settings.depths]
        first = settings.seed * 1_000_003 + width * 1009
        layers = _last_layers("depth-terms", shapes, first, settings, pieces)
        rows = _moments(shapes, layers, [infinite_width_moment(d) for d in settings.depths])
        rows.insert(0, "width", width)
        rows["maximal_lr"] = rows["second_moment"] ** -0.5
        for factor in STEP_FACTORS:
            actual = [float(top[f"actual_{factor:g}"].mean()) for top in layers]
            rows[f"actual_{factor:g}"] = actual / rows["second_moment"]
        growth.append(rows)
        terms += [
            row for shape, top in zip(shapes, layers, strict=True) for row in _term_rows(shape, top)
        ]
        of_fit = rows["depth"].isin(fitted)
        samples = [top["linear"] for top, within in zip(layers, of_fit, strict=True) if within]
        slope, exact, limit = _exponents(rows[of_fit], samples, rng)
        fits.append(
            {"width": width, "exponent": slope.value, "low": slope.low, "high": slope.high,
             "exact": exact, "limit": limit}
        )  # fmt: skip
        verdicts.append(
            _exponent_verdict(
                f"width {width}", slope, drawn=settings.fitted, exact=exact, limit=limit
            )
        )
    tables = {
        "growth": pd.concat(growth, ignore_index=True), "terms": pd.DataFrame(terms),
        "exponent": pd.DataFrame(fits), "ratio": moments_at_ratio(LARGE_DEPTH),
    }  # fmt: skip
    for width, by_term in tables["terms"].groupby("width", sort=False):
        within = by_term[by_term["depth"].isin(fitted)]
        verdicts.append(
            _exactness_verdict(
                f"terms A, B, C of E dz^2: measured over exact, width {width}",
                within, "measured", drawn=f"{settings.fitted}, {len(within)} terms",
            )
        )  # fmt: skip
    verdicts += [_ratio_verdict(tables["ratio"]), _printed_verdict(fitted)]
    tables["widths"], unequal = measure_unequal(settings.unequal, settings.seed, pieces)
    return tables, verdicts + unequal


def measure_unequal(
    settings: UnequalSettings, seed: int, pieces: Pieces
) -> tuple[pd.DataFrame, list[Verdict]]:
    """Return the last layer's update by profile and depth, and the verdicts on it."""
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
        table = _moments(shapes, layers, [_wide_moment(settings, profile, d) for d in depths])
        table.insert(0, "profile", profile)
        tables.append(table.assign(equal_widths=[infinite_width_moment(depth) for depth in depths]))
        slope, exact, limit = _exponents(table, [top["linear"] for top in layers], rng)
        deep = np.array([_wide_moment(settings, profile, depth) for depth in DEEP])
        more = text(
            "depth.deep", "more", depths=DEEP, slope=log_slope(DEEP, deep**-0.5),
            ratio=deep[-1] / infinite_width_moment(DEEP[1]),
        )  # fmt: skip
        verdicts.append(
            _exponent_verdict(
                f"layers of unequal widths, {profile}", slope, drawn=f"{between}, {measured}",
                exact=exact, limit=limit, more=more,
            )
        )  # fmt: skip
    whole = pd.concat(tables, ignore_index=True)
    verdicts.append(
        _exactness_verdict(
            "E dz^2 with unequal widths: measured over exact",
            whole, "second_moment",
            drawn=f"{between}, {', '.join(PROFILES)}, {measured}, {len(whole)} shapes",
        )
    )  # fmt: skip
    return whole, verdicts


def _last_layers(
    kind: str,
    shapes: Sequence[list[int]],
    seed: int,
    settings: DepthSettings | UnequalSettings,
    pieces: Pieces,
) -> list[pd.DataFrame]:
    """Draw the last layer's update for every list of widths, one piece each."""
    cases = [{"widths": widths, "seed": seed + len(widths) - 1} for widths in shapes]
    frames = pieces.map(kind, _sample, cases, draws=settings.draws, readouts=settings.readouts)
    return [
        frame[frame["layer"] == len(widths) - 1]
        for frame, widths in zip(frames, shapes, strict=True)
    ]


def _sample(widths: list[int], draws: int, readouts: int, seed: int) -> pd.DataFrame:
    generator = torch.Generator().manual_seed(seed)
    return sample_updates(widths, draws=draws, readouts=readouts, generator=generator)


def _moments(
    shapes: Sequence[list[int]], layers: Sequence[pd.DataFrame], limit: Sequence[float]
) -> pd.DataFrame:
    """Summarise the drawn updates of the last layer, with the exact value and the limit."""
    return pd.DataFrame(
        {
            "depth": [len(widths) - 1 for widths in shapes],
            "second_moment": [float(top["linear"].mean()) for top in layers],
            "standard_error": [sem(top["linear"]) for top in layers],
            "exact": [float(finite_width_terms(widths)[-1].sum()) for widths in shapes],
            "limit": limit,
        }
    )


def _exponents(
    rows: pd.DataFrame, samples: Sequence[pd.Series[float]], rng: np.random.Generator
) -> tuple[Estimate, float, float]:
    """Return the exponent of the maximal rate in depth: drawn, exact, and in the limit."""
    slope = fit_exponent(rows["depth"], [sample.to_numpy() for sample in samples], -0.5, rng)
    exact, limit = (log_slope(rows["depth"], rows[name] ** -0.5) for name in ("exact", "limit"))
    return slope, exact, limit


def _term_rows(widths: Sequence[int], top: pd.DataFrame) -> list[dict[str, object]]:
    depth = len(widths) - 1
    terms = zip(TERMS, finite_width_terms(widths)[-1], infinite_width_terms(depth), strict=True)
    return [
        {"width": widths[-1], "depth": depth, "term": term, "measured": float(top[term].mean()),
         "standard_error": sem(top[term]), "exact": float(value), "limit": limit}
        for term, value, limit in terms
    ]  # fmt: skip


def _exponent_verdict(
    networks: str, slope: Estimate, *, drawn: str, exact: float, limit: float, more: str = ""
) -> Verdict:
    """Compare the exponent of the maximal rate in L with the paper's and our recursion's.

    `exact` is our recursion's value at these widths, `limit` at infinite width. The verdict ends
    with `more`.
    """
    return verdict(
        "depth.exponent", slope, networks=networks, drawn=drawn, exact=exact, limit=limit,
        more=more, holds="agrees with" if slope.covers(PAPER_EXPONENT) else "differs from",
        own="agrees" if slope.covers(exact) else "disagrees",
    )  # fmt: skip


def _exactness_verdict(quantity: str, rows: pd.DataFrame, column: str, *, drawn: str) -> Verdict:
    """Compare a column of means of draws with `exact`, by ratio and in standard errors."""
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
    """Return the widths of input and layers; alternating widths end with a wide layer."""
    if profile == "alternating":
        return [narrow if (depth - layer) % 2 else wide for layer in range(depth + 1)]
    narrowing = [round(wide * (narrow / wide) ** (layer / depth)) for layer in range(depth + 1)]
    return narrowing if profile == "narrowing" else narrowing[::-1]


def _wide_moment(settings: UnequalSettings, profile: str, depth: int) -> float:
    """Return the update of the last layer for large widths in the same ratios."""
    large = 10**6  # so large that rounding to whole units has no effect
    widths = profile_widths(profile, settings.narrow * large, settings.wide * large, depth)
    return unequal_width_moment(widths)


def sample_updates(
    widths: Sequence[int], *, draws: int, readouts: int, generator: torch.Generator
) -> pd.DataFrame:
    """Draw networks and return their updates of one step of gradient descent.

    Args:
        widths: widths of the input and of every layer.
        draws: number of networks.
        readouts: number of readouts per network.
        generator: source of the random numbers.

    Returns:
        One row per draw and layer: `linear`, the mean over units and readouts of the first-order
        (dz_l)^2 / eta^2 by forward-mode products; `own`, `cross` and `passed`, its three terms;
        and for each step factor f `actual_f`, the same mean of the whole update. Its rate eta is f
        times the rate at which E[(dz_L)^2] = 1 in wide networks.
    """
    depth = len(widths) - 1
    chunk = max(1, min(draws, 2**26 // sum(a * b for a, b in itertools.pairwise(widths))))
    frames = []
    for start in range(0, draws, chunk):
        size = min(chunk, draws - start)
        columns = _sample_chunk(widths, size, readouts, generator)
        frame = pd.DataFrame({name: values.ravel() for name, values in columns.items()})
        frame["draw"] = np.repeat(np.arange(start, start + size), depth)
        frame["layer"] = np.tile(np.arange(1, depth + 1), size)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def _sample_chunk(
    widths: Sequence[int], size: int, readouts: int, generator: torch.Generator
) -> dict[str, npt.NDArray[np.float64]]:
    depth = len(widths) - 1
    weights = [
        torch.randn(size, fan_out, fan_in, generator=generator) * math.sqrt(2 / fan_in)
        for fan_in, fan_out in itertools.pairwise(widths)
    ]
    x = torch.randn(size, 1, widths[0], generator=generator)
    x *= math.sqrt(widths[0]) / x.norm(dim=-1, keepdim=True)
    activations, pre, gates = [x], [], []
    for weight in weights:
        z = activations[-1] @ weight.mT
        pre.append(z)
        gates.append((z > 0).float())
        activations.append(z.clamp(min=0))
    backward = [
        torch.randn(size, readouts, widths[-1], generator=generator) / widths[-1] * gates[-1]
    ]
    for layer in range(depth - 1, 0, -1):
        backward.insert(0, backward[0] @ weights[layer] * gates[layer - 1])

    tangent = torch.zeros(size, readouts, widths[0])
    parts: dict[str, list[torch.Tensor]] = {name: [] for name in ("linear", *TERMS)}
    for layer, weight in enumerate(weights):
        gated = tangent * gates[layer - 1] if layer else tangent
        passed = gated @ weight.mT
        own = backward[layer] * activations[layer].square().sum(-1, keepdim=True)
        tangent = passed + own
        products = (tangent.square(), own.square(), 2 * own * passed, passed.square())
        for kept, product in zip(parts.values(), products, strict=True):
            kept.append(product.mean((1, 2)))
    columns = {name: torch.stack(kept, 1).double().numpy() for name, kept in parts.items()}
    for factor in STEP_FACTORS:
        eta = factor * unequal_width_moment(widths) ** -0.5
        new, squares = x.expand(-1, readouts, -1), []
        for layer, weight in enumerate(weights):
            overlap = (new * activations[layer]).sum(-1, keepdim=True)
            z = new @ weight.mT - eta * backward[layer] * overlap
            squares.append((z - pre[layer]).square().mean((1, 2)) / eta**2)
            new = z.clamp(min=0)
        columns[f"actual_{factor:g}"] = torch.stack(squares, 1).double().numpy()
    return columns
