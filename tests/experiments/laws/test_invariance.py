"""Rescaled layers: bit for bit by powers of two, within rounding otherwise, and where it fails."""

from __future__ import annotations

import math

import pandas as pd
import pytest
import torch

from experiments.laws.alignment import (
    InvarianceSettings,
    draw_factors,
    invariance_verdicts,
    measure_invariance,
    rescaled,
    train_rescaled,
)
from experiments.laws.conv_step import DeepNet, DeepPlan
from experiments.laws.images import SmallImages
from experiments.laws.pieces import Pieces


def batches(count=6):
    generator = torch.Generator().manual_seed(1)
    return [
        (torch.randn(8, 5, generator=generator, dtype=torch.float64), torch.arange(8) % 3)
        for _ in range(count)
    ]


def mlp():
    plan = DeepPlan(width=16, depth=3)
    return DeepNet(plan, torch.Generator().manual_seed(0), in_features=5, classes=3).double()


def drops(factors):
    frame = train_rescaled(mlp(), factors, batches(), 0.05)
    return dict(list(frame.groupby("rule")))


def test_powers_of_two_change_no_bit_under_equal_contributions():
    # A power of two is exact in floating point, so the two trainings do the same operations.
    names = [name for name, _ in mlp().named_parameters()]
    found = drops(dict(zip(names, (4.0, 0.25, 8.0, 0.125), strict=True)))
    equal, one = found["equal contributions"], found["one rate"]
    assert (equal["rescaled"] == equal["as_drawn"]).all()
    assert (equal["as_drawn"] > 0).all()
    assert (one["rescaled"] / one["as_drawn"] - 1).abs().max() > 0.02


def test_factors_that_change_the_function_are_seen():
    # Only the readout times 2: another network, which equal contributions cannot hide.
    equal = drops({"readout.weight": 2.0})["equal contributions"]
    assert (equal["rescaled"] / equal["as_drawn"] - 1).abs().max() > 0.01


def test_an_equal_contribution_moves_rescaled_weights_by_their_factor():
    # By hand, for z = w x and the loss -log sigmoid: two classes with the logits 0 and w x.
    x, w, a, drop = 1.5, 0.4, 3.0, 0.01

    class Scaled(torch.nn.Module):
        def __init__(self, weight, factor):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.tensor([[weight]], dtype=torch.float64))
            self.factor = factor

        def forward(self, inputs):
            logit = inputs @ self.weight / self.factor
            return torch.cat([torch.zeros_like(logit), logit], dim=1)

    data = [(torch.tensor([[x]], dtype=torch.float64), torch.tensor([1]))]
    gradient = -x / (1 + math.exp(w * x))
    moved = w - drop / gradient  # C / gradient^2 times the gradient
    expected = math.log1p(math.exp(-w * x)) - math.log1p(math.exp(-moved * x))
    for weight, factor in ((w, 1.0), (a * w, a)):
        frame = train_rescaled(Scaled(weight, factor), {}, data, drop)
        assert frame["as_drawn"].tolist() == pytest.approx([expected] * 2, rel=1e-12)


def test_factors_have_product_one_and_stay_in_range():
    for count in (2, 7):
        names = [str(place) for place in range(count)]
        factors = draw_factors(names, 4.0, torch.Generator().manual_seed(count))
        assert list(factors) == names
        assert math.prod(factors.values()) == pytest.approx(1, rel=1e-12)
        assert all(0.25 <= factor <= 4 for factor in factors.values())
        assert len({round(factor, 6) for factor in factors.values()}) == count


def test_rescaled_copy_leaves_the_network_and_its_function():
    net = mlp()
    before = {name: weight.clone() for name, weight in net.state_dict().items()}
    factors = draw_factors(list(before), 4.0, torch.Generator().manual_seed(0))
    other = rescaled(net, factors)
    x = batches(1)[0][0]
    torch.testing.assert_close(other(x), net(x), rtol=1e-12, atol=1e-15)
    for name, weight in net.state_dict().items():
        assert torch.equal(weight, before[name])
        torch.testing.assert_close(other.state_dict()[name], factors[name] * before[name])


def test_mlps_and_cells_are_invariant_and_one_rate_is_not():
    # Tolerance 1e-9: rounding in float64 over a few steps.
    settings = InvarianceSettings(width=16, depth=4, cells=(6111,), draws=1, steps=4)
    generator = torch.Generator().manual_seed(2)
    few = SmallImages(
        name="few", pixels=torch.randn(64, 1, 8, 8, generator=generator),
        labels=torch.arange(64) % 10,
    )  # fmt: skip
    whole = measure_invariance(settings, few, 0, Pieces())
    frames = [part for _, part in whole.groupby("network", sort=False)]
    assert len(frames) == 2
    for frame in frames:
        ratio = frame["rescaled"] / frame["as_drawn"]
        equal = frame["rule"] == "equal contributions"
        assert (ratio[equal] - 1).abs().max() < 1e-9
        assert (ratio[~equal] - 1).abs().max() > 0.01
    drop, same, cells_drop, cells_same = invariance_verdicts(whole, settings, "few")
    assert [said.verdict.partition(":")[0] for said in (same, cells_same)] == ["invariant"] * 2
    for verdict, frame in zip((drop, cells_drop), frames, strict=True):
        equal = frame.loc[frame["rule"] == "equal contributions", "as_drawn"]
        assert verdict.ours == pytest.approx(equal.median() / settings.loss_drop)
    worse = frames[0].assign(rescaled=frames[0]["as_drawn"] * 1.01)
    _, mlps, *_ = invariance_verdicts(pd.concat([worse, frames[1]]), settings, "few")
    assert mlps.verdict.startswith("not invariant: largest error 0.01")
