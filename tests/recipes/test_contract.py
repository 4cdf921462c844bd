"""Contract of every registered recipe."""

import contextlib
import dataclasses
import math
import typing

import numpy as np
import pytest
import torch

from cells import Cell, DagCode
from experiments.laws.dagnet import DagCNN, DagMLP
from rebench.errors import InputError
from rebench.nets import LayeredNet, TinyNet
from rebench.recipes import (
    BASE_CODE,
    Architecture,
    HyperParameters,
    NoPathError,
    make_recipe,
    recipe_class,
    recipe_names,
)
from rebench.runs import RecipeSpec

MEASURED = [name for name in recipe_names() if make_recipe(name).needs != "graph"]
GRAPHS: list[Architecture] = [
    *map(Cell.parse, ("1_01_001", "3_33_333", "2_13_310", "3_30_100", "4_04_204")),
    *map(DagCode.parse, ("1", "2_12_212", "2_20_022_0002")),
]
NEED_PATHS = {
    "topology", "topology-lr", "topology-init", "topology-exact", "paths", "am-mup", "fsc",
    "one-step",
}  # fmt: skip
NO_PATHS: list[Architecture] = [Cell.parse("3_30_000"), DagCode.parse("2_00_002")]


def _nets(graph: Architecture) -> list[LayeredNet]:
    if isinstance(graph, Cell):
        return [TinyNet(graph, channels=4, cells_per_stage=1)]
    return [DagMLP(graph, inputs=192, width=16), DagCNN(graph, channels=4, order="after")]


def _net(graph: Architecture) -> LayeredNet:
    return _nets(graph)[0]


def _batch() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    images = torch.randn(16, 3, 8, 8, generator=generator)
    return images, torch.randint(10, (16,), generator=generator)


def _state(net: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in net.state_dict().items()}


def _others(name: str) -> dict[str, object]:
    """Return a valid value of each parameter that differs from its default."""
    hints = typing.get_type_hints(recipe_class(name))
    found: dict[str, object] = {}
    for field in dataclasses.fields(recipe_class(name)):
        choices = [one for hint in (hints[field.name], *typing.get_args(hints[field.name]))
                   for one in typing.get_args(hint)]  # fmt: skip
        for value in (*choices, not field.default, 2, 3, 0.5, 0.25):
            with contextlib.suppress(InputError):
                if getattr(make_recipe(name, **{field.name: value}), field.name) != field.default:
                    found[field.name] = value
                    break
    return found


@pytest.mark.parametrize("name", recipe_names())
class TestEveryRecipe:
    def test_has_a_name_a_summary_and_a_paper(self, name: str):
        recipe = make_recipe(name)
        assert recipe.name == name
        assert recipe.summary
        assert recipe.paper

    def test_spec_round_trip(self, name: str):
        fields = dataclasses.fields(recipe_class(name))
        named = {field.name: field.default for field in fields if field.metadata.get("named")}
        assert make_recipe(name).spec == RecipeSpec(name=name, parameters=named)
        for field, value in _others(name).items():
            recipe = make_recipe(name, **{field: value})
            assert recipe.spec.parameters == named | {field: value}
            read = RecipeSpec.model_validate_json(recipe.spec.model_dump_json())
            assert make_recipe(read) == recipe

    def test_unknown_parameter_lists_the_valid_ones(self, name: str):
        with pytest.raises(InputError, match=r"unknown parameter .* of recipe"):
            make_recipe(name, nonsense=1)

    @pytest.mark.parametrize("graph", GRAPHS, ids=str)
    def test_values_are_finite_and_name_the_network_s_parameters(self, name, graph):
        recipe = make_recipe(name)
        for net in _nets(graph):
            recipe.apply_init(net, graph, torch.Generator().manual_seed(0))
            assert all(value.isfinite().all() for value in net.state_dict().values())
            found = [recipe.hyperparameters(graph)]
            if recipe.needs != "graph":
                generator = torch.Generator().manual_seed(1)
                found.append(recipe.measure(net, graph, *_batch(), generator))
            for values in found:
                assert 0 < values.learning_rate < math.inf
                assert set(values.layer_multipliers) <= set(dict(net.named_parameters()))
                assert all(0 <= factor < math.inf for factor in values.layer_multipliers.values())

    def test_base_graph_has_the_base_rate(self, name: str):
        recipe = make_recipe(name)
        base = getattr(recipe, "base_lr", None) or getattr(recipe, "lr", None)
        for graph in (Cell.parse(BASE_CODE), DagCode.parse(BASE_CODE)):
            found = recipe.hyperparameters(graph).learning_rate
            assert base is None or found == pytest.approx(base, rel=1e-12)

    def test_init_depends_only_on_the_generator(self, name: str):
        cell = Cell.parse("3_33_333")
        states = []
        for seed, unrelated in ((5, 0), (5, 1), (6, 0)):
            torch.manual_seed(unrelated)
            net = _net(cell)
            before = torch.get_rng_state()
            make_recipe(name).apply_init(net, cell, torch.Generator().manual_seed(seed))
            assert torch.equal(before, torch.get_rng_state())
            states.append(_state(net))
        assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])
        assert not torch.equal(states[0]["stem.0.weight"], states[2]["stem.0.weight"])

    @pytest.mark.parametrize("graph", NO_PATHS, ids=str)
    def test_graph_without_a_path_has_a_rate_or_is_refused(self, name: str, graph):
        recipe = make_recipe(name)
        try:
            rate = recipe.hyperparameters(graph).learning_rate
        except NoPathError:
            with pytest.raises(NoPathError, match=f"{name!r}.*: no path"):
                recipe.hyperparameters(graph)
        else:
            assert name not in NEED_PATHS
            assert rate > 0
            recipe.apply_init(_net(graph), graph, torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", MEASURED)
def test_measure_is_deterministic_and_leaves_everything_as_it_was(name: str):
    recipe = make_recipe(name)
    cell = Cell.parse("2_13_310")
    net = _net(cell).eval()
    recipe.apply_init(net, cell, torch.Generator().manual_seed(0))
    state, rng = _state(net), torch.get_rng_state()
    images, labels = _batch()
    first, second = (
        recipe.measure(net, cell, images, labels, torch.Generator().manual_seed(4))
        for _ in range(2)
    )
    assert first == second
    assert all(torch.equal(state[key], value) for key, value in net.state_dict().items())
    assert torch.equal(rng, torch.get_rng_state())
    assert not net.training
    assert all(parameter.grad is None for parameter in net.parameters())
    assert torch.equal(images, _batch()[0])


@pytest.mark.parametrize(("name", "parameters", "message"), [
    ("topology", {"base_lr": -0.1}, "base_lr must be greater than 0, got -0.1"),
    ("topology", {"degree": "both"}, "degree must be 'source', 'target', .*got 'both'"),
    ("topology", {"depth": "tree"}, "depth must be 'cell' or 'network', got 'tree'"),
    ("topology", {"cells_per_stage": 0}, "cells_per_stage must be at least 1"),
    ("topology-exact", {"pool_gain": 1.5}, "pool_gain must be at most 1"),
    ("fsc", {"refresh": 1}, "refresh must be true or false"),
    ("am-mup", {"residual_blocks": 0}, "residual_blocks must be at least 1"),
    ("mup", {"base_width": -1}, "base_width must be at least 1, got -1"),
    ("fsc", {"eta_0": 0}, "eta_0 must be greater than 0, got 0"),
    ("one-step", {"init": "topology"}, "init must be 'default' or 'he', got 'topology'"),
    ("fixed", {"lr": "0.1"}, "lr must be a number, got '0.1'"),
    ("fixed", {"lr": math.inf}, "lr must be a finite number"),
    ("fixed", {"init": "xavier"}, "init must be 'default', 'he' or 'mean-field'"),
])  # fmt: skip
def test_bad_parameters_name_the_field_and_the_allowed_values(name, parameters, message):
    with pytest.raises(InputError, match=message):
        make_recipe(name).__class__(**parameters)


def test_a_rate_that_float32_lacks_is_refused():
    assert make_recipe("fixed", lr=3.4e38).hyperparameters(GRAPHS[0]).learning_rate == 3.4e38
    with pytest.raises(InputError, match=r"fixed.*, .*: learning_rate must be .*got 1e\+308"):
        make_recipe("fixed", lr=1e308).hyperparameters(GRAPHS[0])
    with pytest.raises(
        InputError, match=r"multiplier of stem must be .*got 1e\+30 times 10000000000"
    ):
        HyperParameters(learning_rate=1e10, layer_multipliers={"stem": 1e30})


def test_equal_numbers_make_equal_specs():
    assert make_recipe("fixed", lr=1).spec.model_dump_json() == (
        make_recipe("fixed", lr=1.0).spec.model_dump_json()
    )


@pytest.mark.parametrize("rate", [
    0.0, -0.1, 2.8e-302, math.nan, math.inf, math.nextafter(2.0**128 - 2.0**104, math.inf),
])  # fmt: skip
def test_a_rate_that_no_float32_has_is_refused(rate):
    with pytest.raises(InputError, match=r"learning_rate must be from 1\.18e-38 to") as caught:
        HyperParameters(learning_rate=rate)
    assert str(caught.value).endswith(f"got {rate}")
    for accepted in (np.finfo(np.float32).max, np.finfo(np.float32).tiny):
        assert HyperParameters(learning_rate=float(accepted)).learning_rate == accepted
