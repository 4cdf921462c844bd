"""Proxies that need a network: against direct computations, and the published correlations."""

import copy
import dataclasses
import functools
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from search_tables import final_accuracy, smooth_table

from cells import Cell
from rebench.cli import main
from rebench.cli.search import _kept
from rebench.errors import UnknownNameError
from rebench.nets import TinyNet
from rebench.nets.untrained import synflow
from rebench.runs import RecipeSpec, Skeleton, TrainOptions, Trial
from rebench.search import Budget, SearchSpace
from rebench.search.comparison import run_all
from rebench.search.proxies import (
    image_batch,
    init_seed,
    net_proxy_scores,
    rank_correlation,
)
from rebench.search.proxy_names import NET_PROXIES, PROXY_SPEARMAN
from rebench.train import kept_networks, save_network, train

ALL_CONV = Cell.parse("3_33_333").index
NO_PATH = Cell.parse("3_00_000").index
TRAINED = [11, 284, 6111, ALL_CONV]
SMALL = {"channels": 4, "cells_per_stage": 1}


def _batch(count: int, size: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(count, 3, size, size, generator=generator)
    return images, torch.arange(count) % 10


def test_scores_are_decided_by_seed_and_cell():
    images, labels = _batch(6)
    first = net_proxy_scores(NET_PROXIES, [11, ALL_CONV], images, labels, **SMALL)
    state = torch.random.get_rng_state()
    again = net_proxy_scores(NET_PROXIES, [ALL_CONV, 11], images, labels, **SMALL)
    assert torch.equal(state, torch.random.get_rng_state())
    other = net_proxy_scores(NET_PROXIES, [11, ALL_CONV], images, labels, seed=1, **SMALL)
    for name in NET_PROXIES:
        np.testing.assert_array_equal(first[name], again[name][::-1])
        assert not np.array_equal(first[name], other[name])


def _net_of(index: int) -> TinyNet:
    """Return the network that is scored for a cell with seed 0."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(init_seed(0, index))
        return TinyNet(Cell.from_index(index), **SMALL)


def test_gradient_norm_and_snip_are_those_of_a_plain_backward_pass():
    images, labels = _batch(6)
    net = _net_of(ALL_CONV)
    weights = [p for p in net.parameters() if p.dim() > 1]
    gradients = torch.autograd.grad(torch.nn.functional.cross_entropy(net(images), labels), weights)
    found = net_proxy_scores(["grad-norm", "snip"], [ALL_CONV], images, labels, **SMALL)
    assert found["grad-norm"][0] == pytest.approx(sum(float(g.norm()) for g in gradients), rel=1e-4)
    products = (
        float((w.detach() * g).abs().sum()) for w, g in zip(weights, gradients, strict=True)
    )
    assert found["snip"][0] == pytest.approx(sum(products), rel=1e-4)


def test_synflow_is_the_gradient_of_the_output_by_the_size_of_all_weights():
    """For each layer, sum(w dR/dw) = d R(c w) / d log c at c = 1.

    The test computes the right side by a finite difference.
    """
    images, labels = _batch(1)
    net = _net_of(ALL_CONV).double().eval()
    convolutions = [p for p in net.parameters() if p.dim() > 1]
    with torch.no_grad():
        for value in net.state_dict().values():
            if value.is_floating_point():
                value.abs_()

        def response(layer: torch.Tensor, factor: float) -> float:
            layer.mul_(factor)
            output = float(net(torch.ones(1, 3, 8, 8).double()).sum())
            layer.div_(factor)
            return output

        step = 1e-5
        flow = sum(
            (response(w, np.exp(step)) - response(w, np.exp(-step))) / (2 * step)
            for w in convolutions
        )
    found = net_proxy_scores(["synflow"], [ALL_CONV], images, labels, **SMALL)["synflow"][0]
    assert found == pytest.approx(np.log(flow), abs=1e-4)


def test_naswot_is_the_log_determinant_of_equal_relu_states():
    """Compute the kernel from the inputs of each convolution after a ReLU, read by hooks."""
    images, labels = _batch(5)
    net = _net_of(ALL_CONV)
    states: list[torch.Tensor] = []
    for name, module in net.named_modules():
        # Every convolution with a ReLU before it: all but the stem's and the shortcuts'.
        plain = name.startswith("stem") or "downsample" in name
        if isinstance(module, torch.nn.Conv2d) and not plain:
            module.register_forward_pre_hook(
                lambda _, inputs: states.append((inputs[0] > 0).flatten(1))
            )
        if isinstance(module, torch.nn.ReLU):
            module.register_forward_hook(lambda *a: states.append((a[2] > 0).flatten(1)))
    with torch.no_grad():
        net(images)
    pattern = torch.cat(states, 1).numpy()
    kernel = [[(a == b).sum() for a in pattern] for b in pattern]
    expected = np.linalg.slogdet(np.array(kernel, dtype=float))[1]
    found = net_proxy_scores(["naswot"], [ALL_CONV], images, labels, **SMALL)["naswot"][0]
    assert found == pytest.approx(expected, rel=1e-6)


def test_a_cell_without_a_path_has_no_flow_and_the_lowest_rank():
    images, labels = _batch(4)
    found = net_proxy_scores(["synflow", "naswot"], [NO_PATH, 11], images, labels, **SMALL)
    assert found["synflow"][0] == -np.inf < found["synflow"][1]
    assert found["naswot"][0] < found["naswot"][1]


def test_an_unknown_proxy_is_refused():
    with pytest.raises(UnknownNameError, match="unknown proxy 'synflw'; valid: synflow"):
        net_proxy_scores(["synflw"], [11], *_batch(2))


def _ranked(
    folder: Path, names: list[str], *, cells: int, images: int, cells_per_stage: int
) -> dict[str, dict[str, float]]:
    """Return rank correlations on random cells, with 8 channels and real images."""
    indices = np.sort(np.random.default_rng(0).choice(15_625, cells, replace=False)).tolist()
    pixels, labels = image_batch("cifar10", images, root=folder / "cifar10-mini")
    scores = net_proxy_scores(
        names, indices, pixels, labels, channels=8, cells_per_stage=cells_per_stage
    )
    final = final_accuracy("cifar10")[indices]
    return {name: rank_correlation(scores[name], final) for name in names}


@pytest.mark.slow
def test_gradients_rank_as_published_in_a_deep_skeleton_and_not_in_a_shallow_one(real_data: Path):
    names = ["grad-norm", "snip"]
    deep, shallow = (
        _ranked(real_data, names, cells=60, images=8, cells_per_stage=depth) for depth in (5, 1)
    )
    for name in names:
        published = PROXY_SPEARMAN["cifar10"][name]
        assert deep[name]["spearman"] == pytest.approx(published, abs=0.1)
        assert shallow[name]["spearman"] < published - 0.3


@pytest.mark.slow
def test_synflow_and_naswot_reproduce_the_published_correlations(real_data: Path):
    """On 240 cells, with networks of one cell a stage.

    Published for the whole space, networks of five cells a stage and batches of 64 to 128: synflow
    Spearman .737; second-hand, its Kendall .56 and NASWOT's .57.
    """
    names = ["synflow", "naswot"]
    found = _ranked(real_data, names, cells=240, images=16, cells_per_stage=1)
    published = PROXY_SPEARMAN["cifar10"]["synflow"]
    assert found["synflow"]["spearman"] == pytest.approx(published, abs=0.1)
    assert found["synflow"]["kendall"] == pytest.approx(0.56, abs=0.1)
    assert found["naswot"]["kendall"] == pytest.approx(0.57, abs=0.1)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The networks of four cells after an epoch on digits, by two recipes."""
    folder = tmp_path_factory.mktemp("kept")
    for recipe, cells in (("nb201", TRAINED), ("topology", TRAINED[:1])):
        trials = [
            Trial(
                cell=index,
                dataset="digits",
                recipe=RecipeSpec(name=recipe),
                seed=seed,
                epochs=1,
                skeleton=Skeleton(**SMALL),
            )
            for index in cells
            for seed in (2, 1)
        ]
        save = functools.partial(save_network, folder, TrainOptions(keep="weights"))
        train(trials, stack=2, on_network=save)
    return folder


def test_trained_networks_are_scored_in_place_of_new_ones(kept):
    batch = _batch(6)
    of_cell = {11: kept_networks(kept, 11, recipe="nb201", seed=1)[0]}
    found = net_proxy_scores(NET_PROXIES, [11], *batch, trained=of_cell, **SMALL)
    new = net_proxy_scores(NET_PROXIES, [11], *batch, **SMALL)
    assert all(np.isfinite(found[name][0]) and found[name][0] != new[name][0] for name in found)
    net = of_cell[11].load().train()
    torch.nn.functional.cross_entropy(net(batch[0]), batch[1]).backward()
    norms = [float(p.grad.norm()) for p in net.parameters() if p.dim() > 1 and p.grad is not None]
    assert found["grad-norm"][0] == pytest.approx(sum(norms), rel=1e-4)


def test_flow_of_a_trained_network_passes_through_its_weights_alone(kept):
    """Batch normalisation is left out, so that its statistics do not matter."""
    net = kept_networks(kept, 11, recipe="nb201", seed=1)[0].load()
    other = copy.deepcopy(net)
    for module in other.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.fill_(-3)
            module.running_var.fill_(9)
    assert synflow(net, *_batch(2)) == synflow(other, *_batch(2))


@pytest.fixture
def five(tmp_path):
    """A table of the four trained cells and of a fifth cell that was not trained."""
    rows = [f"{index},digits,ori-test,1,1,{50 + at}" for at, index in enumerate([0, *TRAINED])]
    table = tmp_path / "table.csv"
    table.write_text("\n".join(["index,dataset,split,epochs,seed,accuracy", *rows]))
    return str(table)


def test_command_scores_the_networks_of_a_run(kept, five, capsys):
    command = ["search", "proxies", five, "--trained", str(kept), "--json"]
    assert main(command) == 2
    assert "RUN@RECIPE selects a recipe" in capsys.readouterr().err
    assert main([*command, "--trained", f"{kept}@nb201"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["notes"][0].endswith("4 cells")
    assert printed["notes"][1].startswith(f"networks: trained, stored by {kept}@nb201")
    assert {row["n"] for row in printed["proxies"]} == {4}
    assert {row["proxy"] for row in printed["proxies"]} > set(NET_PROXIES)
    assert main([*command, "--trained", f"{kept}@nb201", "--proxy", "snip"]) == 0
    scored = {row["proxy"] for row in json.loads(capsys.readouterr().out)["proxies"]}
    assert scored & set(NET_PROXIES) == {"snip"}


def test_network_of_a_cell_is_that_of_its_first_seed(kept):
    chosen = _kept(Path(f"{kept}@nb201"), "digits", None)
    assert {index: each.trial.seed for index, each in chosen.items()} == dict.fromkeys(TRAINED, 1)


def test_predictor_knows_the_networks_of_a_run(kept, five, capsys):
    command = ["search", "run", "predictor", five, "--json", "--evaluations", "12"]
    assert main([*command, "--trained", f"{kept}@nb201"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert "digits, 4 cells; searched on" in printed["notes"][0]
    assert "; predictors know proxies of trained networks" in printed["notes"][0]
    assert printed["answers"][0]["cell"] in TRAINED


def test_predictor_learns_from_what_is_known_of_cells():
    """Accuracies are random, so graphs do not predict them, but noisy scores of the cells do."""
    rng = np.random.default_rng(0)
    smooth = smooth_table(SearchSpace.of(range(0, 15_625, 40)))
    final = rng.normal(90, 1, len(smooth.final))
    shown = dataclasses.replace(smooth.fidelities[0], accuracy=final[:, None])
    blind = dataclasses.replace(smooth, tested=final[:, None], fidelities=(shown,))
    scores = final[:, None] + rng.normal(0, 0.5, (len(final), 1))
    told = dataclasses.replace(blind, scores=scores)
    without, with_scores = (
        run_all(table, ["predictor"], budget=Budget(evaluations=40), repeats=20).finals.mean()
        for table in (blind, told)
    )
    assert with_scores > without + 0.25
