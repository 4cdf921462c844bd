"""The search for the base learning rate."""

import json
import math

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from cells import Cell
from rebench.cli import main
from rebench.errors import InputError, TrainingError
from rebench.nets import TinyNet
from rebench.recipes import BASE_CODE, make_recipe
from rebench.sweep import Protocol
from rebench.theory.base_lr import GridPoint, base_maximal_lr, choose, logarithmic_grid

BASE = Cell.parse(BASE_CODE)


def _curve(**losses: tuple[float, ...]) -> list[GridPoint]:
    return [
        GridPoint(learning_rate=float(rate.replace("_", ".")[1:]), losses=values)
        for rate, values in losses.items()
    ]


def test_largest_rate_within_noise_is_chosen_by_hand():
    # Best: 0.1 with mean 1 and standard deviation 0.1; three seeds: t = 2.92 (tables), so
    # threshold 1 + 2.92 * 0.1 * sqrt(2 / 3) = 1.2384.
    found = choose(
        _curve(
            r0_01=(2.0, 2.0, 2.0),
            r0_1=(0.9, 1.0, 1.1),
            r0_3=(1.2, 1.2, 1.3),  # mean 1.2333
            r1_0=(1.2, 1.2, 1.33),  # mean 1.2433
        )
    )
    assert found.best == 0.1
    assert found.threshold == pytest.approx(1.2384, abs=1e-4)
    assert found.learning_rate == 0.3
    assert not found.at_edge


def test_rate_at_which_one_seed_diverged_is_never_chosen():
    found = choose(_curve(r0_1=(1.0, 1.2), r0_2=(0.9, math.inf)))
    assert found.learning_rate == 0.1
    assert found.at_edge


def test_without_a_second_seed_there_is_no_noise():
    found = choose(_curve(r0_1=(1.0,), r0_2=(1.0001,)))
    assert (found.learning_rate, found.threshold) == (0.1, 1.0)


def test_grid_that_diverges_everywhere_is_said():
    with pytest.raises(TrainingError, match="lower the grid"):
        choose(_curve(r1_0=(math.inf,)))


def test_grid_has_equal_factors():
    assert logarithmic_grid(0.01, 1, 3) == pytest.approx((0.01, 0.1, 1))


@pytest.mark.parametrize("bad", [(0, 1, 3), (1, 0.5, 3), (0.1, 1, 1), (0.1, math.inf, 4)])
def test_bad_grid_names_the_rule(bad):
    with pytest.raises(InputError, match="0 < low < high and 2 points"):
        logarithmic_grid(*bad)


def _data(n: int = 96) -> tuple[torch.Tensor, torch.Tensor]:
    """Return images whose class is the sign pattern of three channel means: learnable at once."""
    generator = torch.Generator().manual_seed(0)
    means = torch.randn(n, 3, 1, 1, generator=generator)
    images = means + 0.5 * torch.randn(n, 3, 4, 4, generator=generator)
    labels = ((means[:, :, 0, 0] > 0) * torch.tensor([1, 2, 4])).sum(dim=1)
    return images, labels


def _build() -> TinyNet:
    return TinyNet(BASE, channels=4, cells_per_stage=1, classes=8)


def test_stacked_grid_equals_lone_networks_under_pytorch_s_sgd():
    images, labels = _data()
    protocol = Protocol(batch_size=32)
    grid = (0.01, 0.3)
    rule = make_recipe("fixed", init="he")
    for copies in (1, 2):
        found = base_maximal_lr(
            _build, BASE, rule, images, labels,
            grid=grid, seeds=(5,), protocol=protocol, copies=copies,
        )  # fmt: skip
        for rate, point in zip(grid, found.curve, strict=True):
            assert point.losses[0] == pytest.approx(_lone(rate, protocol), rel=1e-4)


def _lone(rate: float, protocol: Protocol) -> float:
    images, labels = _data()
    net = _build().train()
    make_recipe("fixed", init="he").apply_init(net, BASE, torch.Generator().manual_seed(5))
    sgd = torch.optim.SGD(net.parameters(), lr=rate, momentum=0.9, nesterov=True, weight_decay=5e-4)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(5))
    total = 0.0
    for batch in order.split(protocol.batch_size):
        loss = F.cross_entropy(net(images[batch]), labels[batch])
        total += loss.item() * len(batch)
        sgd.zero_grad()
        loss.backward()
        sgd.step()
    return total / len(images)


def test_search_finds_an_inner_rate_and_leaves_the_random_state_alone():
    images, labels = _data(256)
    state = torch.get_rng_state()
    seen = []
    found = base_maximal_lr(
        _build, BASE, make_recipe("nb201"), images, labels,
        grid=logarithmic_grid(1e-4, 1e3, 8), seeds=(0, 1),
        protocol=Protocol(batch_size=32), on_step=lambda done, total: seen.append((done, total)),
    )  # fmt: skip
    assert 1e-3 < found.learning_rate < 100
    assert not found.at_edge
    assert torch.equal(state, torch.get_rng_state())
    assert seen[-1] == (16, 16)
    again = base_maximal_lr(
        _build, BASE, make_recipe("nb201"), images, labels,
        grid=logarithmic_grid(1e-4, 1e3, 8), seeds=(0, 1), protocol=Protocol(batch_size=32),
    )  # fmt: skip
    assert again == found


def test_labels_must_match_images():
    images, labels = _data()
    with pytest.raises(InputError, match="as many labels as images"):
        base_maximal_lr(_build, BASE, make_recipe("nb201"), images, labels[:-1], grid=(0.1,))


@pytest.mark.parametrize("network", ["tiny", "dag-mlp", "dag-cnn"])
def test_command_searches_every_network(network: str, capsys, tmp_path):
    size = ["--width", "8", "--cells-per-stage", "1", "--samples", "256", "--batch-size", "64"]
    grid = ["--low", "0.001", "--high", "100", "--points", "6", "--seeds", "2"]
    where = str(tmp_path / "curve")
    arguments = ["base-lr", "--network", network, *size, *grid, "--json", "--figure", where]
    assert main(arguments) == 0
    page = json.loads(capsys.readouterr().out)
    assert len(page["curve"]) == 6
    chosen = next(row for row in page["curve"] if row["learning_rate"] == page["base_lr"])
    assert chosen["within_noise"]
    assert chosen["loss"] <= page["threshold"]
    assert page["best"] <= page["base_lr"] < 100
    assert (tmp_path / "curve.png").stat().st_size > 5000


def test_command_refuses_a_bad_grid(capsys):
    assert main(["base-lr", "--low", "-1"]) == 2
    assert "0 < low < high" in capsys.readouterr().err
