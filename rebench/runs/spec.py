"""SweepSpec: the validated content of a sweep file. Errors name the nearest known key."""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import re
import reprlib
import sys
import typing
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import (
    BaseModel,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from rebench.arguments import checked, rule_of
from rebench.errors import InputError, UnknownNameError
from rebench.machine import expanded
from rebench.runs.files import read_bounded
from rebench.runs.slurm_options import SlurmOptions
from rebench.runs.trial import Plain, Protocol, RecipeSpec, Skeleton, Start, Trial
from rebench.spaces import NB201, space_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]  # only Python 3.10

__all__ = [
    "CellsSpec",
    "RandomCells",
    "StratifiedCells",
    "SweepSpec",
    "SweepStart",
    "TableColumn",
    "TopCells",
    "TrainOptions",
    "example",
    "parse_setting",
    "parse_spec",
    "read_settings",
    "read_spec",
    "with_settings",
]

_MOST_BYTES: Final = 1 << 26
# Shortens a value of a file for a message.
_SHORT: Final = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 200
# Last part of the place of a problem if a value may have several types.
_UNION: Final = frozenset({"bool", "float", "int", "str", "constrained-int", "constrained-str"})


class RandomCells(Plain, strict=True):
    """`n` cells, drawn without replacement with equal probability."""

    n: Annotated[int, Field(ge=1)]
    """Number of cells."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the draw."""


class TableColumn(Plain, strict=True):
    """Accuracies of a table by which cells are chosen: means over seeds."""

    table: Annotated[Path, Field(strict=False)] | None = None
    """Table of accuracies: a path, relative to the folder of the sweep file, or the name of a
    released table such as `nb201`. `@RECIPE` may follow. An existing path has priority."""
    dataset: str = "cifar10"
    """Data set of the table."""
    split: str = "ori-test"
    """Split of the table."""
    epochs: int = 200
    """Number of epochs of the table."""


class StratifiedCells(TableColumn):
    """`n` cells from all parts of the space.

    The cells are sorted by the key `by` and divided into `strata` parts of equal size. The same
    number of cells is drawn from each part.
    """

    n: Annotated[int, Field(ge=1)]
    """Number of cells."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the draws."""
    strata: Annotated[int, Field(ge=1)] = 10
    """Number of parts."""
    by: Literal["accuracy", "multiplier"] = "accuracy"
    """Order: accuracy in `table` (then required), or the factor by which the recipe `topology`
    changes the learning rate."""


class TopCells(TableColumn):
    """Best cells of a table: either `n` cells or `percent` of its cells. `table` is required."""

    n: Annotated[int, Field(ge=1)] | None = None
    """Number of cells."""
    percent: Annotated[float, Field(gt=0, le=100)] | None = None
    """Percentage of the cells of the table."""

    @model_validator(mode="after")
    def _one_of(self) -> TopCells:
        if (self.n is None) == (self.percent is None):
            raise ValueError("top needs either n or percent")
        return self


class CellsSpec(Plain, strict=True):
    """Cells of a sweep: the union of all given choices."""

    indices: list[int] = Field(default_factory=list)
    """Indices of the benchmark."""
    strings: list[str] = Field(default_factory=list)
    """Architecture strings, or codes such as `3_34_131`."""
    random: RandomCells | None = None
    """Random cells."""
    stratified: StratifiedCells | None = None
    """Cells drawn equally from parts of the space."""
    top: TopCells | None = None
    """The best cells of a table."""
    all: bool = False
    """All cells of the space (15,625 in NAS-Bench-201)."""
    classes: Literal["as given", "one of each", "one of each network", "every member"] = "as given"
    """Which of the chosen cells are trained: all, one cell of each published class
    (`functional_class` of `rebench cells export`), or one cell of each trainable network
    (`network_class`). With `every member`, all cells of the published classes are trained."""

    @model_validator(mode="after")
    def _some(self) -> CellsSpec:
        if not any((self.indices, self.strings, self.random, self.stratified, self.top, self.all)):
            raise ValueError(
                "no cells: give indices, strings, random, stratified, top or all = true"
            )
        return self


class SweepStart(Start):
    """Longer training: start from the networks that another run has kept."""

    run: Annotated[Path, Field(strict=False)]
    """Folder of that run, relative to the folder of the sweep file."""


class TrainOptions(Plain, strict=True):
    """Additional output of trials; not part of their ids."""

    keep: Literal["nothing", "weights", "state"] = "nothing"
    """`weights` keeps each network; `state` also keeps the momentum, for longer training."""
    half: bool = False
    """Store the weights of kept networks in half precision: half the disk space. A network that is
    loaded again then has slightly different accuracies."""


class SweepSpec(Plain, strict=True):
    """A sweep: all combinations of its cells, data sets, recipes and seeds."""

    space: str = Field(default=NB201.name, exclude_if=lambda name: name == NB201.name)
    """Search space of the cells: `nb201`, or another space with networks."""
    cells: CellsSpec
    """Cells."""
    datasets: Annotated[list[str], Field(min_length=1)]
    """Names of data sets (`rebench data list`)."""
    recipes: Annotated[list[RecipeSpec], Field(min_length=1)]
    """Recipes, written `NAME` or `NAME(FIELD=VALUE,...)`."""
    seeds: Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(min_length=1)]
    """Seeds. Each decides the initialisation, the order of images and the augmentation."""
    epochs: Annotated[int, Field(ge=1, le=100_000)] = 200
    """Number of epochs of each trial."""
    split: str = "full"
    """`full`, or a split that trains on a part of the images, such as `valid`."""
    stack: Annotated[int, Field(ge=1)] = 1
    """Maximum number of trials of one cell that are trained as one network."""
    network: Literal["rebench", "xautodl"] = "rebench"
    """Networks of rebench, or of the benchmark's own code."""
    skeleton: Skeleton = Skeleton()
    """Network around the cells."""
    protocol: Protocol = Protocol()
    """Settings of the training."""
    start: SweepStart | None = Field(default=None, exclude_if=lambda start: start is None)
    """Start from trained networks of another run."""
    train: TrainOptions = TrainOptions()
    """Additional output of trials."""
    slurm: SlurmOptions = SlurmOptions()
    """Settings of the jobs."""

    @field_validator("recipes", mode="before")
    @classmethod
    def _recipe_names(cls, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        return [RecipeSpec.parse(item) if isinstance(item, str) else item for item in value]

    @field_validator("space")
    @classmethod
    def _known_space(cls, name: str) -> str:
        try:
            return space_of(name).name
        except InputError as error:
            raise ValueError(str(error)) from error

    @field_validator("cells")
    @classmethod
    def _known_cells(cls, cells: CellsSpec, info: ValidationInfo) -> CellsSpec:
        space = space_of(info.data.get("space", NB201.name))
        try:
            for name in (*cells.indices, *cells.strings):
                space.find(name)
        except (InputError, ValueError) as error:  # the second: a CellError
            raise ValueError(f"an item of indices or strings: {error}") from error
        if cells.stratified is not None and cells.stratified.strata > space.size:
            raise ValueError(
                f"cells.stratified.strata must be at most {space.size}, got "
                f"{cells.stratified.strata}"
            )
        return cells

    @field_validator("start")
    @classmethod
    def _longer(cls, start: SweepStart | None, info: ValidationInfo) -> SweepStart | None:
        if start is not None and start.epochs >= info.data.get("epochs", math.inf):
            raise ValueError(
                f"the epochs of the sweep ({info.data['epochs']}) include those of start"
                f" ({start.epochs}), so they must be more"
            )
        return start

    @property
    def digest(self) -> str:
        """Hash of the trials of the sweep; settings of jobs and kept files do not count."""
        content = self.model_dump_json(exclude={"slurm": True, "train": True, "start": {"run"}})
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def families(self, chosen: list[Any]) -> Iterator[tuple[Trial, ...]]:
        """Yield the trials of these cells; trials that differ only in their seed come together."""
        if not chosen:
            return
        first = Trial(
            space=self.space,
            cell=chosen[0],
            dataset=self.datasets[0],
            split=self.split,
            recipe=self.recipes[0],
            seed=self.seeds[0],
            epochs=self.epochs,
            skeleton=self.skeleton,
            protocol=self.protocol,
            network=self.network,
            start=self.start and Start(epochs=self.start.epochs, what=self.start.what),
        )
        yield from first.varied(chosen, self.datasets, self.recipes, self.seeds)


@checked
def read_spec(path: str | Path) -> SweepSpec:
    """Read a sweep file; paths in it are relative to its folder."""
    path = Path(path)
    return _beside(parse_spec(_text(path, "the sweep"), str(path)), path.parent)


def read_settings(path: Path) -> dict[str, Any]:
    """Read a part of a sweep file as values by dotted key, for `with_settings`."""
    content = _toml(_text(path, "the settings"), str(path))
    settings: dict[str, Any] = {}
    for key, value in content.items():
        if isinstance(value, dict):
            settings |= {f"{key}.{name}": inner for name, inner in value.items()}
        else:
            settings[key] = value
    return settings


def parse_spec(content: str, name: str = "spec") -> SweepSpec:
    """Validate the text of a sweep file."""
    try:
        return SweepSpec.model_validate(_toml(content, name))
    except ValidationError as error:
        raise _problems(error, name) from error


def _toml(content: str, name: str) -> dict[str, Any]:
    """Parse a text in TOML; or in JSON, the form of a run's ``spec.json`` and of a report."""
    try:
        return json.loads(content) if content.lstrip()[:1] == "{" else tomllib.loads(content)
    except RecursionError as error:
        raise InputError(f"{name} has arrays that are nested too deeply") from error
    except ValueError as error:  # also of a number with thousands of digits
        raise InputError(f"{name} is not TOML: {str(error).partition(';')[0]}") from error


def example(machine: Literal["laptop", "slurm-gpu", "slurm-cpu"] = "laptop") -> str:
    """Return a commented sweep for this machine or for a SLURM cluster.

    A line of the template that begins with ``#NAME:`` is used for machines that begin with NAME.
    """
    template = resources.files(__package__).joinpath("example.toml").read_text()
    marked = re.findall(r"^(?:#([a-z-]+):[ ]?)?(.*\n)", template, flags=re.MULTILINE)
    return "".join(line for name, line in marked if machine.startswith(name))


def parse_setting(text: str) -> tuple[str, Any]:
    """Parse ``KEY=VALUE``: a dotted key of a sweep file, and a TOML value or a bare word."""
    key, equals, value = (part.strip() for part in text.partition("="))
    if not (key and equals):
        raise InputError(f"a setting is KEY=VALUE, such as slurm.partition=gpu, got {text!r}")
    try:
        return key, _toml(f"value = {value}", f"the value of {key}")["value"]
    except InputError as error:
        if not isinstance(error.__cause__, tomllib.TOMLDecodeError):
            raise
        return key, value


def with_settings(spec: SweepSpec, settings: Mapping[str, Any]) -> SweepSpec:
    """Return the sweep with other values of dotted keys, such as ``slurm.partition``."""
    content = spec.model_dump(mode="json")
    for key, value in settings.items():
        place = content
        *parents, last = key.split(".")
        for step in parents:
            if not isinstance(place.get(step), dict):
                place[step] = {}
            place = place[step]
        place[last] = value
    try:
        changed = SweepSpec.model_validate(content)
    except ValidationError as error:
        raise _problems(error, "the command line") from error
    # The places in `spec` are absolute, or names of released tables; only new ones are relative.
    return changed if _places(changed) == _places(spec) else _beside(changed, Path())


def _text(path: Path, what: str) -> str:
    try:
        with path.open("rb") as file:  # possibly a pipe of a shell
            return read_bounded(path, file, _MOST_BYTES).decode()
    except OSError as error:
        raise InputError(
            f"cannot read {what} {path}: {error.strerror}; give the TOML file of a sweep (`rebench"
            " sweep new` writes an example)"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(f"{what} {path} is not text in UTF-8: {error}") from error


def _problems(error: ValidationError, name: str) -> InputError:
    """Return one error with all mistakes of a sweep, one per line."""
    problems, tables = error.errors(), _tables(SweepSpec)
    misspelt = {problem["loc"][:-1] for problem in problems if problem["type"] == "extra_forbidden"}
    found: dict[tuple[int | str, ...], InputError] = {}
    rules: dict[tuple[int | str, ...], list[str]] = {}  # several, if a value may have several types
    for problem in problems:
        *parents, last = problem["loc"]
        if problem["type"] == "extra_forbidden":
            # A part of the key may be a position in a list, or a name that the user chose.
            model = next((tables[step] for step in reversed(parents) if step in tables), SweepSpec)
            known = list(model.model_fields)
            table = f"of [{'.'.join(map(str, parents))}] in {name}" if parents else f"of {name}"
            found[problem["loc"]] = UnknownNameError(f"key {table}", str(last), known)
        elif problem["type"] != "missing" or tuple(parents) not in misspelt:
            # A misspelt key is often also reported as missing; the spelling is more helpful.
            key = tuple(parents) if last in _UNION else problem["loc"]
            rules.setdefault(key, []).append(rule_of(problem))
            first, *others = dict.fromkeys(rules[key])
            rule = " or ".join([first, *(other.removeprefix("must be ") for other in others)])
            told = problem["type"] in ("missing", "value_error")
            given = "" if told else f", got {_SHORT.repr(problem['input'])}"
            where = ".".join(map(str, key))
            if problem["type"] == "list_type":
                given += _as_list(where, problem["input"], name)
            found[key] = InputError(f"{name}: {where}: {rule}{given}")
    error_of_one, *more = found.values()
    return InputError("\n".join(map(str, found.values()))) if more else error_of_one


def _as_list(key: str, given: object, name: str) -> str:
    """Return the remedy for a single value in the place of a list."""
    items: list[object] = [given]
    if isinstance(given, str):  # a shell may have removed the quotes of a list
        items = [part.strip() for part in given.strip("[]").split(",")]
    elif not isinstance(given, int | float):
        return ""
    if name == "the command line":
        return f'; write --set "{key}={items}"'
    return f"; write {key.rpartition('.')[2]} = {items}"


def _tables(model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """Return the model of each table of a sweep file, by its key."""
    tables: dict[str, type[BaseModel]] = {}
    for name, field in model.model_fields.items():
        for nested in _models(field.annotation):
            tables |= {name: nested, **_tables(nested)}
    return tables


def _models(annotation: Any) -> typing.Iterator[type[BaseModel]]:
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        yield annotation
    for part in typing.get_args(annotation):
        yield from _models(part)


def _table(given: Path, folder: Path) -> Path:
    """Return the path of a table; a name without suffix and file stays a name."""
    path = (folder / expanded(given)).absolute()
    before = path.name.rpartition("@")[0] or path.name
    forms = {path.name, before, f"{path.name}.parquet", f"{before}.parquet"}
    is_path = Path(before).suffix or len(given.parts) > 1
    return path if is_path or any(path.with_name(form).exists() for form in forms) else given


def _places(spec: SweepSpec) -> list[Path | None]:
    """Return the run and the tables that a sweep names."""
    choices = (spec.cells.top, spec.cells.stratified)
    tables = [choice.table if choice is not None else None for choice in choices]
    return [spec.start.run if spec.start is not None else None, *tables]


def _beside(spec: SweepSpec, folder: Path) -> SweepSpec:
    changes = {}
    start = spec.start
    if start is not None:
        start = start.model_copy(update={"run": (folder / expanded(start.run)).absolute()})
    for name in ("top", "stratified"):
        choice = getattr(spec.cells, name)
        if choice is not None and choice.table is not None:
            changes[name] = choice.model_copy(update={"table": _table(choice.table, folder)})
    cells = spec.cells.model_copy(update=changes)
    return spec.model_copy(update={"cells": cells, "start": start})
