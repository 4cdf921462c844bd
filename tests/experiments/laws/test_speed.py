"""Feature speed: sampled steps compared with autograd, limits, and the three scalings."""

from __future__ import annotations

import math

import pandas as pd
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it

from experiments.findings.small import exponent_of_shallow_rate
from experiments.laws import speed
from experiments.laws.bafu import first_order_updates
from experiments.laws.registry import LAWS


@pytest.mark.parametrize("zero_readout", [False, True])
def test_speeds_are_those_of_autograd(zero_readout):
    # The network is written out and differentiated by autograd. A readout of 0 is parallel to the
    # last feature after one step.
    depth, width, branch = 4, 10, 0.7
    found = speed.speed_frame(
        depth=depth, width=width, constant=branch, power=0, draws=1, seed=5, kernel=True,
        readout="zero" if zero_readout else "random",
    )  # fmt: skip
    generator = torch.Generator().manual_seed(5 * 7919 + depth)
    weights = torch.randn(depth, width, width, generator=generator) * math.sqrt(2 / width)
    weights.requires_grad_()
    start = torch.randn(width, generator=generator)
    features = [start * math.sqrt(width) / start.norm()]
    for weight in weights:
        kept = math.sqrt(1 - branch**2) * features[-1]
        features.append(kept + branch * (weight @ features[-1].relu()))
    readout = torch.randn(width, generator=generator) / width
    if zero_readout:
        last = features[-1].detach()
        readout = -last / last.norm() / math.sqrt(width)
    *pulled, own = torch.autograd.grad(
        readout @ features[-1], [*features[1:], weights], retain_graph=True
    )
    updates = first_order_updates(features[1:], [weights], [-own])
    moved = [float(one.square().mean().sqrt()) for one in updates]
    assert found["update"].tolist() == pytest.approx(moved, rel=1e-4, abs=1e-7)
    cosines = [
        -float(F.cosine_similarity(*pair, dim=0)) for pair in zip(updates, pulled, strict=True)
    ]
    assert found["cosine"].tolist() == pytest.approx(cosines, rel=1e-4, abs=1e-5)
    shares = own.square().sum((1, 2)).tolist()
    assert found["contribution"].tolist() == pytest.approx(shares, rel=1e-4, abs=1e-9)
    assert found["drop"].tolist() == pytest.approx([sum(shares)] * depth, rel=1e-4)
    # The last feature's kernel from its whole Jacobian.
    jacobian = torch.stack(
        [
            torch.autograd.grad(value, weights, retain_graph=True)[0].flatten()
            for value in features[-1]
        ]
    )
    kernel = jacobian @ jacobian.T
    expected = kernel.trace() / (width * (kernel @ kernel).trace()) ** 0.5
    assert found["by_kernel"].iloc[-1] == pytest.approx(float(expected), rel=1e-4)


def test_update_at_the_last_layer_tends_to_its_limit_with_the_width():
    # Tolerance 10 %: eight draws at width 400 and depth 8.
    for network in speed.NETWORKS:
        constant, power = speed.NETWORKS[network]
        frame = speed.speed_frame(
            depth=8, width=400, constant=constant, power=power, draws=8, seed=0
        )
        last = frame[frame["layer"] == 8]
        assert last["update"].mean() == pytest.approx(last["limit_update"].iloc[0], rel=0.1)


def test_every_scaling_keeps_what_it_promises():
    # By hand: with a readout of unit variance a step at rate 1 moves the feature by 6 * 16 and the
    # loss by 3 * 16^2, so d = 96, D = 768.
    last = pd.DataFrame({"network": ["MLP"], "depth": [4], "update": [6.0], "drop": [3.0]})
    table = speed.scaled(last, 16).set_index("scaling")
    assert table.loc["NTK", ["readout", "drop"]].tolist() == pytest.approx([0.25, 1])
    assert table.loc["mean-field", ["readout", "update"]].tolist() == pytest.approx([1 / 16, 1])
    assert table.loc["FSC", ["update", "drop"]].tolist() == pytest.approx([1, 1])
    assert table.loc["FSC", ["readout", "rate"]].tolist() == pytest.approx([96 / 768, 768 / 96**2])
    assert table["sensitivity"].tolist() == pytest.approx([96 / 768 * 4, 96 / 768 * 16, 1.0])
    assert (table["sensitivity"] * table["drop"] / table["update"]).tolist() == pytest.approx(
        [1, 1, 1]
    )


@pytest.mark.parametrize(
    ("scaling", "limit", "said"), [("mean-field", -1.5, -1.45), ("FSC", -2, -1.94)]
)
def test_exponents_of_shallow_networks_are_those_of_the_limit(scaling, limit, said):
    """`limit` is the exponent of infinitely deep networks; `said` is on a page of findings."""
    found = exponent_of_shallow_rate(scaling)
    assert found.value == pytest.approx(said, abs=0.03)
    assert found.low < limit < found.high


def test_law_has_every_network_layer_and_scaling():
    small = speed.SpeedSettings(
        width=48, depths=(4, 8, 16), kernel_depths=(4,), draws=12, kernel_draws=6
    )
    result = LAWS["fsc"].measure(small)
    layers = result.tables["layers"]
    assert set(layers["network"]) == set(speed.NETWORKS)
    assert layers.groupby("network")["layer"].apply(list).tolist() == [list(range(1, 17))] * 3
    assert len(result.tables["scalings"]) == 3 * 3 * 3
    by_name = {verdict.quantity: verdict for verdict in result.verdicts}
    sensitivity = by_name["exponent in depth of the sensitivity, mean-field scaling, MLP"]
    assert sensitivity.paper == 0.5
    # Tolerance 0.2 at this width and these draws.
    assert sensitivity.ours == pytest.approx(0.5, abs=0.2)
    theorem = by_name["cosine over its value by theorem 2.4, from the eigenvalues of a matrix"]
    assert theorem.ours == pytest.approx(1, abs=0.15)
