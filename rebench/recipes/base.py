"""What a recipe is: a named rule from an architecture to learning rate, init and multipliers.

A recipe is a frozen dataclass whose fields are its parameters, validated on construction, and
`register` maps its name to its class: of a new file of this package without further ado, and of a
module that a package of the user's announces (`rebench.extensions`). Every rule answers
`hyperparameters` from the graph alone. Where that is not all (`needs`), `measure` completes the
answer from the initialised network, or from the network and one batch. Whatever the rule, plain SGD
with one learning rate and a factor for each parameter carries it out. No rule needs torch until a
network is at hand.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import reprlib
import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, TypeAlias, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from cells import Cell
from rebench.arguments import checked
from rebench.errors import InputError, UnknownNameError
from rebench.extensions import announced, import_modules
from rebench.recipes.graph import Architecture
from rebench.recipes.init import LayerInit, default_init, initialise
from rebench.runs import RecipeSpec
from rebench.runs.trial import rule_of

if TYPE_CHECKING:
    import torch

    from rebench.nets import Layer, LayeredNet

__all__ = [
    "Count",
    "HyperParameters",
    "Needs",
    "Positive",
    "Recipe",
    "learning_rate",
    "make_recipe",
    "parse_recipe",
    "recipe_class",
    "recipe_names",
    "register",
]

Positive: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
"""A recipe's parameter that is a finite number above 0."""
Count: TypeAlias = Annotated[int, Field(ge=1)]
"""A recipe's parameter that is a whole number of at least 1."""
Needs: TypeAlias = Literal["graph", "network", "batch"]
"""What a recipe's rates come from."""

# The largest float32: rates are kept in it.
_MOST: Final = (2 - 2**-23) * 2.0**127


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HyperParameters:
    """What a recipe decides for one network.

    `layer_multipliers` maps parameter names of the network (as in its state dict) to factors on
    the learning rate; a parameter that is not named has 1.
    """

    learning_rate: float
    layer_multipliers: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 < self.learning_rate <= _MOST:
            raise InputError(
                f"learning_rate must be above 0 and at most {_MOST:.3g}, the largest number of"
                f" float32, got {self.learning_rate}"
            )
        for name, factor in self.layer_multipliers.items():
            if not 0 <= factor * self.learning_rate <= _MOST:
                raise InputError(
                    f"the multiplier of {name} must be at least 0, and its rate at most"
                    f" {_MOST:.3g}: got {factor} times {self.learning_rate}"
                )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe(abc.ABC):
    """A rule for learning rate and init; its fields are its parameters."""

    name: ClassVar[str]
    summary: ClassVar[str]
    paper: ClassVar[str]
    # What the rates come from: the graph alone, the network too, or one batch as well. Unless the
    # graph is all, `measure` must be called on the initialised network before training.
    needs: ClassVar[Needs] = "graph"
    # Whether layers may have rates of their own, so that no one rate stands for the network.
    rates_by_layer: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for field, adapter in _adapters(type(self)).items():
            value = getattr(self, field)
            try:
                object.__setattr__(self, field, adapter.validate_python(value, strict=True))
            except ValidationError as error:
                rule = rule_of(error.errors()[0])
                told = reprlib.repr(value)  # may be long
                raise InputError(f"recipe {self.name!r}: {field} {rule}, got {told}") from error

    @property
    def refreshed(self) -> bool:
        """Whether `measure` is to be called again at the start of every epoch."""
        return False

    @abc.abstractmethod
    def hyperparameters(self, cell: Architecture) -> HyperParameters:
        """The hyperparameters of `cell` without a network; raises `NoPathError`."""

    def layer_init(self, layer: Layer, cell: Architecture) -> LayerInit:  # noqa: ARG002 - a default
        """How the rule draws one layer, by its role, edge and shape; PyTorch's default here."""
        return default_init(layer)

    def layer_inits(self, net: LayeredNet, cell: Architecture) -> Mapping[str, LayerInit]:
        """The init of every layer of `net`, by the layer's name."""
        return {layer.name: self.layer_init(layer, cell) for layer in net.weight_layers()}

    def apply_init(self, net: LayeredNet, cell: Architecture, generator: torch.Generator) -> None:
        """Initialise `net` in place, drawing only from `generator`.

        Normalisation layers go back to gain 1, bias 0 and fresh statistics under every rule.
        """
        initialise(net, self.layer_inits(net, cell), generator)

    def measure(
        self,
        net: LayeredNet,
        cell: Architecture,
        images: torch.Tensor,
        labels: torch.Tensor,
        generator: torch.Generator,
    ) -> HyperParameters:
        """Return the hyperparameters that `net` and one batch give; `net` is left unchanged.

        A rule that needs the network alone does not look at the batch.
        """
        raise NotImplementedError(f"{self.name} needs the graph alone")

    def explain(self, cell: Architecture) -> Mapping[str, str | float]:  # noqa: ARG002 - a default
        """Return the numbers that the learning rate of `cell` came from, for people to read."""
        return {}

    @property
    def spec(self) -> RecipeSpec:
        """This recipe as data, naming only parameters that differ from their defaults.

        A parameter whose default changed what the rule does has the metadata ``{"named": True}``
        and is named always: records from before it do not name it, and mean something else.
        """
        changed = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.metadata.get("named") or getattr(self, field.name) != field.default
        }
        return RecipeSpec(name=self.name, parameters=changed)


@functools.cache
def _adapters(cls: type[Recipe]) -> dict[str, TypeAdapter[Any]]:
    hints = typing.get_type_hints(cls, include_extras=True)
    return {field.name: TypeAdapter(hints[field.name]) for field in dataclasses.fields(cls)}


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


@checked
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


@checked
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
