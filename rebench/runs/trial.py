"""A trial: one training run as plain data. Its id is a hash of all that decides its result."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    ValidationInfo,
)

from rebench.errors import InputError
from rebench.printable import shown
from rebench.spaces import NB201, space_of

__all__ = ["Plain", "Protocol", "RecipeSpec", "Skeleton", "Start", "Trial"]

Scalar: TypeAlias = bool | int | float | str | None


class Plain(BaseModel):
    """Base of all serialised models: frozen, without unknown keys, without NaN and infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Skeleton(Plain, strict=True):
    """Network around the cells: width of the first stage and cells in each of three stages."""

    channels: Annotated[int, Field(ge=1, le=1024)] = 16
    """Width of the first stage; it doubles twice."""
    cells_per_stage: Annotated[int, Field(ge=1, le=100)] = 5
    """Cells in each of the three stages."""


class RecipeSpec(Plain):
    """Recipe as data: its registered name, and parameters that differ from the defaults."""

    name: str
    """The registered name."""
    parameters: dict[str, Scalar] = Field(default_factory=dict)
    """Parameters that differ from the defaults."""

    @property
    def label(self) -> str:
        """Name with parameters, such as ``topology(degree=target)``."""
        if not self.parameters:
            return self.name
        inner = ",".join(f"{key}={value}" for key, value in sorted(self.parameters.items()))
        return f"{self.name}({inner})"

    @classmethod
    def parse(cls, text: str) -> RecipeSpec:
        """Read a label: ``topology`` or ``topology(degree=target,base_lr=0.3)``."""
        match = re.fullmatch(r"([\w-]+)\s*(?:\((.*)\))?", text.strip())
        if match is None:
            raise InputError(f"a recipe is NAME or NAME(FIELD=VALUE,...), got {shown(text)}")
        name, inner = match.groups()
        parameters = {}
        for piece in filter(str.strip, (inner or "").split(",")):
            field, equals, value = piece.partition("=")
            if not equals:
                hint = "; decimals have a point, such as 0.5" if piece.strip().isdigit() else ""
                got = f"{piece.strip()!r}{hint}"
                raise InputError(f"recipe {name!r}: expected FIELD=VALUE, got {got}")
            parameters[field.strip()] = _scalar(value.strip())
        return cls.of(name, parameters)

    @classmethod
    def of(cls, name: str, parameters: Mapping[str, Any]) -> RecipeSpec:
        """Return the recipe with this name and these parameters."""
        try:
            return cls(name=name, parameters=dict(parameters))
        except ValidationError as error:
            rule = "a parameter must be a finite number, a boolean or a string"
            raise InputError(f"recipe {name!r}: {rule}, got {parameters}") from error

    def __hash__(self) -> int:
        return hash((self.name, frozenset(self.parameters.items())))


class Protocol(Plain, strict=True):
    """Settings of the training; the defaults are those of the benchmark."""

    batch_size: Annotated[int, Field(ge=1, le=65536)] = 256
    """Images in a batch; the last batch of an epoch may be smaller."""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Momentum of SGD."""
    nesterov: bool = True
    """Whether Nesterov's momentum is used."""
    weight_decay: Annotated[float, Field(ge=0)] = 5e-4
    """Weight decay of all parameters."""
    schedule: Literal["cosine", "constant"] = "cosine"
    """Cosine decay to 0 with one step per epoch, or a constant learning rate."""
    warmup_epochs: Annotated[int, Field(ge=0, le=100_000)] = 0
    """Epochs at the start in which the learning rate increases in equal steps."""
    augment: bool = True
    """Whether images are randomly flipped and cropped."""
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Label smoothing of the cross-entropy."""
    precision: Literal["float32", "bf16"] = "float32"
    """Precision of the arithmetic."""


class Start(Plain, strict=True):
    """Start from a trained network: the same trial after `epochs` epochs."""

    epochs: Annotated[int, Field(ge=1)]
    """Epochs of the earlier trials; the `epochs` of the sweep include them."""
    what: Literal["weights", "state"] = "weights"
    """Start with the weights only, or also with the momentum. A new schedule of the learning rate
    covers only the additional epochs."""


# The fields of version 1 are part of every id. A later field has the old behaviour as its default,
# and is part of the id only if it differs from the default. Old trials thus keep their ids.
_ALWAYS_IN_THE_ID: Final = {
    "Trial": {"cell", "dataset", "split", "recipe", "seed", "epochs"}
    | {"skeleton", "protocol", "network"},
    "RecipeSpec": {"name", "parameters"},
    "Skeleton": {"channels", "cells_per_stage"},
    "Start": {"epochs", "what"},
    "Protocol": {"batch_size", "momentum", "nesterov", "weight_decay", "schedule"}
    | {"warmup_epochs", "augment", "label_smoothing", "precision"},
}


def _item(name: Any, info: ValidationInfo) -> Any:
    """Return an item of the trial's space, given in any form."""
    try:
        return space_of(info.data.get("space", NB201.name)).item_of(name)
    except InputError as error:
        raise ValueError(str(error)) from error


class Trial(Plain):
    """One training run: item of a space, data set, recipe, seed, epochs, network and protocol."""

    space: str = Field(default=NB201.name, exclude_if=lambda name: name == NB201.name)
    # An object in memory, its text on disk: for NAS-Bench-201 a Cell and its architecture string.
    cell: Annotated[Any, BeforeValidator(_item), PlainSerializer(str)]
    dataset: str
    split: str = "full"
    recipe: RecipeSpec
    seed: Annotated[int, Field(ge=0, lt=2**31)]
    epochs: Annotated[int, Field(ge=1, le=100_000)] = 200
    skeleton: Skeleton = Skeleton()
    protocol: Protocol = Protocol()
    network: Literal["rebench", "xautodl"] = "rebench"
    start: Start | None = Field(default=None, exclude_if=lambda start: start is None)

    @functools.cached_property
    def trial_id(self) -> str:
        """Id of the trial: the first 16 hex digits of SHA-256 over its content.

        The recipe must have its normal form (`Recipe.spec`).
        """
        return _id_of(_parts(self))

    def varied(
        self,
        cells: Iterable[object],
        datasets: Iterable[str],
        recipes: Iterable[RecipeSpec],
        seeds: Iterable[int],
    ) -> Iterator[tuple[Trial, ...]]:
        """Yield this trial for all combinations of these valid parts, without checks.

        Trials that differ only in their seed are yielded together.
        """
        fields: dict[str, object] = {}
        parts = _parts(self)
        names = ("cell", "dataset", "recipe")
        choices = [
            [(value, _part(name, value)) for value in values]
            for name, values in zip(names, (cells, datasets, recipes), strict=True)
        ]
        seed_parts = [(seed, _part("seed", seed)) for seed in seeds]
        for chosen in itertools.product(*choices):
            for name, (value, part) in zip(names, chosen, strict=True):
                fields[name], parts[name] = value, part
            yield tuple(
                self._with({**fields, "seed": seed, "trial_id": _id_of(parts | {"seed": part})})
                for seed, part in seed_parts
            )

    def _with(self, fields: Mapping[str, object]) -> Trial:
        """Return this trial with other valid fields and their id."""
        trial = self.model_copy()
        trial.__dict__.update(fields)
        # One set of names for all trials: separate sets need 1.1 GB for 1.5 million trials.
        object.__setattr__(trial, "__pydantic_fields_set__", _NAMES)
        return trial

    @property
    def index(self) -> int:
        """Index of the item in its space."""
        index: int = self.cell.index
        return index

    @property
    def graph(self) -> Any:
        """Graph of the item, from which recipes compute a learning rate."""
        return space_of(self.space).graph(self.index)

    @property
    def first_epoch(self) -> int:
        """Epochs before this trial starts: 0, or those of the trial that it continues."""
        return self.start.epochs if self.start else 0

    @property
    def source(self) -> Trial:
        """Trial that this trial continues."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return Trial(**fields | {"epochs": self.first_epoch, "start": None})

    @property
    def stack_key(self) -> tuple[object, ...]:
        """Properties that trials of one stack share."""
        return (
            *(self.space, self.cell, self.dataset, self.split, self.epochs, self.skeleton),
            *(self.protocol, self.network, self.start),
        )

    def describe(self) -> str:
        """Return a short line that identifies this trial among its neighbours."""
        return f"{self.cell.title} {self.dataset} {self.recipe.label} seed {self.seed}"


_NAMES: Final = set(Trial.model_fields)
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def _id_of(parts: Mapping[str, str]) -> str:
    return hashlib.sha256(_joined(parts).encode()).hexdigest()[:16]


def _joined(parts: Mapping[str, str]) -> str:
    return "{" + ",".join(parts.values()) + "}"


def _parts(model: BaseModel) -> dict[str, str]:
    """Return the parts of the id of a trial: each key with its value, as sorted JSON."""
    return {
        name: _part(name, getattr(model, name))
        for name, default, always in _fields(type(model))
        if always or getattr(model, name) != default
    }


def _part(name: str, value: object) -> str:
    if isinstance(value, BaseModel):
        return f'"{name}":{_joined(_parts(value))}'
    return f'"{name}":{_encode(str(value) if name == "cell" else value)}'


@functools.cache
def _fields(model: type[BaseModel]) -> list[tuple[str, object, bool]]:
    always = _ALWAYS_IN_THE_ID[model.__name__]
    fields = sorted(model.model_fields.items())
    return [(name, field.default, name in always) for name, field in fields]


def _scalar(text: str) -> Any:
    try:
        return json.loads(text.lower() if text in {"True", "False"} else text)
    except (ValueError, RecursionError):  # deeply nested brackets
        return text
