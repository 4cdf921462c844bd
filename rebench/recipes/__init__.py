"""Rules for learning rate and init, one per file, each named after its paper."""

from typing import TYPE_CHECKING

from rebench.lazy_package import load_on_demand

if TYPE_CHECKING:
    from rebench.recipes.base import (
        Count,
        HyperParameters,
        Positive,
        Recipe,
    )
    from rebench.recipes.graph import (
        Architecture,
        NoPathError,
        edge_degree,
        require_path,
    )
    from rebench.recipes.init import (
        LayerInit,
        default_init,
        degree_init,
        he_init,
        mean_field_readout,
    )
    from rebench.recipes.recursion import exact_maximal_lr
    from rebench.recipes.reference import BASE_CODE, BENCHMARK_LR, DEFAULT_BASE_LR
    from rebench.recipes.registry import (
        learning_rate,
        make_recipe,
        parse_recipe,
        recipe_class,
        recipe_names,
        register,
    )

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
    "exact_maximal_lr",
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

load_on_demand(__name__)
