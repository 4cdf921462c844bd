"""Training-free rankings: against a direct computation, and against the published correlations."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from search_tables import calibrated_table, final_accuracy, smooth_table

import rebench
from cells import Cell
from rebench.errors import InputError, UnknownNameError
from rebench.intervals import spearman_interval
from rebench.search import SearchSpace
from rebench.search.proxies import (
    image_batch,
    proxy_scores,
    rank_correlation,
    rate_proxies,
)
from rebench.search.proxy_names import PROXY_SPEARMAN
from rebench.tables import Table

# Published Spearman correlations with the 200-epoch accuracy (quoted second-hand from the zero-cost
# literature): parameters and FLOPs .75 / .72 / .69.
PUBLISHED_COST = {"cifar10": 0.75, "cifar100": 0.72, "ImageNet16-120": 0.69}


def _cost_by_hand(index: int) -> tuple[int, int]:
    """Return parameters and FLOPs on CIFAR-10 from the numbers of 3x3 and 1x1 convolutions."""
    ops = Cell.from_index(index).ops
    n3, n1 = ops.count(3), ops.count(2)
    return 73_306 + 243_040 * n3 + 28_000 * n1, 7_783_050 + 35_389_440 * n3 + 3_932_160 * n1


@pytest.mark.parametrize("dataset", ["cifar10", "cifar100", "ImageNet16-120"])
@pytest.mark.parametrize(("name", "column"), [("params", 0), ("flops", 1)])
def test_spearman_of_cost_matches_a_direct_computation(dataset: str, name: str, column: int):
    final = final_accuracy(dataset)
    costs = [_cost_by_hand(index)[column] for index in range(15_625)]
    expected = stats.spearmanr(costs, final).statistic
    scores = proxy_scores(name, SearchSpace.whole(), dataset)
    found = rank_correlation(scores, final)
    assert found["spearman"] == pytest.approx(expected, abs=1e-12)
    assert (found["low"], found["high"]) == spearman_interval(found["spearman"], 15_625)[1:]
    assert expected == pytest.approx(PUBLISHED_COST[dataset], abs=0.02)


def test_rated_proxies_are_sorted_and_tell_what_choosing_by_them_gives():
    table = calibrated_table("cifar10")
    rated = rate_proxies(table)
    names = {"params", "flops", "paths", "deepest", "mean-depth", "cubed-depths", "live-edges"}
    assert set(rated["proxy"]) == names
    assert rated.index.tolist() == list(range(len(names)))
    assert rated["spearman"].is_monotonic_decreasing
    params = rated.set_index("proxy").loc["params"]
    heaviest = [i for i in range(15_625) if set(Cell.from_index(i).ops) == {3}]
    assert params["tied"] == len(heaviest) == 1
    assert params["answer"] == pytest.approx(table.final[heaviest[0]])


def test_further_proxies_stand_beside_the_baselines():
    table = smooth_table(SearchSpace.of(range(100)))
    rated = rate_proxies(table, {"oracle": table.final})
    assert rated.iloc[0]["proxy"] == "oracle"
    assert rated.iloc[0]["spearman"] == pytest.approx(1.0)
    assert rated.iloc[0]["regret"] == 0.0


@pytest.mark.parametrize("given", ["mini@fixed", rebench.open("mini")["fixed"]])
def test_proxies_are_rated_on_what_open_accepts_or_returns(given: str | Table):
    final = rebench.open("mini@fixed").means()
    rated = rate_proxies(given, {"oracle": final}).set_index("proxy")
    found = rated.loc["oracle", ["spearman", "n", "regret"]].tolist()
    assert found == pytest.approx([1, len(final), 0])
    final_of_half = rebench.open("nb201").means(dataset="cifar100", split="x-test")[::2]
    rated = rate_proxies("nb201", {"oracle": final_of_half}, dataset="cifar100")
    assert rated["n"].unique().tolist() == [len(final_of_half)]
    assert rated.set_index("proxy").loc["oracle", "spearman"] == pytest.approx(1)


def test_rated_cells_are_those_of_every_series_and_of_the_table():
    final = rebench.open("mini@fixed").means()
    few, others = final[:30], pd.concat([final[10:], pd.Series({0: 10.0})])
    assert 0 not in final
    rated = rate_proxies("mini@fixed", {"few": few, "others": others}).set_index("proxy")
    assert rated.loc[["few", "others", "params"], "n"].tolist() == [20, 20, 20]
    assert rated.loc[["few", "others"], "spearman"].tolist() == pytest.approx([1, 1])


def test_published_correlations_stand_beside_those_of_the_same_proxy_alone():
    table = smooth_table(SearchSpace.of(range(100)))
    rated = rate_proxies(table, {"snip": table.final}).set_index("proxy")["published"]
    assert rated.dropna().to_dict() == {"snip": 0.596}
    assert "published" not in rate_proxies(table, {"oracle": table.final})
    assert "published" not in rate_proxies(table)


def test_published_correlations_are_those_of_the_table_of_abdelfattah():
    names = ("grad-norm", "snip", "synflow")
    assert [[PROXY_SPEARMAN[dataset][name] for name in names] for dataset in PUBLISHED_COST] == [
        [0.594, 0.596, 0.737],
        [0.637, 0.637, 0.763],
        [0.578, 0.578, 0.751],
    ]


def test_a_constant_column_has_no_correlation():
    assert np.isnan(rank_correlation(np.ones(10), np.arange(10.0))["spearman"])


def test_a_cell_that_a_proxy_can_tell_nothing_about_ranks_last():
    scores, final = np.array([-np.inf, 3.0, -4.0, 7.0, 5.0]), np.array([90.0, 91, 92, 94, 93])
    expected = stats.spearmanr([1, 3, 2, 5, 4], final).statistic
    assert rank_correlation(scores, final)["spearman"] == pytest.approx(expected)
    table = smooth_table(SearchSpace.of(range(5)))
    rated = rate_proxies(table, {"naswot": pd.Series(scores, range(5))}).set_index("proxy")
    assert rated.loc["naswot", "answer"] == pytest.approx(table.final[3])


def test_columns_of_different_length_are_refused():
    with pytest.raises(InputError, match="have 10 and 9 cells"):
        rank_correlation(np.ones(10), np.ones(9))


def test_an_unknown_proxy_lists_the_valid_ones():
    with pytest.raises(UnknownNameError, match="unknown proxy 'parms'; valid: params"):
        proxy_scores("parms", SearchSpace.whole(), "cifar10")


def test_three_cells_are_too_few_for_a_rank_correlation():
    with pytest.raises(InputError, match="needs 4 cells or more, got 3"):
        rank_correlation([1.0, 2, 3], [1.0, 2, 3])
    assert rank_correlation([1.0, 2, 3, 4], [1.0, 2, 3, 4])["spearman"] == pytest.approx(1)


def test_proxies_of_paths_are_counted_route_by_route():
    indices = [0, 11, 284, 1462, 6111, 9930, 15_624]
    expected: dict[str, list[float]] = {}
    for index in indices:
        cell = Cell.from_index(index)
        live, convolutions = set(), []
        for route in (((3, 0),), ((1, 0), (3, 1)), ((2, 0), (3, 2)), ((1, 0), (2, 1), (3, 2))):
            ops = [cell.op(*edge) for edge in route]
            if all(ops):
                live |= set(route)
                convolutions.append(sum(op in (2, 3) for op in ops))
        for name, score in {
            "paths": len(convolutions),
            "deepest": max(convolutions, default=0),
            "mean-depth": np.mean(convolutions) if convolutions else 0,
            "cubed-depths": sum((1 + depth) ** 3 for depth in convolutions),
            "live-edges": len(live),
        }.items():
            expected.setdefault(name, []).append(score)
    for name, scores in expected.items():
        found = proxy_scores(name, SearchSpace.of(indices), "cifar10")
        assert found.tolist() == pytest.approx(scores), name


def test_batch_of_images_is_normalised_and_of_a_seed():
    images, labels = image_batch("digits", 50, seed=1)
    again, _ = image_batch("digits", 50, seed=1)
    assert images.shape == (50, 3, *images.shape[2:])
    assert labels.shape == (50,)
    assert images.equal(again)
    whole, _ = image_batch("digits", 1437)
    assert whole.mean().item() == pytest.approx(0, abs=0.05)
    assert whole.std().item() == pytest.approx(1, abs=0.05)
    for wrong in (0, 1438):
        with pytest.raises(InputError, match=f"1 to 1437 images, got {wrong}"):
            image_batch("digits", wrong)
