"""The released code's network and its figures: init by hand, base rates, any number of classes."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
import torch

from cells import DagCode, moment
from cells.dag import LAYER, NO_EDGE, SKIP_EDGE
from experiments.laws import estimate, graph_rates, graphs, released, scores
from experiments.laws.graph_rates import measure_experiment
from experiments.laws.images import SmallImages, load_small_images
from experiments.laws.pieces import Pieces
from experiments.laws.registry import LAWS

SMALL = dataclasses.replace(
    LAWS["released"].small,
    graphs=3,
    kernel_graphs=2,
    width=8,
    steps=2,
    kernel_steps=2,
    n_lrs=4,
    seeds=1,
)


@pytest.fixture(scope="module")
def digits():
    return load_small_images("digits")


def many_classes(count: int) -> SmallImages:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randn(300, 3, 8, 8, generator=generator)
    return SmallImages(name="made", pixels=pixels, labels=torch.arange(300) % count, classes=count)


def drawn(code: str, pixels: torch.Tensor, kernel: int | None = None, **options):
    settings = dataclasses.replace(SMALL.search, width=64, **options)
    generator = torch.Generator().manual_seed(0)
    return graph_rates.draw_net(DagCode.parse(code), kernel, pixels, settings, generator)


def test_released_init_divides_by_fan_out_and_counts_dead_edges(digits):
    # By hand. Nothing reaches vertex 1, but its edge into vertex 2 counts there: degree 2, not 1.
    net = drawn("0_22_022", digits.pixels[:, :, :4, :4], classes=100)
    stds = {layer.name: float(layer.weight.detach().std()) for layer in net.weight_layers()}
    assert stds["stem"] == pytest.approx(math.sqrt(2 / 64), rel=0.05)  # not over its 16 inputs
    assert stds["layers.2_0"] == pytest.approx(math.sqrt(2 / 64), rel=0.05)
    assert stds["layers.3_2"] == pytest.approx(math.sqrt(2 / (2 * 64)), rel=0.05)
    assert stds["readout"] == pytest.approx(2 / 100, rel=0.05)
    assert all(bool((layer.bias == 0).all()) for layer in net.weight_layers())


def test_released_convolutions_divide_by_channels_and_kernel(digits):
    net = drawn("2", digits.pixels, kernel=3)
    stds = {layer.name: float(layer.weight.detach().std()) for layer in net.weight_layers()}
    assert stds["stem"] == pytest.approx(math.sqrt(2 / (64 * 9)), rel=0.1)  # one channel goes in
    assert stds["layers.1_0"] == pytest.approx(math.sqrt(2 / (64 * 9)), rel=0.05)


def test_biases_learn_at_the_rate_of_the_weights(digits):
    net = drawn("2", digits.pixels)
    factors = graph_rates.rate_factors(net, SMALL.search)
    assert set(factors) == {name for name, _ in net.named_parameters()}
    assert set(factors.values()) == {1.0}


def test_graphs_as_coded_are_those_of_the_released_list():
    # The released list has all 3^10 codes in random order; 1 - (2/3)^10 = 98.3 % have skips.
    found = graphs.random_graphs(
        300, 5, np.random.default_rng(0), (NO_EDGE, SKIP_EDGE, LAYER), pruned=False
    )
    skips = [SKIP_EDGE in {op for group in code.operations for op in group} for code in found]
    assert np.mean(skips) == pytest.approx(1 - (2 / 3) ** 10, abs=0.02)
    assert any(code != code.pruned() for code in found)
    assert len(set(found)) == 300
    assert all(any(code.depth_polynomial()[1:]) for code in found)


def test_experiments_are_the_papers_figures(digits):
    listed = {e.name: e for e in released.released_experiments(LAWS["released"].full, digits)}
    # r of Chen et al.: figures 2, 5 and 3 with ReLU, figure 7 (appendix E.2) with GELU.
    assert {name: e.paper_r for name, e in listed.items() if e.paper_r} == {
        "graphs": 0.838, "chains": 0.962, "cnn": 0.856,
        "graphs-gelu": 0.680, "chains-gelu": 0.920, "cnn-gelu": 0.949,
    }  # fmt: skip
    assert {e.graphs[0] for e in listed.values()} == {(graphs.chain(1), None), (graphs.chain(1), 3)}
    chains = [code.depth_polynomial().index(1) for code, _ in listed["chains"].graphs]
    assert chains == [1, 1, 2, 3, 4, 5, 6, 7, 8]
    assert {kernel for _, kernel in listed["cnn"].graphs} == {3, 5, 7}
    assert listed["graphs"].search.steps == len(digits.labels) // 128


def test_distance_from_the_identity_line_counts_a_wrong_scale():
    # By hand: every rate is twice the predicted rate. In the last line, the root mean square of
    # log 2 and -log 2 is log 2.
    rng = np.random.default_rng(0)
    twice = estimate.identity_factor([1.0, 2.0, 5.0], [2.0, 4.0, 10.0], rng)
    assert twice == pytest.approx((2.0, 2.0, 2.0))
    assert estimate.identity_factor([1.0, 1.0], [2.0, 0.5], rng).value == pytest.approx(2)
    assert estimate.rms_log_factor([1.0, 2.0], [2.0, 4.0], rng).value == pytest.approx(1)


def table_of(codes: list[DagCode], measured: list[float], end: list[float]) -> pd.DataFrame:
    depths = [code.depth_polynomial() for code in codes]
    return pd.DataFrame(
        {
            "experiment": "graphs", "dataset": "made", "code": [str(code) for code in codes],
            "kernel": 0, "paths": [code.n_paths for code in codes], "measured": measured,
            "spread": 1.1, "noise": 1.1, "measured_final": end,
            "eq. 8, L": [moment(one, 3) ** -0.5 for one in depths],
            "eq. 8, L+3": [moment(one, 3, 3) ** -0.5 for one in depths],
            "path count": [code.n_paths**-0.5 for code in codes], "constant": 1.0,
        }
    )  # fmt: skip


def test_a_rule_that_scales_the_bases_rate_rightly_lies_on_the_identity_line():
    codes = [graphs.chain(1), *graphs.random_graphs(6, 5, np.random.default_rng(3))]
    truth = [0.4 * moment(one.depth_polynomial(), 3, 3) ** -0.5 for one in codes]
    ends = [2 * rate for rate in truth[:-1]] + [math.nan]  # by this criterion one graph diverged
    rng = np.random.default_rng(0)
    table = scores.score_released(table_of(codes, truth, ends), rng)
    assert set(table["criterion"]) == set(scores.CRITERIA)
    assert table.loc[table["predictor"] == "perfect rule", "criterion"].tolist() == [scores.AVERAGE]
    for _, part in table.groupby("criterion"):
        rules = part.set_index("predictor")
        assert rules.loc["eq. 8, L+3", ["r", "off"]].tolist() == pytest.approx([1, 1])
        # The base graph has one path with one layer. Counted as in other graphs, its depth is
        # 1 + 3 = 4; the released code takes 3.
        slip = math.sqrt(4**3 / 3**3)
        assert rules.loc[scores.BASE_COUNTED_3, "off"] == pytest.approx(slip)
        assert rules.loc[scores.BASE_COUNTED_3, "scale"] == pytest.approx(slip)
        assert rules.loc["constant", "off"] > rules.loc["constant", "factor"]


def test_verdicts_say_r_beside_the_papers_and_the_identity_line_beside_a_constant(digits):
    experiment = released.released_experiments(SMALL, digits)[0]
    codes = [code for code, _ in experiment.graphs]
    truth = [0.1 * code.n_paths**-0.5 for code in codes]
    measured = table_of(codes, truth, truth)
    rng = np.random.default_rng(0)
    table = scores.score_released(measured, rng)
    first, second = scores.released_verdicts(experiment, measured, table)
    assert first.paper == 0.838
    assert "by the number of paths 1.00" in first.verdict
    assert "3 graphs, made 8x8, width 8, 2 steps of 64, 1 seed" in first.settings
    assert f"{second.ours:.6g}" == (
        f"{table.loc[table['predictor'] == scores.BASE_COUNTED_3, 'off'].iloc[0]:.6g}"
    )
    assert "the base graph's rate for all graphs" in second.verdict


def test_any_number_of_classes_is_searched_and_resumed(tmp_path):
    images = many_classes(30)
    [chosen] = released.released_experiments(dataclasses.replace(SMALL, only=("chains",)), images)
    first = measure_experiment(chosen, images, Pieces(tmp_path), 0)
    again = measure_experiment(chosen, images, Pieces(tmp_path), 0)
    pd.testing.assert_frame_equal(first, again)
    assert len(first) == 9
    searched = graph_rates.search_graph(
        graphs.chain(1), None, images,
        dataclasses.replace(chosen.search, classes=30), 0,
    )  # fmt: skip
    # The loss of the first batch, before any step, is near that of guessing among 30 classes.
    assert searched["loss"].min() == pytest.approx(math.log(30), rel=0.5)
    scored = scores.score_released(first, np.random.default_rng(0))
    assert set(scored["predictor"]) == {
        "eq. 8, L", "eq. 8, L+1", "eq. 8, L+3", scores.BASE_COUNTED_3, "path count",
        "exact recursion", "one step", "constant",
    }  # fmt: skip


def test_recursion_of_a_chain_with_an_active_stem_is_that_of_one_layer_more():
    settings = SMALL.search
    found = [graph_rates._recursion_lr(graphs.chain(depth), settings) for depth in (1, 2, 3)]
    plain = dataclasses.replace(settings, released=False)
    longer = [graph_rates._recursion_lr(graphs.chain(depth), plain) for depth in (2, 3, 4)]
    assert found == pytest.approx(longer)
