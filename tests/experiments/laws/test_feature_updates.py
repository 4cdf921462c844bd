"""Feature updates: identities to float precision, alignment, and no trace left behind."""

from __future__ import annotations

import copy
import math

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it

from cells import Cell
from experiments.laws import bafu, speed
from experiments.laws.alignment import controlled_rates, draw_batches
from experiments.laws.bafu import first_order_updates, gradients_of
from experiments.laws.conv_step import DeepNet, DeepPlan
from rebench.errors import UnknownNameError
from rebench.nets import TinyNet

CUTS = ["stem", "cells.0", "cells.1", "cells.2", "cells.3", "cells.4", "lastact", "classifier"]


def tiny(dtype: torch.dtype = torch.float64) -> tuple[TinyNet, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    net = TinyNet(Cell.from_index(6111), channels=4, cells_per_stage=1).to(dtype).train()
    with torch.no_grad():
        for layer in net.weight_layers():
            layer.weight.normal_(0, math.sqrt(2 / layer.fan_in), generator=generator)
    images = torch.randn(8, 3, 8, 8, generator=generator).to(dtype)
    return net, images, torch.arange(8)


def test_first_order_updates_equal_finite_differences():
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(4, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    unused = torch.randn(2, generator=generator, dtype=torch.float64, requires_grad=True)
    x = torch.randn(3, generator=generator, dtype=torch.float64)
    direction = torch.randn(4, 3, generator=generator, dtype=torch.float64)
    (update,) = first_order_updates(
        [torch.tanh(weight @ x)], [weight, unused], [direction, torch.ones_like(unused)]
    )
    h = 1e-6
    with torch.no_grad():
        expected = (
            torch.tanh((weight + h * direction) @ x) - torch.tanh((weight - h * direction) @ x)
        ) / (2 * h)
    torch.testing.assert_close(update, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_identity_holds_at_cuts_with_batch_norm_in_training(dtype, tolerance):
    net, images, labels = tiny(dtype)
    frame = bafu.measure_feature_updates(
        net, images, lambda out: F.cross_entropy(out, labels), CUTS, 0.1
    )
    assert frame["aligned"].to_numpy() == pytest.approx(frame["formula"].to_numpy(), rel=tolerance)


def test_identity_fails_on_an_edge_beside_other_paths():
    net, images, labels = tiny()
    edges = [layer.name for layer in net.weight_layers() if layer.edge and layer.computed]
    frame = bafu.measure_feature_updates(
        net, images, lambda out: F.cross_entropy(out, labels), edges, 0.1
    )
    off = (frame["aligned"] / frame["formula"] - 1).abs()
    assert len(frame) >= 9
    assert (off > 0.05).mean() > 0.9


def test_measuring_leaves_no_trace():
    net, images, labels = tiny()
    before = copy.deepcopy(net.state_dict())
    bafu.measure_feature_updates(
        net, images, lambda out: F.cross_entropy(out, labels), CUTS, 0.1, actual=True
    )
    for name, value in net.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert not any(module._forward_hooks for module in net.modules())
    assert all(parameter.grad is None for parameter in net.parameters())


def test_actual_update_tends_to_the_first_order_one_with_the_rate():
    net, images, labels = tiny()
    errors = []
    for rate in (1e-1, 1e-3, 1e-6):
        frame = bafu.measure_feature_updates(
            net, images, lambda out: F.cross_entropy(out, labels), ["classifier"], rate, actual=True
        )
        errors.append(abs(frame["actual_full"] / frame["full"] - 1).item())
    assert errors[1] < errors[0] / 10
    assert errors[2] < 1e-4


def test_unknown_modules_and_parameters_are_named():
    net, images, _ = tiny()
    with pytest.raises(UnknownNameError, match=r"module 'cell\.0'"):
        bafu.measure_feature_updates(net, images, torch.sum, ["cell.0"], 0.1)
    with pytest.raises(UnknownNameError, match="parameter"):
        bafu.measure_feature_updates(net, images, torch.sum, ["stem"], {"stem.weight": 0.1})


def test_limit_cosine_equals_the_depth_laws_aligned_share():
    # By the depth law: the part l^2 / 2 of the second moment is along the gradient.
    from experiments.laws.depth import infinite_width_moment

    for layer in (1, 2, 9):
        share = (layer**2 / 2) / infinite_width_moment(layer)
        assert speed.limit_cosine(layer) == pytest.approx(math.sqrt(share), rel=1e-14)


@pytest.mark.parametrize(("constant", "power"), [(0.5, -0.5), (1.0, -0.5), (2.0, -0.5), (1.0, 0.0)])
def test_cosine_tends_to_the_derived_limit_with_the_width(constant, power):
    depth = 16
    branch = constant * depth**power
    found = speed.speed_frame(
        depth=depth, width=500, constant=constant, power=power, draws=6, seed=0
    ).groupby("layer")
    # Tolerance 5 %: six draws of ResNets at this width stay within 3 %. MLPs vary more: 10 %.
    tolerance = 0.05 if power else 0.1
    for layer in (4, 8, 16):
        limit = speed.limit_cosine(layer, branch)
        assert found["cosine"].mean()[layer] == pytest.approx(limit, rel=tolerance)
    far = speed.limit_cosine(10**6, constant / 10**3)
    assert far == pytest.approx((1 + 2 * constant**2 / 3) ** -0.5, rel=1e-4)


def test_controlled_rates_give_equal_contributions_and_the_asked_drop():
    plan = DeepPlan(width=32, depth=5)
    net = DeepNet(plan, torch.Generator().manual_seed(0), in_features=6, classes=3)
    x = torch.randn(16, 6, generator=torch.Generator().manual_seed(1))
    labels = torch.arange(16) % 3

    def loss(out: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(out, labels)

    asked = 1e-4
    value = loss(net(x))
    gradients = gradients_of(net, value)
    rates = controlled_rates(gradients, asked)
    frame = bafu.measure_feature_updates(net, x, loss, ["readout"], rates)
    assert frame.attrs["loss_drop"] == pytest.approx(asked, rel=1e-5)
    shares = [rates[name] * float(gradients[name].square().sum()) for name in rates]
    assert shares == pytest.approx([asked / 6] * 6, rel=1e-4)
    with torch.no_grad():
        for name, parameter in net.double().named_parameters():
            parameter -= rates[name] * gradients[name].double()
    drop = float(value.detach()) - float(loss(net(x.double())).detach())
    assert drop / asked == pytest.approx(1, abs=0.01)


def test_batches_go_round_few_images():
    # 100 images give one batch of 64 in each pass, so five batches need five passes.
    batches = draw_batches(100, 64, 5, torch.Generator().manual_seed(0))
    assert [len(batch) for batch in batches] == [64] * 5
    assert all(len(set(batch.tolist())) == 64 for batch in batches)
