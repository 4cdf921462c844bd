"""Rules for learning rate and init, one per file, each named after its paper."""

from rebench.recipes.base import (
    DEFAULT_BASE_LR,
    HyperParameters,
    NoPathError,
    Recipe,
    make_recipe,
    recipe_names,
    register,
)

__all__ = [
    "DEFAULT_BASE_LR",
    "HyperParameters",
    "NoPathError",
    "Recipe",
    "make_recipe",
    "recipe_names",
    "register",
]
