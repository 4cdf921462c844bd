"""Power to detect a drop, on simulated runs."""

from __future__ import annotations

import numpy as np
import pytest
from simulated_tables import runs, table_of, world

from rebench.analysis import read_accuracies
from rebench.analysis.power import power
from rebench.errors import InputError
from rebench.tables import open_table


def test_power_is_the_share_of_tables_that_show_a_change():
    """For a tiny change the power is the level; more cells or seeds give more power."""
    rng = np.random.default_rng(2)
    learnt = table_of(runs(*world(300, rng), 3, rng))
    found = power(learnt, 0.1, cells=(20, 200), seeds=(2, 4), draws=40, rng=0)
    assert found[["cells", "seeds"]].to_numpy().tolist() == [[20, 2], [20, 4], [200, 2], [200, 4]]
    assert found["runs"].tolist() == [80, 160, 800, 1600]
    by = found["power"].to_numpy()
    assert by[0] < by[2] > 0.9
    assert by[3] >= by[2]
    nothing = power(learnt, 0.001, cells=(60,), seeds=(3,), draws=100, rng=0)
    assert nothing["power"].item() < 0.15
    with pytest.raises(InputError, match="the drop between unrelated rankings, got 2"):
        power(learnt, 2.0, rng=0)
    with pytest.raises(InputError, match=r"must be above 0 .*, got 0$"):
        power(learnt, 0.0, rng=0)


def test_power_is_that_of_the_test_of_rank():
    """With 16 cells and two seeds, `rank` often misses a change like that of `mini@topology`."""
    learnt = read_accuracies(open_table("mini@fixed").frame(), dataset="cifar10-jpeg16")
    two, three = power(learnt, 0.28, cells=(16,), seeds=(2, 3), draws=60, rng=0)["power"]
    assert 0.1 < two < 0.45 < three < 0.85
    assert power(learnt, 0.28, cells=(16,), seeds=(1,), draws=10, rng=0)["power"].item() == 0
    (alone,) = power(learnt, 0.1, cells=(60,), seeds=(3,), tested=(100,), draws=60, rng=0)["power"]
    (of_twelve,) = power(learnt, 0.1, cells=(60,), seeds=(3,), draws=60, rng=0)["power"]
    assert of_twelve < alone - 0.05  # p is adjusted for all K
