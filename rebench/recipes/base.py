"""Base class of recipes: named rules from an architecture to learning rate, init and multipliers.

A recipe is a frozen dataclass. Its fields are its parameters; they are validated at construction.
`register` adds a class under its name. Every file in this package is found, and so are modules
that another package announces (`rebench.extensions`). `hyperparameters` needs only the graph. If a
recipe `needs` more, `measure` completes the result from the initialised network, or from the
network and one batch. Training is always SGD with one learning rate and a factor for each
parameter. Recipes do not import torch until a network is used.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import reprlib
import sys
import traceback
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from cells import Cell
from rebench.arguments import checked, rule_of
from rebench.errors import InputError, RebenchError, UnknownNameError
from rebench.extensions import announced, import_modules
from rebench.recipes.graph import Architecture, NoPathError
from rebench.recipes.init import LayerInit, default_init, initialise
from rebench.runs import RecipeSpec

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
    "own_package",
    "parse_recipe",
    "recipe_class",
    "recipe_names",
    "register",
]

Positive: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
"""Parameter of a recipe: a finite number above 0."""
Count: TypeAlias = Annotated[int, Field(ge=1)]
"""Parameter of a recipe: a whole number of at least 1."""
Needs: TypeAlias = Literal["graph", "network", "batch"]
"""Input that a recipe computes its rates from."""

# The smallest and the largest float32 number: training uses rates of this type.
_LEAST, _MOST = 2.0**-126, (2 - 2**-23) * 2.0**127


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HyperParameters:
    """Learning rate and multipliers of a recipe for one network.

    `layer_multipliers` maps parameter names of the network (as in its state dict) to factors of
    the learning rate. The default factor is 1.
    """

    learning_rate: float
    layer_multipliers: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _LEAST <= self.learning_rate <= _MOST:
            raise InputError(
                f"learning_rate must be from {_LEAST:.3g} to {_MOST:.3g}, the range of float32,"
                f" got {self.learning_rate}"
            )
        for name, factor in self.layer_multipliers.items():
            if not 0 <= factor * self.learning_rate <= _MOST:
                raise InputError(
                    f"the multiplier of {name} must be at least 0, and its rate at most"
                    f" {_MOST:.3g}: got {factor} times {self.learning_rate}"
                )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe(abc.ABC):
    """Rule for the learning rate and the init; the fields are the rule's parameters."""

    name: ClassVar[str]
    summary: ClassVar[str]
    paper: ClassVar[str]
    # Input of the rule: only the graph, also the network, or also a batch. In the last two cases,
    # training calls `measure` on the initialised network before its first step.
    needs: ClassVar[Needs] = "graph"
    # Whether layers can have different rates, so that no single rate describes the network.
    rates_by_layer: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "hyperparameters" in vars(cls):
            rule = _explained(cls.hyperparameters)
            cls.hyperparameters = rule  # type: ignore[method-assign, assignment]

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
        """Whether `measure` is called again at every epoch: the parameter `refresh`, if any."""
        return bool(getattr(self, "refresh", False))

    @abc.abstractmethod
    def hyperparameters(self, cell: Architecture) -> HyperParameters:
        """Return the hyperparameters of `cell` without a network; can raise `NoPathError`."""

    def layer_init(self, layer: Layer, cell: Architecture) -> LayerInit:  # noqa: ARG002 - a default
        """Return the init of one layer, from its role, edge and shape; here PyTorch's default."""
        return default_init(layer)

    def layer_inits(self, net: LayeredNet, cell: Architecture) -> Mapping[str, LayerInit]:
        """Return the init of every layer of `net`, by the layer's name."""
        return {layer.name: self.layer_init(layer, cell) for layer in net.weight_layers()}

    def apply_init(self, net: LayeredNet, cell: Architecture, generator: torch.Generator) -> None:
        """Initialise `net` in place; random numbers come only from `generator`.

        Every rule resets normalisation layers to gain 1, bias 0 and fresh statistics.
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
        """Return the hyperparameters from `net` and one batch; `net` is not changed.

        A rule that needs only the network ignores the batch.
        """
        raise NotImplementedError(f"{self.name} needs only the graph; call hyperparameters")

    def explain(self, cell: Architecture) -> Mapping[str, str | float]:  # noqa: ARG002 - a default
        """Return the numbers behind the learning rate of `cell`, for display."""
        return {}

    @property
    def spec(self) -> RecipeSpec:
        """This recipe as data, with only the parameters that differ from their defaults.

        A parameter with the metadata ``{"named": True}`` is always included. Its default changed
        the rule, and older records without the parameter mean the rule before that change.
        """
        changed = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.metadata.get("named") or getattr(self, field.name) != field.default
        }
        return RecipeSpec(name=self.name, parameters=changed)


Rule: TypeAlias = Callable[[Recipe, Architecture], HyperParameters]


def _explained(rule: Callable[[Recipe, Architecture], object]) -> Rule:
    """Return a rule whose errors name the recipe, the cell and the line of the rule."""

    @functools.wraps(rule)
    def call(self: Recipe, cell: Architecture) -> HyperParameters:
        def wrong(problem: object) -> InputError:
            return InputError(f"recipe {self.spec.label!r}, {cell.title}: {problem}")

        try:
            values = rule(self, cell)
        except RebenchError as error:
            named = isinstance(error, NoPathError) or f"recipe '{self.name}" in str(error)
            if named or not isinstance(error, InputError):
                raise
            raise wrong(error) from error
        except Exception as error:
            every = traceback.extract_tb(error.__traceback__)
            frames = every[1:] or every  # a rule without an argument for the cell has no frame
            line = [frame for frame in frames if frame.filename == frames[0].filename][-1]
            place = f"{Path(line.filename).name}:{line.lineno}"
            raise wrong(f"{type(error).__name__} ({error}) at {place}; repair the rule") from error
        if not isinstance(values, HyperParameters):
            raise wrong(f"a rule must return HyperParameters(learning_rate=...), got {values!r}")
        return values

    return call


@functools.cache
def _adapters(cls: type[Recipe]) -> dict[str, TypeAdapter[Any]]:
    hints = typing.get_type_hints(cls, include_extras=True)
    return {field.name: TypeAdapter(hints[field.name]) for field in dataclasses.fields(cls)}


# name -> place of definition -> class. A name with two definitions is an error when it is used.
_REGISTRY: dict[str, dict[str, type[Recipe]]] = {}

R = TypeVar("R", bound=type[Recipe])


def register(cls: R) -> R:
    """Add a recipe class under its name."""
    missing = [name for name in ("name", "summary", "paper") if not hasattr(cls, name)]
    if missing:
        raise InputError(
            f"recipe class {cls.__name__} has no {', '.join(missing)}: every recipe has the class"
            " variables name, summary and paper, each a text"
        )
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
            f"recipe {name!r} is defined by {places}: rename a class or uninstall its package"
        )
    return next(iter(known[name].values()))


def own_package(name: str) -> str:
    """Return the package (or the module) that adds a recipe; empty for a recipe of rebench."""
    modules = [cls.__module__ for cls in _found().get(name, {}).values()]
    if not modules or modules[0].startswith("rebench."):
        return ""
    package = modules[0].partition(".")[0]
    is_file = getattr(sys.modules.get(package), "__file__", None)
    return package if is_file else modules[0]


@checked
def parse_recipe(text: str) -> Recipe:
    """Build a recipe from its label, such as ``topology`` or ``topology(degree=target)``."""
    return make_recipe(RecipeSpec.parse(text))


def learning_rate(
    cell: Cell | int | str, recipe: Cell | int | str | RecipeSpec | Recipe = "topology"
) -> float:
    """Return the learning rate of a cell under a recipe, such as ``topology(base_lr=0.3)``.

    The schedule of a training scales this rate. Recipes that measure the network (`fsc`,
    `mup`, `one-step`, `two-rates`) then replace it or multiply it by factors of the layers; here
    their rate is the same for all cells. The order of the arguments can be reversed if the cell is
    given as an index or a `Cell`.

    Raises:
        InputError: unknown recipe or parameter, or a rule of paths for a cell without a path.
        CellError: not a cell.
    """
    if not isinstance(recipe, str | RecipeSpec | Recipe):
        cell, recipe = recipe, str(cell)
    rule = parse_recipe(recipe) if isinstance(recipe, str) else recipe
    if isinstance(rule, RecipeSpec):
        rule = make_recipe(rule)
    return rule.hyperparameters(Cell.find(cell)).learning_rate


@checked
def make_recipe(spec: RecipeSpec | str, **parameters: Any) -> Recipe:
    """Build a recipe from a spec, or from a name and parameters."""
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
