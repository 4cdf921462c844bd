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
from rebench.theory.estimate import fit_exponent, log_slope
from rebench.theory.pieces import Piece, Pieces
from rebench.theory.result import LawResult, Verdict, median_and_range

__all__ = [
    "FULL",
    "QUICK",
    "DepthSettings",
    "measure_depth_law",
    "sample_updates",
]

LAW = "depth (Jelassi et al.)"
PAPER_EXPONENT = -1.5
# So deep that the leading power is what is left at a fixed L/n.
LARGE_DEPTH = 1024
STEP_FACTORS = (0.01, 0.1, 1.0)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DepthSettings:
    """Sizes of the measurement; the exponent is fitted over `fit_depths`."""

    widths: tuple[int, ...] = (64, 128, 256)
    depths: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
    fit_depths: tuple[int, int] = (2, 16)
    draws: int = 400
    readouts: int = 4
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
QUICK = DepthSettings(widths=(64, 256), depths=(1, 2, 4, 8, 16), draws=100)


def sample_updates(
    width: int, depth: int, *, draws: int, readouts: int, generator: torch.Generator
) -> pd.DataFrame:
    """Draw networks and return their updates of one step of gradient descent.

    Returns:
        One row per draw and layer: `linear`, the mean over units and readouts of the first-order
        (dz_l)^2 / eta^2 by forward-mode products; `own`, `cross` and `passed`, its three terms;
        and per step factor f `actual_f`, that of the whole update at eta = f * maximal_lr(depth).
    """
    chunk = max(1, min(draws, 2**26 // (depth * width**2)))
    frames = []
    for start in range(0, draws, chunk):
        size = min(chunk, draws - start)
        columns = _sample_chunk(width, depth, size, readouts, generator)
        frame = pd.DataFrame({name: values.ravel() for name, values in columns.items()})
        frame["draw"] = np.repeat(np.arange(start, start + size), depth)
        frame["layer"] = np.tile(np.arange(1, depth + 1), size)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def _sample_chunk(
    width: int, depth: int, size: int, readouts: int, generator: torch.Generator
) -> dict[str, npt.NDArray[np.float64]]:
    weights = torch.randn(depth, size, width, width, generator=generator)
    weights *= math.sqrt(2 / width)
    x = torch.randn(size, 1, width, generator=generator)
    x *= math.sqrt(width) / x.norm(dim=-1, keepdim=True)
    activations, pre, gates = [x], [], []
    for weight in weights:
        z = activations[-1] @ weight.mT
        pre.append(z)
        gates.append((z > 0).float())
        activations.append(z.clamp(min=0))
    backward = [torch.randn(size, readouts, width, generator=generator) / width * gates[-1]]
    for layer in range(depth - 1, 0, -1):
        backward.insert(0, backward[0] @ weights[layer] * gates[layer - 1])

    tangent = torch.zeros(size, readouts, width)
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
        eta = factor * maximal_lr(depth)
        new, squares = x.expand(-1, readouts, -1), []
        for layer, weight in enumerate(weights):
            overlap = (new * activations[layer]).sum(-1, keepdim=True)
            z = new @ weight.mT - eta * backward[layer] * overlap
            squares.append((z - pre[layer]).square().mean((1, 2)) / eta**2)
            new = z.clamp(min=0)
        columns[f"actual_{factor:g}"] = torch.stack(squares, 1).double().numpy()
    return columns


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
        verdicts.append(_verdict(width, slope, expected, _limit_slope(fitted), settings))
    tables = {
        "growth": pd.DataFrame(growth), "terms": pd.DataFrame(terms), "exponent": pd.DataFrame(fits)
    }  # fmt: skip
    verdicts += [_term_verdict(tables["terms"], width, settings) for width in settings.widths]
    tables["ratio"] = moments_at_ratio(LARGE_DEPTH)
    verdicts += [_ratio_verdict(tables["ratio"]), _printed_verdict(settings)]
    return LawResult(law="depth", tables=tables, verdicts=tuple(verdicts))


def _piece(settings: DepthSettings, width: int, depth: int) -> Piece:
    def compute() -> pd.DataFrame:
        generator = torch.Generator().manual_seed(settings.seed * 1_000_003 + width * 1009 + depth)
        return sample_updates(
            width, depth, draws=settings.draws, readouts=settings.readouts, generator=generator
        )

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


def _verdict(
    width: int, slope: Estimate, exact: float, limit: float, settings: DepthSettings
) -> Verdict:
    holds = "agrees with" if slope.covers(PAPER_EXPONENT) else "differs from"
    own = "agrees" if slope.covers(exact) else "disagrees"
    return Verdict(
        law=LAW,
        quantity=f"exponent of the maximal learning rate in L, width {width}",
        paper=PAPER_EXPONENT,
        ours=slope,
        settings=f"L = {settings.fit_depths[0]}-{settings.fit_depths[1]}, {settings.draws} draws, "
        f"first-order update",
        verdict=f"{holds} -3/2; {own} with our exact finite-width recursion ({exact:.3f}; infinite "
        f"width over these depths {limit:.3f})",
    )


def _term_verdict(terms: pd.DataFrame, width: int, settings: DepthSettings) -> Verdict:
    fitted = terms[(terms["width"] == width) & terms["depth"].isin(settings.fitted_depths)]
    ratio = fitted["measured"] / fitted["exact"]
    away = (fitted["measured"] - fitted["exact"]).abs() / fitted["standard_error"]
    return Verdict(
        law=LAW,
        quantity=f"terms A, B, C of our recursion: Monte Carlo over exact, width {width}",
        paper=None,
        ours=median_and_range(ratio),
        settings=f"L = {settings.fit_depths[0]}-{settings.fit_depths[1]}, {settings.draws} draws, "
        f"{len(fitted)} terms, median and range",
        verdict=f"{(away < 2).sum()} of {len(fitted)} within 2 standard errors, the farthest "
        f"{away.max():.1f} away",
    )


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
