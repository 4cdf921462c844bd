"""muP against the `mup` package itself."""

import copy

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from cells import Cell
from rebench.nets import TinyNet
from rebench.recipes import make_recipe

CELL = Cell.parse("3_21_313")
BASE_WIDTH, WIDTH = 4, 16


def _net(width: int) -> TinyNet:
    return TinyNet(CELL, channels=width, cells_per_stage=1)


def _batch() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    images = torch.randn(16, 3, 8, 8, generator=generator)
    return images, torch.randint(10, (16,), generator=generator)


def _ours(**parameters) -> tuple[TinyNet, object]:
    recipe = make_recipe("mup", base_width=BASE_WIDTH, base_lr=0.05, **parameters)
    net = _net(WIDTH).train()
    recipe.apply_init(net, CELL, torch.Generator().manual_seed(1))
    return net, recipe.measure(net, CELL, *_batch(), torch.Generator())


def _theirs(width: int, output_mult: float, *, rescale: bool):
    mup = pytest.importorskip("mup")
    nets = []
    for size in (width, BASE_WIDTH, 2 * BASE_WIDTH):
        net = _net(size).train()
        net.classifier = mup.MuReadout(4 * size, 10, output_mult=output_mult)
        nets.append(net)
    mup.set_base_shapes(nets[0], nets[1], delta=nets[2], rescale_params=rescale)
    return nets[0]


@pytest.mark.parametrize("output_mult", [1.0, 3.0])
def test_training_equals_that_of_the_mup_package(output_mult: float):
    mup = pytest.importorskip("mup")
    images, labels = _batch()
    ours, values = _ours(output_mult=output_mult)
    theirs = _theirs(WIDTH, output_mult, rescale=False)
    state = copy.deepcopy(ours.state_dict())
    state["classifier.weight"] *= WIDTH / BASE_WIDTH / output_mult  # MuReadout multiplies it back
    theirs.load_state_dict(state)

    common = {"momentum": 0.9, "nesterov": True}
    groups = [
        {"params": [parameter], "lr": 0.05 * values.layer_multipliers.get(name, 1.0)}
        for name, parameter in ours.named_parameters()
    ]
    optimizers = [
        torch.optim.SGD(groups, lr=0.05, **common),
        mup.MuSGD(theirs.parameters(), lr=0.05, **common),
    ]
    start = ours(images).detach()
    for _ in range(5):
        logits = [ours(images), theirs(images)]
        assert torch.allclose(*logits, rtol=1e-4, atol=1e-5)
        for optimizer, output in zip(optimizers, logits, strict=True):
            optimizer.zero_grad()
            F.cross_entropy(output, labels).backward()
            optimizer.step()
    assert (ours(images) - start).abs().max() > 0.01  # training changed them


def test_init_has_the_range_of_the_mup_package():
    ours, _ = _ours()
    theirs = _theirs(WIDTH, 1.0, rescale=True)
    with torch.no_grad():
        theirs.classifier.weight /= WIDTH / BASE_WIDTH  # as MuReadout does in its forward pass
    for name, parameter in ours.named_parameters():
        if "weight" in name and parameter.dim() > 1:  # uniform, so compare ranges
            other = dict(theirs.named_parameters())[name]
            assert parameter.abs().max().item() == pytest.approx(other.abs().max().item(), rel=0.05)
    assert ours.classifier.bias.abs().max() <= (4 * BASE_WIDTH) ** -0.5  # bound at the base


def test_base_width_is_the_default_init_at_the_base_rate():
    recipe = make_recipe("mup", base_width=WIDTH, base_lr=0.05)
    net, other = _net(WIDTH), _net(WIDTH)
    recipe.apply_init(net, CELL, torch.Generator().manual_seed(1))
    make_recipe("nb201").apply_init(other, CELL, torch.Generator().manual_seed(1))
    assert all(
        torch.equal(*pair)
        for pair in zip(net.state_dict().values(), other.state_dict().values(), strict=True)
    )
    values = recipe.measure(net, CELL, *_batch(), torch.Generator())
    assert values.learning_rate == 0.05
    assert not values.layer_multipliers


def test_readout_can_start_at_zero():
    net, _ = _ours(readout_zero_init=True)
    assert net.classifier.weight.eq(0).all()
    assert net.classifier.bias.eq(0).all()
