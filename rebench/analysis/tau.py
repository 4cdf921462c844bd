"""Kendall's tau-b among the best of two columns, for many K and many pairs of columns at once.

For each element, count the others that are better in both columns. The concordance of the top K %
is a sum of these counts, so all K together cost about the same as a single K. The order of the
cells in each column is divided into blocks of about sqrt(n) cells. Inside a block all pairs are
compared, and numbers of cells in pairs of blocks give the other counts. The counts are exact, and
numpy computes them for all draws together. See `docs/explanation/analysis.md`.
"""

from __future__ import annotations

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
    "chosen_curves",
    "counts_of",
    "dense_codes",
    "last_of_best",
    "refuse_small_top",
    "resampled_curves",
    "tau_curves",
    "top_mask",
    "top_sizes",
    "top_tau",
]

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
_Codes: TypeAlias = NDArray[np.signedinteger[Any]]

MIN_CELLS: Final = 10
"""Smallest number of cells for which tau is reported."""
# Number of elements of a chunk of work: few calls, and arrays that fit into the cache.
_CHUNK = 1 << 17
# Largest number of cells for matrices of all pairs of cells.
_MATRIX: Final = 4000
# More than twice the number of sampled cells: sums up to half of it can be told apart.
_PART: Final = 2.0**17
# Short integer types, each with the largest number of cells or codes whose square fits.
_SHORT: Final = ((180, np.int16), (46_340, np.int32))
# Numbers of cells in a block of `_smaller_before`: about the root of n; counts fit into a byte.
_FEWEST_IN_BLOCK: Final = 64
_MOST_IN_BLOCK: Final = 255


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
        first, second = dense_codes(np.stack(pair)).astype(np.int32)
        curves.append(_known_taus(*top_tau(first[sample], second[sample], sizes)))
    return curves


def chosen_curves(
    pairs: Sequence[tuple[Floats, Floats]],
    sample: Ints,
    top_percent: Sequence[float],
    chooser: Floats,
) -> list[tuple[Floats, Ints]]:
    """Return `resampled_curves`, but `chooser` [n] selects the top K % of each sample."""
    sizes = np.array(top_sizes(sample.shape[1], top_percent))
    by = dense_codes(chooser[None])[0].astype(np.int32)
    codes = [dense_codes(np.stack(pair)).astype(np.int32) for pair in pairs]
    repeated = len(sample) > 1 and len(by) / 2 <= sample.shape[1] <= 2 * _MATRIX
    curves = _of_counts if repeated and len(by) <= _MATRIX else _of_each_sample
    tau, taken = curves(codes, sample, sizes, by)
    return [_known_taus(each, taken) for each in tau]


def counts_of(sample: Ints, n: int) -> Floats:
    """Return how often each of n cells is in each sample [samples, cells]: [samples, n]."""
    places = sample + np.arange(len(sample))[:, None] * n
    counts = np.bincount(places.reshape(-1), minlength=len(sample) * n)
    return counts.reshape(-1, n).astype(np.float64)


def last_of_best(ordered: Ints, reached: Floats, sizes: Ints) -> NDArray[np.intp]:
    """Return the place of the last of the best cells of each sample, [samples, sizes].

    Args:
        ordered: [n] codes of the cells, best first.
        reached: [samples, n] numbers of sampled cells up to each place.
        sizes: numbers of best cells; cells that are tied with the last are included.
    """
    ends = _run_ends(ordered[None])[0]
    last = np.empty((len(reached), len(sizes)), dtype=np.intp)
    for row, numbers in enumerate(reached):
        last[row] = np.searchsorted(numbers, sizes)
    return ends[last]


def _of_counts(codes: Sequence[_Codes], sample: Ints, sizes: Ints, by: Ints) -> tuple[Floats, Ints]:
    """Return tau [pairs, samples, sizes] and numbers of cells from products of matrices.

    The matrix of a pair of columns tells whether two cells are concordant or tied. Its product with
    the numbers of each cell in a sample gives the sums over the pairs of a sample. The cells are in
    the order of the chooser, so all sizes are parts of one cumulative sum.
    """
    order = np.argsort(-by, kind="stable")
    counts = counts_of(sample, len(by))[:, order]
    reached = np.cumsum(counts, axis=1)
    last = last_of_best(by[order], reached, sizes)
    taken = np.take_along_axis(reached, last, axis=1)
    copies = counts * (counts - 1) / 2  # pairs of a cell with itself, tied in both columns
    tau = np.empty((len(codes), *taken.shape))
    for number, pair in enumerate(codes):
        scores, tied_a, tied_b = _sums_before(pair[0, order], pair[1, order], counts)
        score, ties_a, ties_b = (
            np.take_along_axis(np.cumsum(summed, axis=1), last, axis=1)
            for summed in (scores * counts, tied_a * counts + copies, tied_b * counts + copies)
        )
        pairs = taken * (taken - 1) / 2
        # `_tau_of_sums` takes 2 for a concordant pair and 1 for a tied pair.
        tau[number] = _tau_of_sums(taken, score + pairs, ties_a, ties_b)
    return tau, taken.astype(np.int64)


def _sums_before(first: _Codes, second: _Codes, counts: Floats) -> tuple[Floats, Floats, Floats]:
    """Return sums over the cells before each cell, [samples, cells], weighted by their `counts`.

    These are the concordant minus the discordant cells, and those tied in each column. One matrix
    product gives all three: they are parts of one number, with `_PART` between them.
    """
    n = len(first)
    sums = np.empty(counts.shape)
    step = max(1, _CHUNK // n)
    for start in range(0, n, step):
        end = min(n, start + step)
        above = np.sign(first[start:end, None] - first[:end])
        beside = np.sign(second[start:end, None] - second[:end])
        parts = above * beside + _PART * (above == 0) + _PART**2 * (beside == 0)
        parts[:, start:] = np.tril(parts[:, start:], -1)
        sums[:, start:end] = counts[:, :end] @ parts.T
    tied_b = np.rint(sums / _PART**2)
    sums -= tied_b * _PART**2
    tied_a = np.rint(sums / _PART)
    return sums - tied_a * _PART, tied_a, tied_b


def _of_each_sample(
    codes: Sequence[_Codes], sample: Ints, sizes: Ints, by: Ints
) -> tuple[Floats, Ints]:
    """Return the same values as `_of_counts`, sample by sample; for many cells this is faster."""
    tau = np.empty((len(codes), len(sample), len(sizes)))
    taken = np.empty(tau.shape[1:], dtype=np.int64)
    step = max(1, _CHUNK // sample.shape[1])
    for start in range(0, len(sample), step):
        draws = slice(start, start + step)
        chosen_by = by[sample[draws]]
        order = np.argsort(-chosen_by, axis=1, kind="stable")
        rows = np.take_along_axis(sample[draws], order, axis=1)
        ends = _run_ends(np.take_along_axis(chosen_by, order, axis=1))
        for column, size in enumerate(sizes):
            own = ends[:, [size - 1]] + 1
            taken[draws, column] = own[:, 0]
            best = rows[:, : own.max()]
            inside = np.arange(best.shape[1]) < own
            for number, (first, second) in enumerate(codes):
                # Cells that are not selected are last, and do not count.
                kept = np.where(inside, first[best] + 1, 0)
                tau[number, draws, column] = _top_tau(kept, second[best], own)[0][:, 0]
    return tau, taken


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
    wanted = np.asarray(sizes, dtype=np.int64)[None]
    tau = np.empty((draws, wanted.shape[1]))
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
    """Return `top_tau`, for sizes [draws, sizes] or [1, sizes]."""
    draws, n = first.shape
    small = _shortest(max(n, first.max(), second.max() + 1))
    # Rows must be contiguous, because `places` are places in flat arrays.
    first = np.ascontiguousarray(first, dtype=small)
    second = np.ascontiguousarray(second, dtype=small)
    # Sort by `first`, best first; among equals, by `second`, best first.
    highest, width = first.max(), second.max() + 1
    keys = np.sort((highest - first) * width + (width - 1 - second), axis=1)
    a_codes = keys // width
    b_codes = keys - a_codes * width
    tied_a, tied_both = _equals_before(a_codes), _equals_before(keys)

    # Positions in order of `second`, best first, the later position first among equals.
    by_b = np.sort(b_codes * n + np.arange(n - 1, -1, -1, dtype=small), axis=1)
    b_ordered = by_b // n
    sequence = n - 1 - (by_b - b_ordered * n)
    # The place of each position in the arrays of all draws, row after row.
    places = sequence + np.arange(draws)[:, None] * n
    tied_b = np.empty_like(tied_a)
    tied_b.reshape(-1)[places] = _equals_before(b_ordered[:, ::-1])[:, ::-1]

    # For each element, count the earlier elements (better or equal in a) that are better in b.
    # Those that are tied in a are no concordant pairs: there are `tied_a - tied_both` of them. The
    # score is 2 for each concordant pair and 1 for each tied pair.
    score = 2 * _smaller_before(sequence, places) - tied_a + tied_b + tied_both

    last = np.take_along_axis(_run_ends(a_codes), np.clip(sizes, 1, n) - 1, axis=1)
    up_to = []
    wide = np.promote_types(small, np.int32)  # the sums are below the square of n
    for summed in (score, tied_a, tied_b):
        running = np.cumsum(summed, axis=1, dtype=wide)
        up_to.append(np.take_along_axis(running, last, axis=1))
    return _tau_of_sums(last + 1, *up_to), last + 1


def _shortest(most: int) -> type[np.signedinteger[Any]]:
    """Return the shortest integer type that can store a pair of codes up to `most`."""
    return next((kind for up_to, kind in _SHORT if most <= up_to), np.int64)


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


def _equals_before(codes: Ints) -> Ints:
    """Count the equal elements before each element, per row of sorted `codes`."""
    places = np.arange(codes.shape[1], dtype=codes.dtype)
    starts = np.zeros_like(codes)
    np.multiply(codes[:, 1:] != codes[:, :-1], places[1:], out=starts[:, 1:])
    return places - np.maximum.accumulate(starts, axis=1)


def _run_ends(codes: Ints) -> NDArray[np.intp]:
    """Return the place of the last element equal to each element, per row of sorted `codes`."""
    last = codes.shape[1] - 1
    ends = np.full(codes.shape, last, dtype=np.intp)
    ends[:, :-1] = np.where(codes[:, 1:] != codes[:, :-1], np.arange(last), last)
    return np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1]


def _smaller_before(sequence: Ints, places: Ints) -> Ints:
    """Count, for each value v of the permutations [draws, n], the smaller values before it.

    Column v of the result belongs to the value v: `places` [draws, n] are the flat places of the
    values of `sequence` in the result. Values and positions in the sequence are divided into
    blocks. A smaller value before v is in the block of values of v, or in the block of positions
    of v, or in an earlier block of both.
    """
    draws, n = sequence.shape
    block = min(n, _MOST_IN_BLOCK, max(_FEWEST_IN_BLOCK, math.isqrt(n) + 1))
    blocks = -(-n // block)
    positions = np.empty((draws, n), dtype=np.min_scalar_type(n))
    positions.reshape(-1)[places] = np.arange(n)
    smaller = _smaller_in_block(positions, block)
    if blocks == 1:
        return smaller
    value_block = sequence // block
    before = _smaller_in_block(value_block.astype(np.min_scalar_type(blocks)), block)
    corner = np.arange(draws)[:, None] * blocks**2 + np.arange(n) // block * blocks + value_block
    counts = np.bincount(corner.reshape(-1), minlength=draws * blocks**2)
    counts = counts.reshape(draws, blocks, blocks)
    earlier = np.zeros(counts.shape, dtype=np.int32)
    earlier[:, 1:, 1:] = counts[:, :-1, :-1].cumsum(axis=1, dtype=np.int32).cumsum(axis=2)
    before += np.take(earlier, corner)
    smaller.reshape(-1)[places] += before
    return smaller


def _smaller_in_block(values: Ints, block: int) -> Ints:
    """Count the smaller values before each value in blocks of `block` columns of [draws, n]."""
    draws, n = values.shape
    blocks = -(-n // block)
    padded = np.zeros((draws, blocks * block), dtype=values.dtype)
    padded[:, :n] = values
    # One column for each block, so that one operation serves all blocks.
    columns = np.ascontiguousarray(padded.reshape(draws * blocks, block).T)
    counts = np.zeros(columns.shape, dtype=np.uint8)
    for row in range(1, block):
        smaller = columns[:row] < columns[row]
        np.add.reduce(smaller.view(np.uint8), axis=0, out=counts[row])
    return counts.T.reshape(draws, blocks * block)[:, :n].astype(np.int32)
