"""Warnings about a comparison: divergence, unequal noise, seed effects that differ by cell."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from rebench.analysis.common_scale import LEAST_SD
from rebench.analysis.left_out_runs import differ
from rebench.analysis.paired import Accuracies, Paired
from rebench.analysis.seed_noise import pooled_sd
from rebench.analysis.tau import Floats

__all__ = ["FEWEST_SEEDS", "Doubts", "doubts_of"]

FEWEST_SEEDS: Final = 3
"""With fewer seeds in a table, it is not tested whether the effect of a seed differs by cell."""
# Level of the test for seed effects that differ by cell. It is higher than other levels, because
# three seeds give little power, and the resulting jackknife costs little power.
_FAVOURED: Final = 0.05
_DEALS: Final = 199
# Largest number of seeds of a table in this test: its cost grows with the square of this number.
_MOST_SEEDS: Final = 32
# Ratios of standard deviations below this are not reported.
_UNEQUAL: Final = 1.5
# Limit for noise that differs by cell: the spread of the logarithm of the ratio of both noises
# (10 % to 90 % quantile). Without a change it is .2 to .8. Between recipes of the table `mini` it
# is up to 2.7.
_UNEVEN: Final = 3.0
_AT_ONCE: Final = 1 << 20


class Doubts(NamedTuple):
    """Warnings about a comparison, and their consequences for its test."""

    notes: tuple[str, ...]
    refused: bool
    """True if no p-value can be given."""
    by_seed: bool
    """True if the effect of a seed differs between cells; cells are then not independent."""


def doubts_of(paired: Paired, rng: np.random.Generator) -> Doubts:
    """Check for one-sided divergence, unequal noise and seed effects that differ by cell."""
    first, second = tables = (paired.baseline, paired.other)
    notes = []
    failed = [_failed_by_chance(table) for table in tables]
    runs = [int(table.counts.sum()) for table in tables]
    if diverged := differ(failed, runs):
        notes.append(
            f"{failed[0]} of {runs[0]} runs of {first.name} diverged although other seeds of the "
            f"cell did not, and {failed[1]} of {runs[1]} of {second.name}. The two tables have "
            "different noise, so no p-value is given. Remove these runs from both tables to "
            "compare the other runs"
        )
    both = first.has_seeds and second.has_seeds
    sds = [float(np.median(table.run_sd)) for table in tables if both]
    if both and max(sds) > _UNEQUAL * min(sds):
        notes.append(
            f"standard deviations of a run: {first.name} {sds[0]:.2g}, {second.name} "
            f"{sds[1]:.2g}; the interval of `drop` allows for it"
        )
    if uneven := both and _noise_by_rank(paired) > _UNEVEN:
        notes.append(
            f"on a common scale, cells with much noise in {first.name} have little noise in "
            f"{second.name}, and the reverse: one of them saturates. Runs cannot be exchanged, so "
            "no p-value is given, and `drop` can differ from 0 without a change of the ranking"
        )
    if favoured := _favoured(paired, rng) <= _FAVOURED:
        notes.append(
            f"the effect of a seed seems to differ between cells in {first.name} or "
            f"{second.name}. p-values and intervals of `drop` are widened by a jackknife over seeds"
        )
    return Doubts(tuple(notes), diverged or uneven, favoured)


def _failed_by_chance(table: Accuracies) -> int:
    """Count the diverged runs of cells that also have runs without divergence."""
    if table.diverged is None:
        return 0
    failed = table.diverged & np.isfinite(table.runs)
    return int(failed[failed.sum(axis=1) < table.counts].sum())


def _noise_by_rank(paired: Paired) -> float:
    """Return the spread over cells of the log ratio of both tables' noise, on one scale.

    Diverged runs are ignored: how they fall on the cells would decide the ratio.
    """
    runs = [
        own if table.diverged is None else np.where(table.diverged, np.nan, own)
        for own, table in zip(paired.on_one_scale, (paired.baseline, paired.other), strict=True)
    ]
    counts = np.array([np.isfinite(own).sum(axis=1) for own in runs])
    if not (rows := counts.all(axis=0)).any() or counts[:, rows].max(axis=1).min() < 2:
        return 0.0
    own, other = (pooled_sd(own[rows]) for own in runs)
    known = (own > LEAST_SD) & (other > LEAST_SD)
    if not known.any():
        return 0.0
    low, high = np.quantile(np.log(other[known] / own[known]), [0.1, 0.9])
    return float(high - low)


def _favoured(paired: Paired, rng: np.random.Generator) -> float:
    """Return the p-value of "each seed has the same effect on all cells" (permutation test).

    An effect that differs between cells is a pattern over cells, probably the same in both tables.
    It makes the largest singular value of the standardised residuals large. The null distribution
    permutes the residuals of each class between the seeds of a table. If a table has fewer than
    `FEWEST_SEEDS` seeds, there is no test, and the value is 1. Of more than `_MOST_SEEDS` seeds,
    some at equal distances are tested.
    """
    whole = paired.whole
    tables = (whole.baseline, whole.other)
    if min(len(table.seeds) for table in tables) < FEWEST_SEEDS:
        return 1.0
    residuals = []
    for own in tables:
        tested = np.linspace(0, len(own.seeds) - 1, min(len(own.seeds), _MOST_SEEDS)).astype(int)
        apart = own.centred[:, tested] - own.centred_means[:, None]
        residuals.append(apart / own.run_sd[:, None])
    classes = whole.classes.max() + 1
    orders = [np.tile(np.arange(rest.shape[1]), (classes, 1)) for rest in residuals]

    def squares(deals: int) -> Floats:
        dealt = [
            np.take_along_axis(
                rest[None],
                rng.permuted(np.tile(order, (deals, 1, 1)), axis=2)[:, whole.classes],
                axis=2,
            )
            for rest, order in zip(residuals, orders, strict=True)
        ]
        together = np.concatenate(dealt, axis=2)
        return np.swapaxes(together, 1, 2) @ together

    seen = np.concatenate(residuals, axis=1)
    step = max(1, _AT_ONCE // seen.size)
    null = [squares(min(step, _DEALS - start)) for start in range(0, _DEALS, step)]
    largest = np.linalg.eigvalsh(np.concatenate([(seen.T @ seen)[None], *null]))[:, -1]
    return float((largest >= largest[0] - 1e-9).mean())
