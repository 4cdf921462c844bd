"""Kendall's tau-b of every leading part of a ranking at once, for many pairs of columns at once.

Rows are sorted by the first column, best first, so that "the top K %" is a prefix. If every
element knows how many earlier ones beat it in the second column, the concordance of all prefixes
is one cumulative sum: a whole curve of tau against K costs as much as its last point. The counts
come from a wavelet-style partition by the bits of the rank, which numpy does for all rows
together: exact, O(n log n), and no loop over draws. See `README.md` beside this file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Floats", "Ints", "dense_codes", "prefix_tau"]

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

# Accuracies (percent) closer than this are one value: means of equal seeds in another order
# differ in their last bits, and that must stay a tie.
TIE_WIDTH = 1e-6
# About this many elements are worked on together: few calls, and arrays that stay in cache.
_CHUNK = 1 << 17


def dense_codes(values: NDArray[np.floating[Any]]) -> Ints:
    """Return, per row of `values` [draws, n], integers that order as the values do.

    Equal values (to `TIE_WIDTH`) have equal codes; the lowest is 0.
    """
    rounded = np.rint(np.asarray(values, dtype=np.float64) / TIE_WIDTH)
    order = np.argsort(rounded, axis=1)
    ordered = np.take_along_axis(rounded, order, axis=1)
    steps = np.zeros(rounded.shape, dtype=np.int64)
    steps[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    codes = np.empty_like(steps)
    np.put_along_axis(codes, order, np.cumsum(steps, axis=1), axis=1)
    return codes


def prefix_tau(
    first: Ints, second: Ints, sizes: Sequence[int] | Ints, *, limit: int | None = None
) -> tuple[Floats, Ints]:
    """Return tau-b among the leading elements by `first`, and how many elements those are.

    Args:
        first: [draws, n] codes from 0 to n - 1 that select and order, higher is better.
        second: [draws, n] codes from 0 to n - 1 of the other column, higher is better.
        sizes: [sizes], or [draws, sizes] where each row has its own: how many leading elements.
            Elements that tie with the last one taken are taken too.
        limit: leave out what comes after so many elements: faster where no prefix is longer.

    Returns:
        Two arrays [draws, sizes]; tau is NaN where one column is constant.
    """
    draws, n = first.shape
    wanted = np.broadcast_to(np.asarray(sizes, dtype=np.int64), (draws, np.shape(sizes)[-1]))
    tau = np.empty(wanted.shape)
    taken = np.empty(wanted.shape, dtype=np.int64)
    step = max(1, _CHUNK // n)
    for start in range(0, draws, step):
        rows = slice(start, start + step)
        tau[rows], taken[rows] = _prefix_tau(first[rows], second[rows], wanted[rows], limit or n)
    return tau, taken


def _prefix_tau(first: Ints, second: Ints, sizes: Ints, limit: int) -> tuple[Floats, Ints]:
    draws, n = first.shape
    # Best first, and among equals of `first` the best of `second` first.
    keys = np.sort((n - 1 - first) * n + (n - 1 - second), axis=1)[:, :limit]
    a_codes, b_codes = np.divmod(keys, n)
    n = keys.shape[1]
    tied_a, end_of_a = _runs(a_codes)
    tied_both, _ = _runs(keys)

    # Positions in order of `second`, best first, the later position first among equals.
    by_b = np.sort(b_codes * n + np.arange(n - 1, -1, -1), axis=1)
    b_ordered, reversed_position = np.divmod(by_b, n)
    sequence = n - 1 - reversed_position
    earlier_in_run, _ = _runs(b_ordered[:, ::-1])
    tied_b = np.empty_like(keys)
    np.put_along_axis(tied_b, sequence[:, ::-1], earlier_in_run, axis=1)

    # Of the elements before this one, `better` beat it in b and the rest, less ties, lose to it.
    # Elements tied in a count for neither; they come first only where they do not lose in b.
    better = _smaller_before(sequence)
    score = 2 * better + tied_b - np.arange(n) - (tied_a - tied_both)

    last = np.take_along_axis(end_of_a, np.clip(sizes, 1, n) - 1, axis=1)
    size = last + 1
    all_pairs = size * last // 2
    untied_a = all_pairs - np.take_along_axis(np.cumsum(tied_a, axis=1), last, axis=1)
    untied_b = all_pairs - np.take_along_axis(np.cumsum(tied_b, axis=1), last, axis=1)
    total = np.take_along_axis(np.cumsum(score, axis=1), last, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        tau = total / np.sqrt(untied_a * untied_b.astype(np.float64))
    return tau, np.broadcast_to(size, (draws, sizes.shape[1]))


def _runs(codes: Ints) -> tuple[Ints, Ints]:
    """Per row of sorted `codes`: how many equals stand before each element, and its run's end."""
    n = codes.shape[1]
    places = np.arange(n)
    starts = np.zeros(codes.shape, dtype=np.int64)
    change = codes[:, 1:] != codes[:, :-1]
    starts[:, 1:] = np.where(change, places[1:], 0)
    before = places - np.maximum.accumulate(starts, axis=1)
    ends = np.full(codes.shape, n - 1, dtype=np.int64)
    ends[:, :-1] = np.where(change, places[:-1], n - 1)
    run_end: Ints = np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1]
    return before, run_end


def _smaller_before(sequence: Ints) -> Ints:
    """Count, for each value v of the permutations [draws, n], the smaller values before it.

    Column v of the result belongs to the value v. From the highest bit down, blocks hold the
    values that share their higher bits, in their order in the sequence: every value with the bit
    set has, before it, the block's values without it, which are smaller. A block has as many of
    each kind, so positions need no bookkeeping. Count and value travel in one integer.
    """
    draws, n = sequence.shape
    width = 1 << max(1, (n - 1).bit_length())
    packed = np.empty((draws, width), dtype=np.int32 if width <= 1 << 15 else np.int64)
    packed[:, :n] = sequence
    packed[:, n:] = np.arange(n, width)  # padding is larger and later: it is never counted
    flat = packed.reshape(-1)
    half = width // 2
    ranks = np.arange(flat.size // 2)
    while half:
        has_bit = (flat & half) != 0
        upper_at = np.flatnonzero(has_bit)
        lower_at = np.flatnonzero(~has_bit)
        lower_before = upper_at - ranks - ranks // half * half
        halves = np.empty((flat.size // (2 * half), 2, half), dtype=flat.dtype)
        halves[:, 0] = flat[lower_at].reshape(-1, half)
        halves[:, 1] = (flat[upper_at] + (lower_before * width).astype(flat.dtype)).reshape(
            -1, half
        )
        flat = halves.reshape(-1)
        half //= 2
    counts: Ints = (flat // width).reshape(draws, width)[:, :n].astype(np.int64)
    return counts
