"""One-epoch searches: hand-written trainings, the parabola, kernels, scores."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from pydantic import TypeAdapter, ValidationError

from cells.dag import DagCode
from experiments.laws import (
    cells,
    graph_rates,
    rate_search,
    scores,
)
from experiments.laws.conv_step import ConvNetwork, sample_conv_updates
from experiments.laws.dag import (
    DagSettings,
    KernelSettings,
    dag_experiments,
    measure_kernel_slopes,
)
from experiments.laws.images import SmallImages, load_small_images
from experiments.laws.pieces import Pieces
from experiments.laws.registry import LAWS
from rebench.errors import InputError

FEW = DagSettings(graphs=2, kernel_graphs=3)
SMALL = graph_rates.SearchSettings(width=8, batch_size=16, steps=3, n_lrs=4, seeds=1)


@pytest.fixture(scope="module")
def digits():
    return load_small_images("digits")


def test_drawn_network_has_the_init_and_rates_of_the_theory(digits):
    # Hand-computed: target degrees 1 and 2, fan-in 64; mean-field readout 1 / 64; stem 64 / 64.
    settings = dataclasses.replace(SMALL, width=64)
    generator = torch.Generator().manual_seed(0)
    net = graph_rates.draw_net(DagCode.parse("2_22"), None, digits.pixels, settings, generator)
    stds = {layer.name: float(layer.weight.detach().std()) for layer in net.weight_layers()}
    assert stds["layers.1_0"] == pytest.approx(math.sqrt(2 / 64), rel=0.05)
    assert stds["layers.2_0"] == pytest.approx(math.sqrt(1 / 64), rel=0.05)
    assert stds["readout"] == pytest.approx(1 / 64, rel=0.1)
    factors = graph_rates.rate_factors(net, settings)
    assert factors == {
        "stem.weight": 1.0, "layers.1_0.weight": 1.0, "layers.2_0.weight": 1.0,
        "layers.2_1.weight": 1.0, "readout.weight": 1 / 64,
    }  # fmt: skip
    shared = graph_rates.rate_factors(net, dataclasses.replace(settings, shared_rate=True))
    assert set(shared.values()) == {1.0}


@pytest.mark.parametrize("kernel", [None, 3])
@pytest.mark.parametrize("order", ["before", "after"])
def test_search_equals_a_hand_written_training_at_each_rate(digits, kernel, order):
    code, settings = DagCode.parse("2_12_022"), dataclasses.replace(SMALL, order=order)
    pixels, labels = digits.pixels[:48], digits.labels[:48]
    few = dataclasses.replace(digits, pixels=pixels, labels=labels)
    searched = graph_rates.search_graph(code, kernel, few, settings, seed=1)
    for row, rate in enumerate(settings.rates[:3]):
        generator = torch.Generator().manual_seed(1000)
        net = graph_rates.draw_net(code, kernel, pixels, settings, generator)
        factors = graph_rates.rate_factors(net, settings)
        losses = []
        for batch in torch.randperm(48, generator=generator).view(3, 16):
            loss = F.cross_entropy(net(pixels[batch]), labels[batch])
            net.zero_grad()
            loss.backward()
            losses.append(float(loss.detach()))
            with torch.no_grad():
                for name, parameter in net.named_parameters():
                    parameter -= rate * factors[name] * parameter.grad
        assert searched["loss"][row] == pytest.approx(sum(losses) / 3, rel=1e-5)
        assert searched["final_loss"][row] == pytest.approx(losses[-1], rel=1e-5)


def test_maximal_rate_is_the_parabolas_minimum():
    grid = np.geomspace(0.01, 1, 9)
    searched = pd.DataFrame(
        {"learning_rate": grid, "seed": 0, "loss": (np.log(grid) - np.log(0.123)) ** 2}
    )
    assert rate_search.maximal_lrs(searched)[0] == pytest.approx(0.123, rel=1e-9)


def test_diverged_rates_are_infinite_and_never_chosen(digits):
    bright = dataclasses.replace(digits, pixels=digits.pixels * 1e30)
    searched = graph_rates.search_graph(DagCode.parse("2_02"), None, bright, SMALL, seed=0)
    assert np.isinf(searched["final_loss"]).all()
    assert np.isnan(rate_search.maximal_lrs(searched, "final_loss")).all()
    searched.loc[1, "final_loss"] = 2.0
    found = rate_search.maximal_lrs(searched, "final_loss")
    assert found == pytest.approx([searched["learning_rate"][1]])


def test_an_epoch_larger_than_the_data_is_refused(digits):
    few = dataclasses.replace(digits, pixels=digits.pixels[:10], labels=digits.labels[:10])
    with pytest.raises(InputError, match="images, got 10"):
        graph_rates.search_graph(DagCode.parse("2"), None, few, SMALL, seed=0)


@pytest.mark.parametrize("settings", [SMALL, LAWS["released"].small.search], ids=["theory", "code"])
def test_one_step_rate_moves_the_output_by_one(digits, settings):
    # Independent check: step with all parameters at a small part of that rate; compare the outputs.
    code, settings = DagCode.parse("2_12"), dataclasses.replace(settings, batch_size=16, seeds=1)
    rate = graph_rates.one_step_lr(code, None, digits, settings)
    x, labels = digits.pixels[:16], digits.labels[:16]
    net = graph_rates.draw_net(code, None, x, settings, torch.Generator().manual_seed(0)).double()
    factors = graph_rates.rate_factors(net, settings)
    F.cross_entropy(net(x.double()), labels).backward()
    with torch.no_grad():
        before = net.vertices(x.double())[2]
        for name, parameter in net.named_parameters():
            parameter -= 1e-6 * rate * factors[name] * parameter.grad
        moved = (net.vertices(x.double())[2] - before) / 1e-6
    assert float(moved.square().mean()) == pytest.approx(1, rel=1e-3)


def test_scores_tell_a_right_power_from_a_correlated_wrong_one():
    rng = np.random.default_rng(0)
    measured = np.geomspace(1, 100, 20)
    table = scores.score(
        {"right": measured * 3, "wrong power": measured**3, "constant": np.ones(20)}, measured, rng
    ).set_index("predictor")
    assert table.loc["right", "factor"] == pytest.approx(1)
    assert table.loc["wrong power", "r"] > 0.85
    assert table.loc["wrong power", "slope"] == pytest.approx(1 / 3)
    assert table.loc["wrong power", "factor"] > table.loc["constant", "factor"]


def test_experiments_stand_beside_the_papers_own_correlations():
    # Chen et al., figures 2, 3, 5 (ReLU) and appendix E.2 (GELU), by topology, depth and CNN.
    listed = {e.name: e.paper_r for e in dag_experiments(FEW)}
    paper = {"mlp": 0.838, "chain": 0.962, "cnn": 0.856}
    gelu = {"mlp-gelu": 0.680, "chain-gelu": 0.920, "cnn-gelu": 0.949}
    assert listed == {**paper, **gelu, "mlp-released": 0.838, "mlp-shared": None}


def test_one_step_baseline_of_a_cell_moves_its_layers_by_one(digits):
    # Independent check: take a small step of that rate on the network. Compare the normalised
    # output of each convolution before and after it, and that of the stem and the shortcuts.
    network = cells.CellNetwork(channels=2, side=8, batch_size=16, seeds=1)
    (moved,) = cells.one_step_movements(6111, network, digits, 0)["movement"]
    generator = torch.Generator().manual_seed(0)
    net = cells.draw_cell(6111, network, generator).double().train()
    batch = torch.randperm(len(digits.pixels), generator=generator)[:16]
    x, labels = digits.pixels[batch].expand(-1, 3, -1, -1).double(), digits.labels[batch]
    seen: dict[str, torch.Tensor] = {}
    layers = [layer for layer in net.weight_layers() if layer.role != "readout" and layer.computed]
    for layer in layers:
        net.get_submodule(layer.name).register_forward_hook(
            lambda _m, _i, out, name=layer.name: seen.update({name: out.detach()})
        )
    F.cross_entropy(net(x), labels).backward()
    before, rate = dict(seen), 1e-4 * moved**-0.5
    with torch.no_grad():
        for parameter in net.parameters():
            if parameter.grad is not None:
                parameter -= rate * parameter.grad
        net(x)
    changes = []
    for layer in layers:
        z, there = before[layer.name], seen[layer.name]
        if layer.followed_by_norm:
            z, there = (F.batch_norm(v, None, None, training=True) for v in (z, there))
            changes.append(float((there - z).square().mean()))
        else:
            changes.append(float((there - z).square().mean() / z.square().mean()))
    # The step is 1e-4 of the rate, so the mean square change is 1e-8, up to second order (2 %).
    assert np.mean(changes) == pytest.approx(1e-8, rel=0.02)


def test_a_perfect_rule_scores_what_the_seeds_noise_leaves():
    # Independent check: true rates are known, and measured with simulated noise of 10 % per graph.
    rng = np.random.default_rng(4)
    truth = np.exp(rng.normal(size=4000) * 0.3)
    measured = truth * np.exp(rng.normal(size=4000) * 0.1)
    best = scores.best_possible(measured, np.full(4000, np.exp(0.1)))
    assert best["r"] == pytest.approx(np.corrcoef(truth, measured)[0, 1], abs=0.01)
    assert best["factor"] == pytest.approx(np.exp(0.1))
    assert scores.best_possible(np.ones(9) + 1e-6 * np.arange(9), np.full(9, 1.1))["r"] == 0


def test_kernel_exponent_is_the_patch_area_with_circular_padding():
    # The theory: side^-1 in one dimension, side^-2 in two. Tolerance 0.25 at these draws.
    settings = KernelSettings(kernels=(1, 3, 5), channels=24, side=8, draws=40, depth=3)
    table = measure_kernel_slopes(settings, Pieces()).set_index(["dimensions", "padding"])
    assert table.loc[(1, "circular"), "exponent"] == pytest.approx(-1, abs=0.25)
    assert table.loc[(2, "circular"), "exponent"] == pytest.approx(-2, abs=0.25)
    assert table.loc[(2, "zeros"), "exponent"] > table.loc[(2, "circular"), "exponent"]


def test_convolution_of_one_pixel_follows_the_dense_depth_law():
    # A 1x1 kernel on one pixel is an MLP: its moments are those of the exact recursion.
    from experiments.laws.depth_recursion import finite_width_terms

    network = ConvNetwork(depth=4, channels=64, kernel=1, side=1)
    sampled = sample_conv_updates(network, draws=200, generator=torch.Generator().manual_seed(0))
    ratio = sampled.mean(0).numpy() / finite_width_terms([64] * 5).sum(axis=1)
    np.testing.assert_allclose(ratio, 1, atol=0.15)


def test_bad_conv_networks_are_refused():
    for bad in ({"dimensions": 3}, {"padding": "mirror"}, {"kernel": 4}):
        with pytest.raises((InputError, ValidationError), match=next(iter(bad))):
            TypeAdapter(ConvNetwork).validate_python({"depth": 2, **bad})


def test_verdict_says_where_the_papers_r_lies():
    # The correlation r of eq. 8 with L is far below the paper's r; that with L + 3 is near it.
    rng = np.random.default_rng(1)
    truth = np.exp(rng.normal(size=60) * 0.4)
    measured = truth * np.exp(rng.normal(size=60) * 0.1)
    noisy = truth * np.exp(rng.normal(size=60) * 2)
    scored = scores.score(
        {"eq. 8, L": noisy, "eq. 8, L+3": measured, "path count": truth, "exact recursion": truth,
         "one step": truth, "constant": np.ones(60)}, measured, rng,
    )  # fmt: skip
    best = pd.DataFrame(
        [{"predictor": "perfect rule", **scores.best_possible(measured, np.full(60, 1.1))}]
    )
    verdict = scores.rate_verdict(
        title="title", graphs=60, dataset="digits", side=8, s=SMALL, paper=1.0, rule="eq. 8, L",
        scores=pd.concat([scored, best]),
    )  # fmt: skip
    assert "above our interval, but inside the interval for L+3" in verdict.verdict
    assert ", worse than constant (" in verdict.verdict


def test_cells_are_searched_with_the_classes_of_their_images_and_resumed(tmp_path):
    generator = torch.Generator().manual_seed(0)
    images = SmallImages(
        name="made", pixels=torch.randn(32, 3, 8, 8, generator=generator),
        labels=torch.arange(32) % 16, classes=16,
    )  # fmt: skip
    network = cells.CellNetwork(channels=2, steps=2, batch_size=16, n_lrs=3, seeds=2)
    settings = cells.CellSettings(cells=2, network=network)
    first = cells.measure_cells(settings, images, Pieces(tmp_path))
    finished = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    more = dataclasses.replace(settings, cells=3)
    again = cells.measure_cells(more, images, Pieces(tmp_path))
    # With a third cell, the results of the first two are read, not computed again.
    pd.testing.assert_frame_equal(again.iloc[:2], first)
    assert all(path.stat().st_mtime_ns == at for path, at in finished.items())
    net = cells.draw_cell(6111, network, generator, images.classes)
    assert net(images.pixels).shape == (32, 16)


def test_law_of_cells_has_a_verdict_for_every_rule_and_none_for_the_constant():
    small = dataclasses.replace(
        LAWS["cells"].small, dataset="digits", cells=4,
        network=cells.CellNetwork(
            channels=2, side=8, steps=2, batch_size=16, n_lrs=3, seeds=2
        ),
    )  # fmt: skip
    result = LAWS["cells"].measure(small)
    table = result.tables["predictors"].set_index("predictor")
    rules = [name for name in table.index if name not in ("constant", "perfect rule")]
    assert {"eq. 8, L", "eq. 8, L+1", "path count", "exact recursion", "one step"} <= set(rules)
    assert len(result.verdicts) == len(rules)
    for rule, verdict in zip(rules, result.verdicts, strict=True):
        assert rule in verdict.quantity
        assert verdict.ours == table.loc[rule, "factor"]
        assert f"than constant ({table.loc['constant', 'factor']:.2f})" in verdict.verdict
        assert "4 cells, digits 8x8, 2 channels, 1 cell a stage, 2 steps of 16" in verdict.settings
