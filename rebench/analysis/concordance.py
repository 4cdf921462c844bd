"""Kendall's tau-b among the best of two columns, for many K and many pairs of columns at once.

For each element, count the others that are better in both columns. The concordance of the top K %
is a sum of these counts, so all K together cost about the same as a single K. The order of the
cells in each column is divided into blocks of about sqrt(n) cells. Inside a block all pairs are
compared, and numbers of cells in pairs of blocks give the other counts. The counts are exact, and
numpy computes them for all draws together. See `docs/explanation/analysis.md`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rebench.errors import InputError
from rebench.tables.seed_effects import TIE_WIDTH

__all__ = [
    "MIN_CELLS",
    "Floats",
    "Ints",
    "dense_codes",
    "refuse_small_top",
    "resampled_curves",
    "tau_curves",
    "top_mask",
    "top_sizes",
    "top_tau",
]

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

MIN_CELLS: Final = 10
"""Smallest number of cells for which tau is reported."""
# Number of elements of a chunk of work: few calls, and arrays that fit into the cache.
_CHUNK = 1 << 17
# Short integer types, each with the largest number of cells or codes whose square fits.
_SHORT: Final = ((180, np.int16), (46_340, np.int32))
# Numbers of rows in a block of `_smaller_before`: about the root of n; counts fit into a byte.
_FEWEST_IN_BLOCK: Final = 64
_MOST_IN_BLOCK: Final = 255
# Rows of at least this many elements are accumulated row by row.
_LONG: Final = 256


def tau_curves(
    a: NDArray[np.floating[Any]],
    b: NDArray[np.floating[Any]],
    top_percent: Sequence[float],
) -> tuple[Floats, Ints]:
    """Return tau-b and the number of cells, [draws, K], for draws of means a and b [draws, cells].

    The means `a` select the top K %. With fewer than `MIN_CELLS` cells tau is NaN. If `a` or `b`
    has one row, this row is compared with every row of the other.
    """
    shape = (max(len(a), len(b)), a.shape[1])
    first, second = (np.broadcast_to(dense_codes(means), shape) for means in (a, b))
    return _known_taus(*top_tau(first, second, top_sizes(shape[1], top_percent)))


def resampled_curves(
    pairs: Iterable[tuple[Floats, Floats]],
    sample: Ints,
    top_percent: Sequence[float],
) -> list[tuple[Floats, Ints]]:
    """Return `tau_curves` of x[sample] and y[sample] for pairs of values x and y [n].

    `sample` [draws, cells] are rows of the values.
    """
    sizes = top_sizes(sample.shape[1], top_percent)
    curves = []
    for pair in pairs:
        first, second = dense_codes(np.stack(pair))
        curves.append(_known_taus(*top_tau(first[sample], second[sample], sizes)))
    return curves


def _known_taus(tau: Floats, taken: Ints) -> tuple[Floats, Ints]:
    """Return taus and numbers of cells; tau is NaN where there are fewer than `MIN_CELLS`."""
    return np.where(taken >= MIN_CELLS, tau, np.nan), taken


def top_sizes(n_cells: int, top_percent: Sequence[float]) -> list[int]:
    """Return the number of cells of the top K % of `n_cells`, rounded up, for each K."""
    if not len(top_percent):
        raise InputError("top_percent must have one percentage or more in (0, 100], got none")
    for percent in top_percent:
        if not 0 < percent <= 100:
            raise InputError(f"top_percent must be in (0, 100], got {percent:g}")
    return [math.ceil(round(percent * n_cells / 100, 9)) for percent in top_percent]


def refuse_small_top(n_cells: int, top_percent: Sequence[float]) -> None:
    """Raise InputError if every K is too small for `n_cells` cells, which are enough themselves."""
    size = max(top_sizes(n_cells, top_percent))
    if n_cells < MIN_CELLS or size >= MIN_CELLS:
        return
    limit = 100 * (MIN_CELLS - 1) / n_cells
    step = 10.0 ** (math.floor(math.log10(limit)) - 1)
    least = step * (math.floor(limit / step + 1e-9) + 1)
    cells = "1 cell" if size == 1 else f"{size} cells"
    raise InputError(
        f"top_percent (--top) must leave at least {MIN_CELLS} of the {n_cells} cells, but the top "
        f"{max(top_percent):g} % are {cells}: give a K of {least:g} or more"
    )


def dense_codes(values: NDArray[np.floating[Any]]) -> Ints:
    """Return, per row of `values` [draws, n], integers in the same order as the values.

    Equal values (to `TIE_WIDTH`) have equal codes; the lowest code is 0.
    """
    rounded = np.rint(np.asarray(values, dtype=np.float64) / TIE_WIDTH)
    if np.isnan(rounded).any():
        raise InputError("ranks need an accuracy of every cell, got NaN")
    order = np.argsort(rounded, axis=1)
    ordered = np.take_along_axis(rounded, order, axis=1)
    steps = np.zeros(rounded.shape, dtype=np.int64)
    np.cumsum(ordered[:, 1:] != ordered[:, :-1], axis=1, out=steps[:, 1:])
    codes = np.empty_like(steps)
    np.put_along_axis(codes, order, steps, axis=1)
    return codes


def top_tau(first: Ints, second: Ints, sizes: Sequence[int]) -> tuple[Floats, Ints]:
    """Return tau-b among the best elements of each row, and the number of these elements.

    Args:
        first: [draws, n] codes (small integers in the order of the values) of the column that
            selects the best elements.
        second: [draws, n] codes of the other column.
        sizes: [sizes] numbers of best elements; elements tied with the last are included.

    Returns:
        Two arrays [draws, sizes]; tau is NaN where one column is constant.
    """
    draws, n = first.shape
    wanted = np.asarray(sizes, dtype=np.int64)
    tau = np.empty((draws, len(wanted)))
    taken = np.empty(tau.shape, dtype=np.int64)
    step = max(1, _CHUNK // n)
    for start in range(0, draws, step):
        rows = slice(start, start + step)
        tau[rows], taken[rows] = _top_tau(first[rows], second[rows], wanted)
    return tau, taken


def top_mask(means: Floats, percent: float) -> NDArray[np.bool_]:
    """Return a mask of the top K % by means [cells], including ties with the last cell."""
    [size] = top_sizes(len(means), [percent])
    return np.asarray(means >= np.sort(means)[-size] - TIE_WIDTH / 2)


def _top_tau(first: Ints, second: Ints, sizes: Ints) -> tuple[Floats, Ints]:
    n = first.shape[1]
    small = _shortest(max(n, first.max(), second.max() + 1))
    first, second = first.astype(small), second.astype(small)
    # Sort by `first`, best first; among equals, by `second`, best first. From here on, each column
    # is a draw, so one operation on rows serves all draws.
    highest, width = first.max(), second.max() + 1
    keys = _sorted((highest - first) * width + (width - 1 - second))
    a_codes = keys // width
    b_codes = keys - a_codes * width
    tied_a, tied_both = _equals_before(a_codes), _equals_before(keys)

    # Positions in order of `second`, best first, the later position first among equals.
    by_b = _sorted(b_codes.T * n + np.arange(n - 1, -1, -1, dtype=small))
    b_ordered = by_b // n
    sequence = n - 1 - (by_b - b_ordered * n)
    ranks = np.empty(sequence.shape, dtype=np.intp)
    np.put_along_axis(ranks, sequence.astype(np.intp), np.arange(n)[:, None], axis=0)
    tied_b = np.take_along_axis(_equals_before(b_ordered[::-1])[::-1], ranks, axis=0)

    # For each element, count the earlier elements (better or equal in a) that are better in b.
    # Subtract those that are tied in a: the other elements form concordant pairs with this one.
    concordant = _smaller_before(sequence, ranks) - (tied_a - tied_both)
    score = 2 * concordant + tied_a + tied_b - tied_both

    last = _run_ends(a_codes)[np.clip(sizes, 1, n) - 1]
    up_to = []
    for summed in (score, tied_a, tied_b):
        running = _running(np.add, summed.astype(np.int64))
        up_to.append(np.take_along_axis(running, last, axis=0).T)
    return _tau_of_sums(last.T + 1, *up_to), last.T + 1


def _shortest(most: int) -> type[np.signedinteger[Any]]:
    """Return the shortest integer type that can store a pair of codes up to `most`."""
    return next((kind for up_to, kind in _SHORT if most <= up_to), np.int64)


def _sorted(rows: Ints) -> Ints:
    """Sort each row of [draws, n] and return the rows as columns [n, draws]."""
    return np.ascontiguousarray(np.sort(rows, axis=1).T)


def _tau_of_sums(
    size: NDArray[Any], score: NDArray[Any], tied_a: NDArray[Any], tied_b: NDArray[Any]
) -> Floats:
    """Return tau-b from the sizes of some sets of elements and sums over their elements.

    A set must contain, with each element, all better elements. `score` counts the pairs of an
    element with earlier elements: 2 for a concordant pair, 1 for a tied pair. `tied_a` and
    `tied_b` count its ties with earlier elements. All other pairs are discordant.
    """
    pairs = size * (size - 1.0) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        tau: Floats = (score - pairs) / np.sqrt((pairs - tied_a) * (pairs - tied_b))
    return tau


def _running(step: np.ufunc, values: Ints) -> Ints:
    """Accumulate `step` over rows; a loop over long rows is faster than numpy's `accumulate`."""
    if values.shape[1] < _LONG:
        down: Ints = step.accumulate(values, axis=0)
        return down
    run = np.ascontiguousarray(values).copy()
    for before, row in itertools.pairwise(run):
        step(before, row, out=row)
    return run


def _equals_before(codes: Ints) -> Ints:
    """Count the equal elements before each element, per column of sorted `codes`."""
    places = np.arange(len(codes), dtype=codes.dtype)[:, None]
    starts = np.zeros_like(codes)
    np.multiply(codes[1:] != codes[:-1], places[1:], out=starts[1:])
    return places - _running(np.maximum, starts)


def _run_ends(codes: Ints) -> Ints:
    """Return the row of the last element equal to each element, per column of sorted `codes`."""
    last = len(codes) - 1
    ends = np.full_like(codes, last)
    places = np.arange(last, dtype=codes.dtype)[:, None]
    ends[:-1] = np.where(codes[1:] != codes[:-1], places, last)
    return _running(np.minimum, ends[::-1])[::-1]


def _smaller_before(sequence: Ints, ranks: Ints) -> Ints:
    """Count, for each value v of the permutations [n, draws], the smaller values before it.

    Row v of the result belongs to the value v, and row v of `ranks` is its place in the sequence.
    Values and places are divided into blocks. A smaller value before v is in the block of values of
    v, or in the block of places of v, or in an earlier block of both.
    """
    n, draws = sequence.shape
    block = min(n, _MOST_IN_BLOCK, max(_FEWEST_IN_BLOCK, math.isqrt(n) + 1))
    near = _smaller_in_block(ranks.astype(np.min_scalar_type(n)), block)
    if block == n:
        return near
    blocks = -(-n // block)
    value_block = sequence // block
    before = _smaller_in_block(value_block.astype(np.min_scalar_type(blocks)), block)
    place_block = np.arange(n)[:, None] // block
    corner = (place_block * blocks + value_block) * draws + np.arange(draws)
    counts = np.bincount(corner.ravel(), minlength=blocks * blocks * draws)
    table = np.zeros((blocks + 1, blocks + 1, draws), dtype=sequence.dtype)
    table[1:, 1:] = counts.reshape(blocks, blocks, draws)
    for axis in (0, 1):
        np.cumsum(table, axis=axis, out=table)
    before += table[place_block, value_block, np.arange(draws)]
    return near + np.take_along_axis(before, ranks, axis=0)


def _smaller_in_block(values: Ints, block: int) -> Ints:
    """Count the smaller values before each value in blocks of `block` rows of [n, draws]."""
    n, draws = values.shape
    blocks = -(-n // block)
    rows = np.zeros((blocks * block, draws), dtype=values.dtype)
    rows[:n] = values
    rows = np.ascontiguousarray(rows.reshape(blocks, block, draws).swapaxes(0, 1))
    counts = np.zeros(rows.shape, dtype=np.uint8)
    for row in range(1, block):
        smaller = rows[:row] < rows[row]
        np.add.reduce(smaller.view(np.uint8), axis=0, out=counts[row])
    found = counts.swapaxes(0, 1).reshape(blocks * block, draws)
    return found[:n].astype(np.int32)
