"""Contract of search spaces, and what each space of rebench promises."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cells import Cell
from rebench.data import data_spec
from rebench.errors import InputError, UnknownNameError
from rebench.nets import network_builder
from rebench.search import SearchSpace
from rebench.spaces import NB201, Item, NamedItems, Space, space_names, space_of
from rebench.spaces.size import CELL

NAMED = NamedItems(["resnet", "vgg", "dense net"])
SPACES = [*map(space_of, space_names()), NAMED]


def _some(space: Space) -> np.ndarray:
    return np.unique(np.random.default_rng(0).integers(0, space.size, 20))


@pytest.mark.parametrize("space", SPACES, ids=lambda space: space.name)
def test_labels_and_indices_name_the_same_items(space: Space):
    for index in _some(space).tolist():
        assert space.find(space.label(index)) == index
        assert space.find(space.arch(index)) == index
        assert space.item_of(index).index == index
    with pytest.raises((InputError, ValueError), match="no such network"):
        space.find("no such network")


@pytest.mark.parametrize("space", SPACES, ids=lambda space: space.name)
def test_equal_networks_are_numbered_for_each_item(space: Space):
    indices = np.arange(space.size)
    numbers = space.equal_networks(indices)
    assert numbers.shape == indices.shape
    assert space.learns(indices).dtype == bool


@pytest.mark.parametrize("name", space_names())
def test_neighbours_differ_in_one_choice(name: str):
    space = space_of(name)
    search = SearchSpace.whole(space)
    position = space.size // 2
    near = search.neighbours(position)
    differ = (space.choices(near) != space.choices(np.array([position]))).sum(axis=1)
    assert (differ == 1).all()
    assert len(set(near.tolist())) == sum(count - 1 for count in space.levels)
    assert len(space.features(np.arange(3))) == 3


def test_names_have_no_neighbours_and_say_which_algorithms_work():
    with pytest.raises(InputError, match=r"'list' has no choices, .* random or hyperband"):
        SearchSpace.whole(NAMED).neighbours(0)


def test_an_unknown_space_lists_the_known_ones():
    with pytest.raises(UnknownNameError, match="nb201"):
        space_of("nb202")


def test_a_name_that_is_nearly_right_is_suggested():
    with pytest.raises(InputError, match="did you mean dense net"):
        NAMED.find("densenet")


def test_a_label_of_a_grid_has_the_value_of_each_choice():
    """By hand: the last choice changes fastest; `mlp` has three depths and ten widths."""
    assert space_of("mlp").label(0) == "1-16"
    assert space_of("mlp").label(10) == "2-16"
    assert space_of("mlp").find("3-1024") == 29
    assert space_of("macro").label(3) == "00000010"
    assert space_of("size").label(1) == "8:8:8:8:16"


def test_macro_networks_are_equal_if_an_identity_moves_within_a_stage():
    """By hand, from the published code: layers 1, 3 and 6 change the shape; the others need not."""
    macro = space_of("macro")
    labels = ("00010000", "00001000", "01010000", "10010000", "00010010", "00010001")
    numbers = macro.equal_networks(np.array([macro.find(label) for label in labels]))
    assert numbers[0] == numbers[1]
    assert numbers[2] != numbers[3]
    assert numbers[4] == numbers[5]
    assert len(np.unique(macro.equal_networks(np.arange(macro.size)))) == 3969


def test_cells_are_those_of_the_compiler():
    index = 1696
    assert NB201.graph(index) == Cell.from_index(index)
    assert tuple(NB201.choices(np.array([index]))[0]) == Cell.from_index(index).ops
    assert NB201.published_classes()[index] == Cell.from_index(index).functional_class()


@pytest.mark.parametrize("label", ["8:24:24:64:64", "16:16:16:16:16", "64:8:40:8:16"])
def test_networks_of_the_size_space_are_those_of_the_benchmark(label: str):
    """Compare outputs and costs with the code of NATS-Bench's authors."""
    from xautodl.models.cell_searchs import CellStructure
    from xautodl.models.shape_infers import DynamicShapeTinyNet

    space = space_of("size")
    item = Item(space, space.find(label))
    net = network_builder("size")(item, classes=10)
    channels = [int(count) for count in label.split(":")]
    theirs = DynamicShapeTinyNet(channels, CellStructure.str2structure(str(CELL)), 10)
    theirs.load_state_dict(net.state_dict())
    images = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(net(images), theirs(images)[1], rtol=0, atol=0)
    params = sum(parameter.numel() for parameter in theirs.parameters())
    params_m, mflops = space.cost(np.array([item.index]), data_spec("cifar10"))
    assert params_m[0] == pytest.approx(params / 1e6, abs=1e-9)
    assert mflops[0] == pytest.approx(_multiply_adds(theirs, images[:1]) / 1e6, abs=1e-9)
    named = {layer.parameter for layer in net.weight_layers()}
    weights = {name for name, value in net.named_parameters() if value.dim() > 1}
    assert named == weights


def _multiply_adds(net: torch.nn.Module, images: torch.Tensor) -> int:
    """Count the multiply-adds of convolutions and of the classifier in a forward pass."""
    counts: list[int] = []

    def count(module: torch.nn.Module, _: object, output: torch.Tensor) -> None:
        counts.append(module.weight[0].numel() * output.numel())

    kinds = (torch.nn.Conv2d, torch.nn.Linear)
    layers = [module for module in net.modules() if isinstance(module, kinds)]
    hooks = [module.register_forward_hook(count) for module in layers]
    net(images)
    for hook in hooks:
        hook.remove()
    return sum(counts)


def test_the_size_space_refuses_a_skeleton():
    with pytest.raises(InputError, match="leave skeleton out, got channels = 8"):
        network_builder("size")(Item(space_of("size"), 0), channels=8)
