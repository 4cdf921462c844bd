"""The depth law where layers are of unequal widths: narrowing, widening, wide and narrow in turn.

The rate at which the last layer's update is 1, measured and by the exact recursion. Widths in fixed
ratios leave the power of the depth, and change what stands before it.
"""

from __future__ import annotations

import dataclasses
import math
from functools import partial

import numpy as np
import pandas as pd
import torch

from rebench.theory.depth_recursion import (
    infinite_width_moment,
    unequal_width_moment,
    unequal_width_terms,
)
from rebench.theory.depth_step import sample_updates
from rebench.theory.depth_verdicts import exactness_verdict, exponent_verdict
from rebench.theory.estimate import fit_exponent, log_slope
from rebench.theory.pieces import Piece, Pieces
from rebench.theory.result import Verdict

__all__ = ["PROFILES", "UnequalSettings", "measure_unequal", "profile_widths"]

PROFILES = ("narrowing", "widening", "alternating")
# So deep that the leading power is what is left.
DEEP = (256, 512)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UnequalSettings:
    """The narrowest and the widest layer, and what is drawn."""

    narrow: int = 64
    wide: int = 256
    depths: tuple[int, ...] = (2, 3, 4, 6, 8, 12, 16)
    draws: int = 200
    readouts: int = 4


def profile_widths(profile: str, narrow: int, wide: int, depth: int) -> list[int]:
    """Return the widths of the input and of every layer; alternating ones end with a wide one."""
    if profile == "alternating":
        return [narrow if (depth - layer) % 2 else wide for layer in range(depth + 1)]
    narrowing = [round(wide * (narrow / wide) ** (layer / depth)) for layer in range(depth + 1)]
    return narrowing if profile == "narrowing" else narrowing[::-1]


def measure_unequal(
    settings: UnequalSettings, seed: int, pieces: Pieces
) -> tuple[pd.DataFrame, list[Verdict]]:
    """Return the last layer's update by profile and depth, and the verdicts on it."""
    depths = settings.depths
    rng = np.random.default_rng(seed)
    pieces.expect(len(PROFILES) * len(depths))
    measured = f"L = {depths[0]}-{depths[-1]}, {settings.draws} draws"
    widths_said = f"widths {settings.narrow} to {settings.wide}"
    tables, verdicts = [], []
    for place, profile in enumerate(PROFILES):
        shapes = [
            profile_widths(profile, settings.narrow, settings.wide, depth) for depth in depths
        ]
        samples = [
            frame.loc[frame["layer"] == depth, "linear"].to_numpy()
            for frame, depth in zip(
                pieces.get([_piece(settings, widths, seed, place) for widths in shapes]),
                depths,
                strict=True,
            )
        ]
        table = pd.DataFrame(
            {
                "profile": profile,
                "depth": depths,
                "second_moment": [sample.mean() for sample in samples],
                "standard_error": [
                    sample.std(ddof=1) / math.sqrt(len(sample)) for sample in samples
                ],
                "exact": [unequal_width_terms(widths)[-1].sum() for widths in shapes],
                "limit": [_wide_moment(settings, profile, depth) for depth in depths],
                "equal_widths": [infinite_width_moment(depth) for depth in depths],
            }
        )
        tables.append(table)
        deep = [_wide_moment(settings, profile, depth) for depth in DEEP]
        verdicts.append(
            exponent_verdict(
                f"layers of unequal widths, {profile}",
                fit_exponent(depths, samples, -0.5, rng),
                exact=log_slope(depths, table["exact"] ** -0.5),
                limit=log_slope(depths, table["limit"] ** -0.5),
                settings=f"{widths_said}, {measured}, first-order update",
                more=f"{log_slope(DEEP, [one**-0.5 for one in deep]):.2f} over L = {DEEP[0]}-"
                f"{DEEP[1]}, where E dz^2 is {deep[-1] / infinite_width_moment(DEEP[1]):.2g} times "
                "that of equal widths",
            )
        )
    whole = pd.concat(tables, ignore_index=True)
    verdicts.append(
        exactness_verdict(
            "E dz^2 of our recursion for unequal widths: Monte Carlo over exact",
            whole["second_moment"], whole["exact"], whole["standard_error"],
            settings=f"{widths_said}, {', '.join(PROFILES)}, {measured}, {len(whole)} shapes",
        )
    )  # fmt: skip
    return whole, verdicts


def _wide_moment(settings: UnequalSettings, profile: str, depth: int) -> float:
    """Return the update of the last layer where all widths are large, in the same ratios."""
    large = 10**6  # so that rounding to whole units changes nothing
    widths = profile_widths(profile, settings.narrow * large, settings.wide * large, depth)
    return unequal_width_moment(widths)


def _piece(settings: UnequalSettings, widths: list[int], seed: int, place: int) -> Piece:
    generator_seed = seed * 1_000_003 + place * 1009 + len(widths) - 1
    return Piece(
        kind="depth-widths",
        settings={"widths": widths, "draws": settings.draws, "readouts": settings.readouts,
                  "seed": generator_seed},
        compute=partial(_sample, settings, widths, generator_seed),
    )  # fmt: skip


def _sample(settings: UnequalSettings, widths: list[int], seed: int) -> pd.DataFrame:
    return sample_updates(
        widths, draws=settings.draws, readouts=settings.readouts,
        generator=torch.Generator().manual_seed(seed),
    )  # fmt: skip
