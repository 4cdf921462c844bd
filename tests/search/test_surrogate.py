"""The surrogate on a smooth truth that no sample shows whole: does it say how good it is?"""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from search_tables import final_accuracy

from rebench.errors import InputError
from rebench.search import search_table
from rebench.search.surrogate import Surrogate, fit_surrogate, write_surrogate
from rebench.tables import open_table

pytestmark = pytest.mark.shared_data


@pytest.fixture(scope="module")
def truth() -> np.ndarray:
    return final_accuracy("cifar10")


@pytest.fixture(scope="module")
def sample() -> np.ndarray:
    return np.sort(np.random.default_rng(0).choice(15_625, 250, replace=False))


@pytest.fixture(scope="module")
def surrogate(truth: np.ndarray, sample: np.ndarray) -> Surrogate:
    return fit_surrogate(sample, truth[sample], rng=np.random.default_rng(1))


def _unseen(sample: np.ndarray) -> np.ndarray:
    return np.setdiff1d(np.arange(15_625), sample)


def test_cross_validated_tau_is_that_on_cells_it_never_saw(
    surrogate: Surrogate, truth: np.ndarray, sample: np.ndarray
):
    unseen = _unseen(sample)
    real = stats.kendalltau(surrogate.predicted[unseen], truth[unseen]).statistic
    assert surrogate.tau.low - 0.05 <= real <= surrogate.tau.high + 0.05
    assert surrogate.tau.value > 0.6


def test_intervals_hold_their_level_on_cells_it_never_saw(
    surrogate: Surrogate, truth: np.ndarray, sample: np.ndarray
):
    unseen = _unseen(sample)
    inside = (surrogate.low <= truth) & (truth <= surrogate.high)
    assert inside[unseen].mean() == pytest.approx(0.9, abs=0.05)
    assert surrogate.coverage == pytest.approx(0.9, abs=0.05)


def test_predictions_of_trained_cells_are_out_of_fold(surrogate: Surrogate, sample: np.ndarray):
    """In-sample predictions of such trees would follow the values more closely than tau says."""
    trained = surrogate.trained[sample]
    tau = stats.kendalltau(surrogate.predicted[sample], trained).statistic
    assert tau == pytest.approx(surrogate.tau.value, abs=0.01)
    assert np.isnan(np.delete(surrogate.trained, sample)).all()


def test_the_published_accuracy_helps_where_it_ranks_alike(
    surrogate: Surrogate, truth: np.ndarray, sample: np.ndarray
):
    published = truth + np.random.default_rng(2).normal(0, 0.1, len(truth))
    helped = fit_surrogate(
        sample, truth[sample], rng=np.random.default_rng(1), published=published, trees=30
    )
    assert helped.tau.low > surrogate.tau.high
    assert "published accuracy" in helped.describe()


def test_the_same_generator_gives_the_same_surrogate(truth: np.ndarray, sample: np.ndarray):
    first, second = (
        fit_surrogate(sample[:60], truth[sample[:60]], rng=np.random.default_rng(3), trees=5)
        for _ in "ab"
    )
    np.testing.assert_array_equal(first.high, second.high)


def test_a_written_surrogate_is_searched_as_one_and_says_so(surrogate: Surrogate, tmp_path: Path):
    written = write_surrogate(
        surrogate,
        tmp_path / "s.parquet",
        name="mine",
        dataset="cifar10",
        split="ori-test",
        epochs=200,
    )
    assert [path.name for path in written] == ["s.parquet", "s.intervals.csv"]
    searched = search_table(open_table(written[0]), "cifar10")
    assert len(searched.space) == 15_625
    assert "(surrogate)" in searched.protocol
    np.testing.assert_allclose(searched.final, surrogate.predicted)


@pytest.mark.parametrize("count", [0, 49])
def test_too_few_trained_cells_are_refused(count: int):
    with pytest.raises(InputError, match=f"at least 50 trained cells, got {count}"):
        fit_surrogate(np.arange(count), np.arange(count) * 1.0, rng=np.random.default_rng(0))


def test_a_constant_accuracy_is_refused():
    with pytest.raises(InputError, match="different accuracy"):
        fit_surrogate(np.arange(60), np.ones(60), rng=np.random.default_rng(0))
