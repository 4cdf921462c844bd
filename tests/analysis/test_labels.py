"""Labels decide which rows belong together: every function that takes two sets of accuracies."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from rebench.analysis import (
    gaps,
    improvement,
    improvement_by,
    noise_curve,
    rank_agreement,
    regression,
    seed_test,
)
from rebench.analysis.ranks import aligned
from rebench.errors import InputError
from rebench.search.proxies import rank_correlation

CELLS = np.arange(0, 1200, 20)


def _tables():
    """Two labelled tables of the same cells, the second in another order, and as arrays."""
    rng = np.random.default_rng(0)
    true = rng.normal(90, 2, len(CELLS))
    before, after = (
        pd.DataFrame(true[:, None] + rng.normal(0, 0.5, (len(CELLS), 3)), index=CELLS)
        for _ in range(2)
    )
    return before, after, after.sample(frac=1, random_state=1)


TAKE_TWO = {
    "rank_agreement": lambda a, b: rank_agreement(a, b, (100, 50), draws=20, rng=3),
    "seed_test": lambda a, b: seed_test(a, b, (100, 50), draws=20, rng=3),
    "gaps": gaps,
    "improvement": lambda a, b: pd.DataFrame([improvement(a, b)]),
    "improvement_by": lambda a, b: improvement_by(a, b, b.mean(axis=1)),
    "regression": lambda a, b: regression(a, b, CELLS),
    "rank_correlation": lambda a, b: pd.DataFrame([rank_correlation(a[0], b[0])]),
}


@pytest.mark.parametrize("name", TAKE_TWO)
def test_rows_are_brought_together_by_their_labels(name):
    before, after, shuffled = _tables()
    assert not np.array_equal(after.index, shuffled.index)
    expected, found = (TAKE_TWO[name](before, table) for table in (after, shuffled))
    pd.testing.assert_frame_equal(found, expected)


@pytest.mark.parametrize("name", TAKE_TWO)
def test_tables_of_other_cells_are_refused_naming_what_is_missing(name):
    before, after, _ = _tables()
    with pytest.raises(InputError, match="the second table lacks cells 0, 20, which the first"):
        TAKE_TWO[name](before, after.iloc[2:])
    with pytest.raises(InputError, match="the first table lacks cells 1160, 1180, which the sec"):
        TAKE_TWO[name](before.iloc[:-2], after)


def test_only_some_missing_cells_are_named_and_all_counted_for():
    before, after, _ = _tables()
    with pytest.raises(InputError, match="lacks cells 0, 20, 40, 60, 80 and 2 more, which"):
        improvement(before, after.iloc[7:])


def test_a_cell_that_stands_twice_is_refused():
    before, after, _ = _tables()
    with pytest.raises(InputError, match="the second table holds more than one row of cell 0;"):
        improvement(before, pd.concat([after, after.iloc[:1]]))


def test_labels_on_one_side_alone_are_refused():
    before, after, _ = _tables()
    with pytest.raises(InputError, match="some tables are labelled by cell"):
        improvement(before, after.to_numpy())


def test_plain_arrays_go_by_position_and_must_be_equally_long():
    first, second = aligned([1.0, 2.0], [[3.0, 4.0], [5.0, 6.0]])
    assert first.tolist() == [[1.0], [2.0]]
    assert second.tolist() == [[3.0, 4.0], [5.0, 6.0]]
    with pytest.raises(InputError, match="the tables have 2 and 3 cells: pair them first"):
        aligned([1.0, 2.0], [1.0, 2.0, 3.0])


TAKE_RNG = {
    "rank_agreement": lambda a, b, rng: rank_agreement(a, b, (100,), draws=30, rng=rng),
    "seed_test": lambda a, b, rng: seed_test(a, b, (100,), draws=30, rng=rng),
    "noise_curve": lambda a, _, rng: noise_curve(a, (1, 1), (100,), draws=30, rng=rng),
}


@pytest.mark.parametrize("name", TAKE_RNG)
def test_rng_is_a_generator_the_seed_of_one_or_left_out(name):
    before, after, _ = _tables()
    same = TAKE_RNG[name](before, after, np.random.default_rng(5))
    pd.testing.assert_frame_equal(TAKE_RNG[name](before, after, 5), same)
    assert TAKE_RNG[name](before, after, None).shape == same.shape
