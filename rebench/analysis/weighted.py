"""Kendall's tau-b among the best cells of bootstrap samples, without copies of the cells.

A bootstrap sample gives each cell a weight: the number of its copies. The order of the cells is the
same in every sample, so it is computed once. The concordant pairs of a cell are sums of weights
over the cells that are better in both columns. For all samples together these sums are products of
matrices. Each column divides its order of the cells into blocks of about sqrt(n) cells. A cell that
is better in both columns is in the same block of one column, or in earlier blocks of both columns.
All sums are exact whole numbers, so tau equals the tau of copied cells (`top_tau`) exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rebench.analysis.choices import Selection
from rebench.analysis.concordance import (
    Floats,
    Ints,
    dense_codes,
    known_taus,
    tau_of_sums,
    top_sizes,
    top_tau,
)

__all__ = ["resampled_curves", "sample_weights", "weighted_tau"]

# Number of weights of a chunk of work: arrays that fit into the cache.
_CHUNK: Final = 1 << 20
_SMALLEST_BLOCK: Final = 64
# With fewer cells or samples, copies are faster. Each value of K adds to the cost of weights.
_FEWEST_CELLS: Final = (40, 256)
_FEWEST_CELLS_PER_SIZE: Final = 20
_FEWEST_SAMPLES: Final = 16
# Floats of 32 bits are exact for whole numbers up to this value.
_EXACT: Final = 1 << 24

Values = NDArray[np.floating[Any]]


def resampled_curves(
    pairs: Iterable[tuple[Floats, Floats]],
    sample: Ints,
    top_percent: Sequence[float],
    *,
    by: Selection = "benchmark",
) -> list[tuple[Floats, Ints]]:
    """Return `tau_curves` of x[sample] and y[sample] for pairs of values x and y [n].

    `sample` [draws, cells] are rows of the values.
    """
    sizes = top_sizes(sample.shape[1], top_percent)
    codes = [dense_codes(np.stack(pair)) for pair in pairs]
    n = codes[0].shape[1] if codes else math.inf
    draws, size = sample.shape
    fewest = min(_FEWEST_CELLS[0] + _FEWEST_CELLS_PER_SIZE * len(sizes), _FEWEST_CELLS[1])
    if draws < _FEWEST_SAMPLES or size < fewest or n > 2 * size:
        return [known_taus(*top_tau(a[sample], b[sample], sizes, by)) for a, b in codes]
    weights = sample_weights(sample, codes[0].shape[1])
    return [known_taus(*weighted_tau(a, b, weights, sizes, by)) for a, b in codes]


def sample_weights(sample: Ints, n: int) -> Ints:
    """Count the copies of each of `n` cells in each sample: [samples, n] of rows [samples, k]."""
    weights = np.empty((len(sample), n), dtype=np.int64)
    for row, own in zip(sample, weights, strict=True):
        own[:] = np.bincount(row, minlength=n)
    return weights


def weighted_tau(
    first: Ints, second: Ints, weights: Ints, sizes: Sequence[int], by: Selection = "benchmark"
) -> tuple[Floats, Ints]:
    """Return `top_tau` of samples, for codes [n] and numbers of copies `weights` [samples, n]."""
    if by == "retrained":
        first, second = second, first
    order = _Order.of(first, second)
    exact = 2 * weights.max(initial=1) * weights.sum(axis=1).max(initial=1) < _EXACT
    step = max(1, _CHUNK // len(order.places))
    parts = [
        order.tau(
            weights[start : start + step],
            sizes,
            np.float32 if exact else np.float64,
            by == "either",
        )
        for start in range(0, len(weights), step)
    ]
    tau, taken = (np.concatenate(each, axis=1).T for each in zip(*parts, strict=True))
    return tau, taken


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Order:
    """Order of the cells in two columns, with pairwise comparisons as matrices of 0 and 1.

    Places are positions in the order by the first column, best cell first; ties are ordered by the
    second column. Ranks are positions in the order by the second column; among ties, the later
    place is first. Both orders are divided into `blocks` blocks of `block` cells. Cells of weight
    0, worse than all others, fill the last block.
    """

    block: int
    blocks: int
    places: Ints
    """[n] the cell at each place."""
    place_of_rank: Ints
    rank_of_place: Ints
    first: Ints
    """[n] by place: codes of the first column."""
    second: Ints
    """[n] by place: codes of the second column."""
    beaten_in_place_block: Values
    """[blocks, cell, other] 1 if the other cell of the block of places beats the cell."""
    beaten_in_rank_block: Values
    """[blocks, cell, other] the same for blocks of ranks and cells of earlier blocks of places."""
    earlier: Values
    """[blocks, blocks, cell] 1 if a cell of the block of ranks is in an earlier block of places."""

    @classmethod
    def of(cls, first: Ints, second: Ints) -> _Order:
        """Order cells by codes [n] of two columns."""
        block = min(len(first), max(_SMALLEST_BLOCK, math.isqrt(len(first) - 1) + 1))
        blocks = -(-len(first) // block)
        filler = -1 - np.arange(blocks * block - len(first))
        first, second = (np.concatenate([codes, filler]) for codes in (first, second))
        places = np.lexsort((-second, -first))
        place = np.arange(len(places))
        by_rank = np.lexsort((-place, -second[places]))
        rank = np.empty_like(by_rank)
        rank[by_rank] = place
        ranks = rank.reshape(blocks, block)
        before = np.tri(block, k=-1, dtype=bool)
        beats = before & (ranks[:, None, :] < ranks[:, :, None])
        block_of = (by_rank // block).reshape(blocks, block)
        beats_in_rank = before & (block_of[:, None, :] < block_of[:, :, None])
        earlier = block_of[:, None, :] < np.arange(blocks)[:, None]
        matrices = (own.astype(np.float32) for own in (beats, beats_in_rank, earlier))
        names = ("beaten_in_place_block", "beaten_in_rank_block", "earlier")
        return cls(
            block=block,
            blocks=blocks,
            places=places,
            place_of_rank=by_rank,
            rank_of_place=rank,
            first=first[places],
            second=second[places],
            **dict(zip(names, matrices, strict=True)),
        )

    def tau(
        self, weights: Ints, sizes: Sequence[int], dtype: type[np.floating[Any]], either: bool
    ) -> tuple[Floats, Ints]:
        """Return tau and number of the best cells [sizes, samples], for weights [samples, n]."""
        w = np.zeros((len(self.places), len(weights)), dtype=dtype)
        w[: weights.shape[1]] = weights.take(self.places[: weights.shape[1]], axis=1).T
        by_rank = w[self.place_of_rank]
        second_by_rank = self.second[self.place_of_rank]
        # Equal cells are next to each other. Ties before a cell are a difference of running sums.
        running = self._cumulated(w)
        running -= w
        tied_first = running - running[_starts(self.first)]
        tied_both = running - running[_starts(self.first, self.second)]
        # Among ties in ranks, the later place is first.
        running = self._cumulated(by_rank)
        tied_second = (running[_ends(second_by_rank)] - running)[self.rank_of_place]
        score = self._better(w, by_rank)
        score *= 2
        score -= tied_first
        score += tied_second
        score += tied_both
        inner = w - 1
        inner *= 0.5
        # Pairs of copies of the same cell are tied in both columns.
        summed = [w]
        for pairs in (score, tied_first, tied_second):
            pairs += inner
            pairs *= w
            summed.append(pairs)
        last = self._last(w, self.first, sizes)
        if either:
            lowest = second_by_rank[self._last(by_rank, second_by_rank, sizes)]
            sums = self._united(summed, np.argsort(sizes), last, lowest)
        else:
            sums = [self._running(own, last) for own in summed]
        size, *of_pairs = sums
        return tau_of_sums(size, *of_pairs), size.astype(np.int64)

    def _better(self, w: Values, by_rank: Values) -> Values:
        """Sum the weights of the cells that are before each cell in places and in ranks."""
        shape = (self.blocks, self.block, -1)
        near = (self.beaten_in_place_block.astype(w.dtype, copy=False) @ w.reshape(shape)).reshape(
            w.shape
        )
        if self.blocks == 1:
            return near
        ranked = by_rank.reshape(shape)
        in_rank = (self.beaten_in_rank_block.astype(w.dtype, copy=False) @ ranked).reshape(w.shape)
        earlier = (self.earlier.astype(w.dtype, copy=False) @ ranked).reshape(self.blocks, -1)
        below = np.tri(self.blocks, k=-1, dtype=w.dtype) @ earlier
        rank = np.arange(len(w))
        at = rank // self.block * self.blocks + self.place_of_rank // self.block
        in_rank += below.reshape(self.blocks**2, -1)[at]
        near += in_rank[self.rank_of_place]
        return near

    def _cumulated(self, w: Values) -> Values:
        """Sum the weights up to each row by products of matrices, faster than numpy's cumsum."""
        blocks = w.reshape(self.blocks, self.block, -1)
        running = np.tri(self.block, dtype=w.dtype) @ blocks
        running[1:] += np.cumsum(running[:-1, -1], axis=0)[:, None]
        return running.reshape(w.shape)

    def _last(self, w: Values, codes: Ints, sizes: Sequence[int]) -> Ints:
        """Return the last place of the best cells [sizes, samples], including ties."""
        blocks = w.reshape(self.blocks, self.block, -1)
        reached = np.cumsum(blocks.sum(axis=1), axis=0)
        wanted = np.asarray(sizes)[:, None]
        at = np.array([(reached < size).sum(axis=0) for size in sizes])
        samples = np.arange(w.shape[1])
        before = np.where(at > 0, reached[at - 1, samples], 0)
        inside = blocks[at, :, samples].cumsum(axis=-1) + before[..., None]
        places = at * self.block + (inside < wanted[..., None]).sum(axis=-1)
        return _ends(codes)[places]

    def _united(
        self, summed: Sequence[Values], order: Ints, last: Ints, lowest: Ints
    ) -> list[Floats]:
        """Sum [sizes, samples] over cells up to the places `last`, or with codes from `lowest`.

        `order` sorts the sizes. The best cells of a small size are among those of a larger size. It
        is therefore enough to count, for each cell, the sizes that exclude the cell.
        """
        place, code = np.arange(len(self.places))[:, None], self.second[:, None]
        missed = np.zeros(summed[0].shape, dtype=np.int64)
        for own, least in zip(last, lowest, strict=True):
            missed += (place > own) & (code < least)
        samples = last.shape[1]
        missed *= samples
        missed += np.arange(samples)
        found = []
        for values in summed:
            counted = np.bincount(missed.ravel(), values.ravel(), (len(last) + 1) * samples)
            of_size = np.empty(last.shape)
            of_size[order] = np.cumsum(counted.reshape(-1, samples)[:-1], axis=0)
            found.append(of_size)
        return found

    def _running(self, values: Values, last: Ints) -> Floats:
        """Sum the values [n, samples] up to the places `last` [sizes, samples]."""
        blocks = values.reshape(self.blocks, self.block, -1)
        at, place = last // self.block, last % self.block
        totals = np.cumsum(blocks.sum(axis=1, dtype=np.float64), axis=0)
        samples = np.arange(values.shape[1])
        before = np.where(at > 0, totals[at - 1, samples], 0.0)
        inside = np.arange(self.block) <= place[..., None]
        part: Floats = np.sum(blocks[at, :, samples], axis=-1, where=inside, dtype=np.float64)
        return before + part


def _starts(*codes: Ints) -> Ints:
    """Return the first row of the ties of each row, for rows sorted by `codes`."""
    changes = np.any([code[1:] != code[:-1] for code in codes], axis=0)
    return np.maximum.accumulate(np.where(np.r_[True, changes], np.arange(len(codes[0])), 0))


def _ends(codes: Ints) -> Ints:
    """Return the last row of the ties of each row, for rows sorted by `codes`."""
    return len(codes) - 1 - _starts(codes[::-1])[::-1]
