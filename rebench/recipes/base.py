"""What a recipe is: a named rule from a cell to a learning rate, an init and layer multipliers.

A recipe is a frozen dataclass whose fields are its parameters; `registry` maps its name to its
class. Analytic rules answer `hyperparameters` from the cell alone. Measured rules (`measured` is
True) refine that answer in `measure`, from the initialised network and one batch.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from cells import Cell
from rebench.errors import InputError, UnknownNameError
from rebench.sweep import RecipeSpec

if TYPE_CHECKING:
    import torch

__all__ = [
    "DEFAULT_BASE_LR",
    "HyperParameters",
    "NoPathError",
    "Recipe",
    "make_recipe",
    "recipe_names",
    "register",
]

# Base learning rate of the paper's released code, found for the cell 1_01_001.
DEFAULT_BASE_LR = 0.46


class NoPathError(InputError):
    """The rule has no value for a cell without a path from input to output."""

    def __init__(self, recipe: str, cell: Cell) -> None:
        super().__init__(f"recipe {recipe!r} has no learning rate for cell {cell.index}: no path")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HyperParameters:
    """What a recipe decides for one network.

    `layer_multipliers` maps parameter names of the network (as in its state dict) to factors on
    the learning rate; a parameter that is not named has 1.
    """

    learning_rate: float
    layer_multipliers: Mapping[str, float] = MappingProxyType({})

    def __post_init__(self) -> None:
        if not 0 < self.learning_rate < float("inf"):
            raise InputError(f"learning_rate must be positive, got {self.learning_rate}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe(abc.ABC):
    """A rule for learning rate and init; its fields are its parameters."""

    name: ClassVar[str]
    summary: ClassVar[str]
    paper: ClassVar[str]
    # True: `measure` must be called on the initialised network before training.
    measured: ClassVar[bool] = False
    # True: `measure` is called again at the start of every epoch.
    refreshed: ClassVar[bool] = False

    @abc.abstractmethod
    def hyperparameters(self, cell: Cell, dataset: str) -> HyperParameters:
        """Return what the rule says for `cell` without a network; raise `NoPathError`."""

    @abc.abstractmethod
    def apply_init(self, net: torch.nn.Module, cell: Cell, generator: torch.Generator) -> None:
        """Initialise `net` in place, drawing only from `generator`."""

    def measure(
        self,
        net: torch.nn.Module,
        cell: Cell,
        images: torch.Tensor,
        labels: torch.Tensor,
        generator: torch.Generator,
    ) -> HyperParameters:
        """Return the hyperparameters measured on `net` and one batch; `net` is left unchanged."""
        raise NotImplementedError(f"{self.name} measures nothing")

    @property
    def spec(self) -> RecipeSpec:
        """This recipe as data, naming only parameters that differ from their defaults."""
        changed = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != field.default
        }
        return RecipeSpec(name=self.name, parameters=changed)


_REGISTRY: dict[str, type[Recipe]] = {}

R = TypeVar("R", bound=type[Recipe])


def register(cls: R) -> R:
    """Add a recipe class to the registry under its name."""
    _REGISTRY[cls.name] = cls
    return cls


def recipe_names() -> list[str]:
    """Return the registered names, in order of registration."""
    return list(_REGISTRY)


def make_recipe(spec: RecipeSpec | str, **parameters: Any) -> Recipe:
    """Build the recipe that a spec or a name with parameters describes."""
    if isinstance(spec, str):
        spec = RecipeSpec(name=spec, parameters=parameters)
    if spec.name not in _REGISTRY:
        raise UnknownNameError("recipe", spec.name, _REGISTRY)
    cls = _REGISTRY[spec.name]
    valid = [field.name for field in dataclasses.fields(cls)]
    for key in spec.parameters:
        if key not in valid:
            raise UnknownNameError(f"parameter of recipe {spec.name!r}", key, valid)
    return cls(**spec.parameters)
