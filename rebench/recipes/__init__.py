"""Rules for learning rate and init, one per file, each named after its paper."""

from rebench.recipes.am_mup import ArithmeticMean
from rebench.recipes.base import (
    BASE_CODE,
    DEFAULT_BASE_LR,
    Architecture,
    HyperParameters,
    LayerInit,
    NoPathError,
    Recipe,
    make_recipe,
    parse_recipe,
    recipe_class,
    recipe_names,
    register,
)
from rebench.recipes.exact import TopologyExact
from rebench.recipes.fixed import Fixed, NasBench201
from rebench.recipes.fsc import FeatureSpeedControl
from rebench.recipes.mup import Mup
from rebench.recipes.one_step import OneStep, movement
from rebench.recipes.recursion import exact_maximal_lr
from rebench.recipes.topology import Paths, Topology, TopologyInit, TopologyLr, edge_degree

__all__ = [
    "BASE_CODE",
    "DEFAULT_BASE_LR",
    "Architecture",
    "ArithmeticMean",
    "FeatureSpeedControl",
    "Fixed",
    "HyperParameters",
    "LayerInit",
    "Mup",
    "NasBench201",
    "NoPathError",
    "OneStep",
    "Paths",
    "Recipe",
    "Topology",
    "TopologyExact",
    "TopologyInit",
    "TopologyLr",
    "edge_degree",
    "exact_maximal_lr",
    "make_recipe",
    "movement",
    "parse_recipe",
    "recipe_class",
    "recipe_names",
    "register",
]
