from .base import Count, HyperParameters, Positive, Recipe
from .graph import (
    BASE_CODE,
    BENCHMARK_LR,
    DEFAULT_BASE_LR,
    Architecture,
    NoPathError,
    edge_degree,
    require_path,
)
from .init import LayerInit, default_init, degree_init, he_init, mean_field_readout
from .registry import learning_rate, make_recipe, parse_recipe, recipe_class, recipe_names, register

__all__ = [
    "BASE_CODE",
    "BENCHMARK_LR",
    "DEFAULT_BASE_LR",
    "Architecture",
    "Count",
    "HyperParameters",
    "LayerInit",
    "NoPathError",
    "Positive",
    "Recipe",
    "default_init",
    "degree_init",
    "edge_degree",
    "he_init",
    "learning_rate",
    "make_recipe",
    "mean_field_readout",
    "parse_recipe",
    "recipe_class",
    "recipe_names",
    "register",
    "require_path",
]
