"""Pairwise gaps against writing out every pair."""

from __future__ import annotations

import itertools

import numpy as np

from rebench.analysis import gap_counts


def _all_gaps(means):
    return np.array([abs(x - y) for x, y in itertools.combinations(means, 2)])


def test_gap_counts_are_those_of_all_pairs():
    means = np.round(np.random.default_rng(0).normal(90, 2, 80), 1)  # many ties and round gaps
    edges = [0.0, 0.1, 0.55, 1.0, 3.0, 20.0]
    expected = [
        ((_all_gaps(means) >= low - 1e-6) & (_all_gaps(means) < high - 1e-6)).sum()
        for low, high in itertools.pairwise(edges)
    ]
    assert gap_counts(means, edges).tolist() == expected
