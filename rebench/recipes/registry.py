"""Recipes by name: those of this package, and those that other packages announce.

A rule in a new file of this package is found without further ado, and so is a module that a package
of the user's announces as an entry point (`rebench.extensions`); `register` does the rest.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

from cells import Cell
from rebench.errors import InputError, UnknownNameError
from rebench.extensions import announced, import_modules
from rebench.recipes.base import Recipe
from rebench.runs import RecipeSpec

__all__ = [
    "learning_rate",
    "make_recipe",
    "parse_recipe",
    "recipe_class",
    "recipe_names",
    "register",
]

# name -> where it is defined -> class. Two definitions of a name are an error when it is asked for.
_REGISTRY: dict[str, dict[str, type[Recipe]]] = {}

R = TypeVar("R", bound=type[Recipe])


def register(cls: R) -> R:
    """Add a recipe class under its name."""
    _REGISTRY.setdefault(cls.name, {})[f"{cls.__module__}.{cls.__qualname__}"] = cls
    return cls


def recipe_names() -> list[str]:
    """Return the names of all recipes, sorted."""
    return sorted(_found())


def recipe_class(name: str) -> type[Recipe]:
    """Return the class of a recipe."""
    known = _found()
    if name not in known:
        raise UnknownNameError("recipe", name, known)
    if len(known[name]) > 1:
        places = " and by ".join(sorted(known[name]))
        raise InputError(
            f"recipe {name!r} is defined by {places}: rename one, or uninstall its package"
        )
    return next(iter(known[name].values()))


def parse_recipe(text: str) -> Recipe:
    """Build the recipe that a label names: ``topology`` or ``topology(degree=target)``."""
    return make_recipe(RecipeSpec.parse(text))


def learning_rate(
    cell: Cell | int | str, recipe: Cell | int | str | RecipeSpec = "topology"
) -> float:
    """The learning rate that a recipe, such as ``topology(base_lr=0.3)``, gives a cell.

    A cell that is told by its index, or is a `Cell`, may stand second.
    """
    if not isinstance(recipe, str | RecipeSpec):
        cell, recipe = recipe, str(cell)
    rule = parse_recipe(recipe) if isinstance(recipe, str) else make_recipe(recipe)
    return rule.hyperparameters(Cell.find(cell)).learning_rate


def make_recipe(spec: RecipeSpec | str, **parameters: Any) -> Recipe:
    """Build the recipe that a spec or a name with parameters describes."""
    if isinstance(spec, str):
        spec = RecipeSpec.of(spec, parameters)
    cls = recipe_class(spec.name)
    valid = [field.name for field in dataclasses.fields(cls)]
    for key in spec.parameters:
        if key not in valid:
            raise UnknownNameError(f"parameter of recipe {spec.name!r}", key, valid)
    return cls(**spec.parameters)


def _found() -> dict[str, dict[str, type[Recipe]]]:
    import_modules("rebench.recipes")
    announced("recipes")
    return _REGISTRY
