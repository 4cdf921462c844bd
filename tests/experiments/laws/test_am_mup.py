"""AM-muP: exponents within stated tolerances; -3/2 is not asserted where it does not hold."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it

from experiments.laws import am_mup
from experiments.laws.conv_step import ConvNetwork, DeepNet, DeepPlan, sample_conv_updates
from experiments.laws.estimate import log_slope
from experiments.laws.images import SmallImages
from experiments.laws.pieces import Pieces


def exponent(family: am_mup.Family, draws: int) -> float:
    generator = torch.Generator().manual_seed(0)
    rates = [
        float(sample_conv_updates(family.at(depth), draws=draws, generator=generator).mean())
        ** -0.5
        for depth in family.depths
    ]
    return log_slope(family.depths, rates)


def test_plain_cnn_exponent_is_near_minus_three_halves():
    family = am_mup.Family(
        name="1-D", network=ConvNetwork(depth=1, channels=96, side=32), depths=(3, 5, 8, 12)
    )
    assert exponent(family, 24) == pytest.approx(-1.5, abs=0.25)


def test_pre_activation_resnet_exponent_is_near_minus_one_not_three_halves():
    network = ConvNetwork(depth=1, channels=96, kernel=1, side=1, block="pre")
    family = am_mup.Family(name="pre", network=network, depths=(12, 20, 32))
    assert -1.15 < exponent(family, 60) < -0.85


def test_a_depth_is_drawn_until_its_mean_is_known_or_the_draws_are_spent():
    network = ConvNetwork(depth=3, channels=16, side=4)

    def drawn(error: float) -> int:
        frame = am_mup._mean_moments(
            dataclasses.replace(network, depth=3), draws=4, max_draws=32, precision=error, seed=0
        )
        sample = frame["mean_moment"]
        if len(sample) < 32:
            assert sample.std() / len(sample) ** 0.5 <= error * sample.mean()
        return len(sample)

    assert drawn(10.0) == 4
    assert drawn(1e-9) == 32
    assert 4 < drawn(0.13) <= 32


def test_residual_branches_shrink_with_their_number():
    deep = ConvNetwork(depth=9, channels=64, kernel=3, block="pre")
    weights = deep.draw_weights(4, torch.Generator().manual_seed(0))
    ratio = float(weights[1].var() / weights[0].var())
    assert ratio == pytest.approx(1 / 8, rel=0.05)


def test_loss_between_grid_points_is_interpolated():
    searched = pd.DataFrame({"learning_rate": [0.1, 1.0], "seed": 0, "loss": [2.0, 4.0]})
    assert am_mup.loss_at(searched, 0.1) == pytest.approx(2)
    assert am_mup.loss_at(searched, 0.1 * 10**0.5) == pytest.approx(3)
    assert np.isfinite(am_mup.loss_at(searched, 1e-9))


@pytest.mark.parametrize("kernel", [None, 3])
@pytest.mark.parametrize("block", ["plain", "pre", "post"])
def test_stack_computes_its_recursion(block, kernel):
    # Independent check: compute the recursion of the module's docstring from the weights.
    plan = DeepPlan(
        width=6, depth=4, block=block, kernel=kernel, scale_power=0.5, variance_power=1.0
    )
    net = DeepNet(
        plan, torch.Generator().manual_seed(0), in_features=2 if kernel else 50, classes=3
    )
    x = torch.randn(4, 2, 5, 5, generator=torch.Generator().manual_seed(1))

    def weigh(weight: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        return F.conv2d(a, weight, padding=1) if kernel else a @ weight.T

    z = weigh(net.layers[0].weight, x if kernel else x.flatten(1))
    for layer in list(net.layers)[1:]:
        kept = {"plain": 0.0, "pre": z, "post": z.relu()}[block]
        scale = 1.0 if block == "plain" else 3**-0.5
        z = kept + scale * weigh(layer.weight, z.relu())
    features = z.relu().mean((2, 3)) if kernel else z.relu()
    torch.testing.assert_close(net(x), features @ net.readout.weight.T)


def test_stack_shrinks_the_variance_of_branches_alone():
    # Tolerance: five standard errors of a variance over 64^2 weights, 5 (2 / 4096)^(1/2) = 11 %.
    plan = DeepPlan(depth=5, block="pre", variance_power=1.0)
    net = DeepNet(plan, torch.Generator().manual_seed(0))
    variances = [float(layer.weight.detach().var()) * 64 / 2 for layer in net.layers]
    assert variances == pytest.approx([1, 1 / 4, 1 / 4, 1 / 4, 1 / 4], rel=0.11)


def test_transfer_trains_on_the_images_it_is_given():
    # The images have colours and three classes. The rates are so small that nothing is learnt.
    generator = torch.Generator().manual_seed(0)
    few = SmallImages(
        name="few", pixels=torch.randn(48, 3, 6, 6, generator=generator),
        labels=torch.arange(48) % 3, classes=3,
    )  # fmt: skip
    network = am_mup.TransferNetwork(name="CNN", plan=DeepPlan(kernel=3, width=6))
    settings = am_mup.TransferSettings(
        depths=(2, 3), steps=3, batch_size=16, seeds=2, n_lrs=3, lowest_lr=1e-6, highest_lr=1e-5,
        networks=(network,),
    )  # fmt: skip
    found = am_mup.measure_transfer(settings, Pieces(), few, 0)
    assert set(found["dataset"]) == {"few"}
    [verdict] = am_mup.transfer_verdicts(found, settings, few.classes)
    assert verdict.settings.startswith("few, L = 2, 3")
    assert "hardly learns (loss of guessing: 1.10)" in verdict.verdict


def test_exponent_is_the_mean_over_seeds():
    table = pd.DataFrame(
        {
            "seed": [0, 0, 1, 1],
            "depth": [2, 8, 2, 8],
            "best_lr": [1.0, 0.25, 1.0, 0.0625],  # exponents -1 and -2
        }
    )
    found = am_mup.exponent_of_seeds(table)
    assert found.value == pytest.approx(-1.5)
    assert found.high == pytest.approx(-1.5 + 12.7062 * 0.5, rel=1e-4)
