"""The interval of the drop: what it allows for noise that differs between two tables."""

from __future__ import annotations

import numpy as np

from rebench.analysis import Paired
from rebench.analysis.drop import _excess


def test_noise_of_cells_that_change_their_rank_is_that_of_their_new_rank():
    """A bad cell is noisy. A good cell that gets bad in the second table does not make it noisier.

    The allowance is equal for a second table with the same ranking and for one with another.
    """
    rng = np.random.default_rng(0)
    true = np.sort(rng.standard_normal(400))
    run_sd = 0.3 * np.exp(-true)

    def runs(noisier):
        return true[:, None] + noisier * run_sd[:, None] * rng.standard_normal((400, 3))

    before, after = runs(1.0), runs(2.0)
    moved = rng.permutation(400)
    allowed = [
        _excess(Paired.of_values(before, own), (100.0, 50.0, 20.0), np.random.default_rng(1))
        for own in (after, after[moved])
    ]
    np.testing.assert_allclose(*allowed, atol=0.01)
    assert 0 < allowed[0][0] < 0.1
