"""The sweep files of experiments/surface have the same cells and settings."""

from __future__ import annotations

import math
import statistics

import pytest
from support import PROJECT

from cells import Cell
from cells.classes import functional_classes
from experiments.surface.recipe_rates import fixed_rate
from rebench.nets import TinyNet
from rebench.recipes import make_recipe
from rebench.recipes.init import init_rate_factor
from rebench.runs import parse_spec

FOLDER = PROJECT / "experiments" / "surface"


@pytest.fixture(scope="module")
def specs():
    sweeps = (path for path in FOLDER.glob("*.toml") if path.stem != "page")
    return {path.stem: parse_spec(path.read_text(), str(path)) for path in sweeps}


def test_every_file_has_the_same_nine_rates_and_seeds(specs):
    for name in ("rates", "mini", "full"):
        assert specs[name].seeds == [777, 888, 999]
        rates = [fixed_rate(recipe.label) for recipe in specs[name].recipes[:9]]
        assert rates == [0.0125 * 2**place for place in range(9)]


# Sweeps on the cells of the surface, and on other cells.
ON_SURFACE = ("rates", "effective", "mini-decay10x", "mini-init-parts", "mini-init-parts-seeds",
              "mini-60ep-first")  # fmt: skip
ON_OTHERS = ("mini-60ep-second", "mini-60ep-nodecay", "mini-proxy")
DECAYS = {"mini-decay10x": 5e-3, "mini-60ep-nodecay": 0.0}


def test_sweeps_differ_from_the_surface_in_what_they_ask_alone(specs):
    surface = specs["mini"]
    for name in (*ON_SURFACE, *ON_OTHERS):
        assert specs[name].skeleton == surface.skeleton
        assert specs[name].datasets == surface.datasets
        assert specs[name].epochs == (60 if "60ep" in name else surface.epochs)
        decay = DECAYS.get(name, 5e-4)
        expected = surface.protocol.model_copy(update={"weight_decay": decay})
        assert specs[name].protocol == expected
        assert (specs[name].cells == surface.cells) == (name in ON_SURFACE)
    assert specs["mini-60ep-nodecay"].cells.indices == surface.cells.indices[::2]
    second = specs["mini-60ep-second"]
    assert second.cells.indices == specs["mini-proxy"].cells.indices[::2]
    assert second.model_copy(update={"cells": surface.cells}) == specs["mini-60ep-first"]
    assert specs["full"].cells.all
    assert specs["effective-full"].cells == surface.cells


def test_fresh_cells_share_no_functional_class_with_those_of_the_surface(specs):
    classes = functional_classes("exact")
    fresh, seen = (set(classes[specs[name].cells.indices]) for name in ("mini-proxy", "mini"))
    assert len(fresh) == 120
    assert not fresh & seen


def test_rates_of_the_question_on_inits_are_the_rule_s_over_and_times_its_factor(specs):
    """Compute the numbers that the sweep file gives about the init from the cells' networks."""
    rule = make_recipe("topology")
    factors = []
    for index in specs["effective"].cells.indices:
        cell = Cell.parse(index) if isinstance(index, str) else Cell.from_index(index)
        net = TinyNet(cell, channels=8, cells_per_stage=1)
        factors.append(math.log(init_rate_factor(net, rule.layer_inits(net, cell))))
    factor = math.exp(statistics.fmean(factors))
    assert round(factor**-0.5, 1) == 2.2, "the weights' size"
    undone, moved = (make_recipe(one) for one in specs["effective"].recipes)
    assert undone.base_lr == pytest.approx(rule.base_lr / factor, rel=0.02)
    assert moved.base_lr == pytest.approx(rule.base_lr * factor, rel=0.02)
