"""The search for the base learning rate."""

import math

import pandas as pd
import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from experiments.laws.base_lr import BaseRateSettings, choose, train_curve
from experiments.laws.rate_search import search_seed
from experiments.laws.registry import LAWS
from rebench.errors import InputError, TrainingError
from rebench.recipes import make_recipe

# A cell's network of eight kilobytes, and a grid of two rates.
TINY = BaseRateSettings(
    width=4, cells_per_stage=1, batch_size=32, low=0.01, high=0.3, points=2, seeds=1, seed=5,
    init="fixed(init=he)",
)  # fmt: skip


def _curve(**losses: tuple[float, ...]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"learning_rate": float(rate.replace("_", ".")[1:]), "run": run, "loss": loss}
            for rate, values in losses.items()
            for run, loss in enumerate(values)
        ]
    )


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


@pytest.mark.parametrize(
    "bad",
    [{"low": 0}, {"low": 1, "high": 0.5}, {"points": 1}, {"high": math.inf}, {"seeds": 0}],
)
def test_bad_grid_names_the_rule(bad):
    with pytest.raises(InputError, match="0 < low < high, 2 points or more"):
        BaseRateSettings(**bad)


def _data(n: int = 96) -> tuple[torch.Tensor, torch.Tensor]:
    """Return images with an easy class: the signs of three channel means."""
    generator = torch.Generator().manual_seed(0)
    means = torch.randn(n, 3, 1, 1, generator=generator)
    images = means + 0.5 * torch.randn(n, 3, 4, 4, generator=generator)
    labels = ((means[:, :, 0, 0] > 0) * torch.tensor([1, 2, 4])).sum(dim=1)
    return images, labels


def test_stacked_grid_equals_lone_networks_under_pytorch_s_sgd():
    curve = train_curve(TINY, *_data())
    for rate, loss in zip((0.01, 0.3), curve["loss"], strict=True):
        assert loss == pytest.approx(_lone(rate), rel=1e-4)


def _lone(rate: float) -> float:
    images, labels = _data()
    net = TINY.build().train()
    generator = torch.Generator().manual_seed(search_seed(5, 0))
    make_recipe("fixed", init="he").apply_init(net, TINY.architecture, generator)
    sgd = torch.optim.SGD(net.parameters(), lr=rate, momentum=0.9, nesterov=True, weight_decay=5e-4)
    order = torch.randperm(len(images), generator=generator)
    total = 0.0
    for batch in order.split(TINY.batch_size):
        loss = F.cross_entropy(net(images[batch]), labels[batch])
        total += loss.item() * len(batch)
        sgd.zero_grad()
        loss.backward()
        sgd.step()
    return total / len(images)


def test_search_finds_an_inner_rate_and_leaves_the_random_state_alone():
    images, labels = _data(256)
    settings = BaseRateSettings(
        width=4, cells_per_stage=1, batch_size=32, low=1e-4, high=1e3, points=8, seeds=2
    )
    state = torch.get_rng_state()
    curve = train_curve(settings, images, labels)
    found = choose(curve)
    assert 1e-3 < found.learning_rate < 100
    assert not found.at_edge
    assert torch.equal(state, torch.get_rng_state())
    assert train_curve(settings, images, labels).equals(curve)


@pytest.mark.parametrize(
    ("network", "graph"), [("tiny", "1_01_001"), ("dag-mlp", "2_02"), ("dag-cnn", "2_02")]
)
def test_every_network_can_be_searched(network, graph):
    settings = BaseRateSettings(
        network=network, graph=graph, width=8, cells_per_stage=1, samples=256, batch_size=64,
        low=1e-3, high=100, points=6, seeds=2,
    )  # fmt: skip
    result = LAWS["base-lr"].measure(settings)
    assert len(result.tables["curve"]) == 12
    chosen = result.tables["choice"].iloc[0]
    means = result.tables["curve"].groupby("learning_rate")["loss"].mean()
    assert means[chosen["learning_rate"]] <= chosen["threshold"]
    assert chosen["best"] <= chosen["learning_rate"] < 100
    assert result.verdicts[0].ours == chosen["learning_rate"]
