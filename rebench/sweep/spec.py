"""SweepSpec: what a sweep's TOML file says, validated; unknown keys name the nearest known one."""

from __future__ import annotations

import hashlib
import inspect
import itertools
import sys
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from cells import Cell, CellError
from rebench.errors import InputError, UnknownNameError
from rebench.sweep.trial import Plain, Protocol, RecipeSpec, Skeleton, Trial

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]  # Python 3.10 alone

__all__ = [
    "EXAMPLE",
    "CellsSpec",
    "RandomCells",
    "SlurmOptions",
    "StratifiedCells",
    "SweepSpec",
    "TableColumn",
    "TopCells",
    "parse_spec",
    "read_spec",
    "with_options",
]

Percent = Annotated[float, Field(gt=0, le=100)]


class RandomCells(Plain):
    """`n` cells drawn without replacement, every cell as likely as any other."""

    n: Annotated[int, Field(ge=1)]
    seed: Annotated[int, Field(ge=0)] = 0


class TableColumn(Plain):
    """Which accuracies of a table a choice looks at: the mean over seeds of this group."""

    table: Path | None = None
    dataset: str = "cifar10"
    split: str = "ori-test"
    epochs: int = 200


class StratifiedCells(TableColumn):
    """`n` cells, equally many from each of `strata` equal shares of the space in some order."""

    n: Annotated[int, Field(ge=1)]
    seed: Annotated[int, Field(ge=0)] = 0
    strata: Annotated[int, Field(ge=1)] = 10
    by: Literal["accuracy", "multiplier"] = "accuracy"


class TopCells(TableColumn):
    """The best cells of a table: a number of them or a percentage of the table."""

    n: Annotated[int, Field(ge=1)] | None = None
    percent: Percent | None = None

    @model_validator(mode="after")
    def _one_of(self) -> TopCells:
        if (self.n is None) == (self.percent is None):
            raise ValueError("top needs one of n and percent")
        return self


class CellsSpec(Plain):
    """Which cells: the union of every choice given, then by functional class."""

    indices: list[int] = Field(default_factory=list)
    strings: list[str] = Field(default_factory=list)
    random: RandomCells | None = None
    stratified: StratifiedCells | None = None
    top: TopCells | None = None
    all: bool = False
    classes: Literal["as given", "one of each", "every member"] = "as given"

    @field_validator("indices", "strings")
    @classmethod
    def _known(cls, names: list[Any]) -> list[Any]:
        try:
            for name in names:
                Cell.find(name)
        except CellError as error:
            raise ValueError(str(error)) from error
        return names

    @model_validator(mode="after")
    def _some(self) -> CellsSpec:
        if not any((self.indices, self.strings, self.random, self.stratified, self.top, self.all)):
            raise ValueError(
                "no cells: give indices, strings, random, stratified, top or all = true"
            )
        return self


class SlurmOptions(Plain):
    """How a job of the sweep is asked for, in SLURM's words."""

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    exclude: str | None = None
    nodelist: str | None = None
    gpus_per_task: Annotated[int, Field(ge=0)] | None = None
    cpus_per_task: Annotated[int, Field(ge=1)] | None = None
    # So many workers share one job and its GPUs, and divide its trials among themselves.
    processes_per_job: Annotated[int, Field(ge=1, le=64)] = 1
    mem_gb: Annotated[float, Field(gt=0)] | None = None
    time_min: Annotated[int, Field(ge=1)] = 240
    signal_delay_s: Annotated[int, Field(ge=1)] = 120
    array_parallelism: Annotated[int, Field(ge=1)] = 64
    max_requeues: Annotated[int, Field(ge=0)] = 20
    checkpoint_min: Annotated[float, Field(gt=0)] = 10.0
    device: str = "auto"
    # Switches of the trainer, which have to suit the device; rebench/train/README.md.
    compile_net: bool = False
    cuda_graphs: bool = False
    setup: list[str] = Field(default_factory=list)
    container_image: str | None = None
    comment: str | None = None
    extra: dict[str, str | int | bool] = Field(default_factory=dict)

    @field_validator("cuda_graphs")
    @classmethod
    def _on_a_gpu(cls, value: bool, info: ValidationInfo) -> bool:
        if value and info.data.get("device") == "cpu":
            raise ValueError("CUDA graphs need a GPU, and device is 'cpu'; leave one of them out")
        return value


class SweepSpec(Plain):
    """A sweep: the product of its cells, data sets, recipes and seeds, all trained alike."""

    cells: CellsSpec
    datasets: Annotated[list[str], Field(min_length=1)]
    recipes: Annotated[list[RecipeSpec], Field(min_length=1)]
    seeds: Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(min_length=1)]
    epochs: Annotated[int, Field(ge=1, le=100_000)] = 200
    split: str = "full"
    stack: Annotated[int, Field(ge=1)] = 1
    network: Literal["rebench", "xautodl"] = "rebench"
    skeleton: Skeleton = Skeleton()
    protocol: Protocol = Protocol()
    slurm: SlurmOptions = SlurmOptions()

    @field_validator("recipes", mode="before")
    @classmethod
    def _recipe_names(cls, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        return [RecipeSpec.parse(item) if isinstance(item, str) else item for item in value]

    @property
    def digest(self) -> str:
        """A hash of what is to be trained; how it is to be scheduled does not count."""
        content = self.model_dump_json(exclude={"slurm"})
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def trials(self, chosen: list[Cell]) -> list[Trial]:
        """Return the trials on these cells; those of one cell stand together."""
        return [
            Trial(
                cell=cell,
                dataset=dataset,
                split=self.split,
                recipe=recipe,
                seed=seed,
                epochs=self.epochs,
                skeleton=self.skeleton,
                protocol=self.protocol,
                network=self.network,
            )
            for cell, dataset, recipe, seed in itertools.product(
                chosen, self.datasets, self.recipes, self.seeds
            )
        ]


def read_spec(path: Path) -> SweepSpec:
    """Read a sweep's TOML file; tables it names are looked for beside it."""
    try:
        content = path.read_text()
    except OSError as error:
        raise InputError(f"cannot read the sweep {path}: {error.strerror}") from error
    spec = parse_spec(content, str(path))
    return _beside(spec, path.parent)


def parse_spec(content: str, name: str = "spec") -> SweepSpec:
    """Validate the text of a sweep's TOML file."""
    try:
        return SweepSpec.model_validate(tomllib.loads(content))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{name} is not TOML: {error}") from error
    except ValidationError as error:
        raise _first_problem(error, name) from error


def with_options(spec: SweepSpec, given: Mapping[str, object]) -> SweepSpec:
    """Return the sweep with the options of its jobs that the command line gives; None is not."""
    changes = {name: value for name, value in given.items() if value is not None}
    try:
        options = SlurmOptions.model_validate({**spec.slurm.model_dump(), **changes})
    except ValidationError as error:
        raise _first_problem(error, "the command line") from error
    return spec.model_copy(update={"slurm": options})


def _first_problem(error: ValidationError, name: str) -> InputError:
    # A misspelt key is often also a missing one; the spelling is what helps.
    problem = min(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
    *parents, last = problem["loc"]
    if problem["type"] == "extra_forbidden":
        model = _model_at(SweepSpec, parents)
        place = f"of [{'.'.join(map(str, parents))}] in {name}" if parents else f"of {name}"
        known = [] if model is None else list(model.model_fields)
        return UnknownNameError(f"key {place}:", str(last), known)
    message = problem["msg"].removeprefix("Value error, ")
    given = "" if problem["type"] in ("missing", "value_error") else f", got {problem['input']!r}"
    return InputError(f"{name}: {'.'.join(map(str, problem['loc']))}: {message}{given}")


def _model_at(model: type[BaseModel], steps: list[int | str]) -> type[BaseModel] | None:
    """Return the model that the place `steps` in a spec is validated by."""
    for step in steps:
        if isinstance(step, int):
            continue
        field = model.model_fields.get(step)
        nested = [] if field is None else list(_models(field.annotation))
        if not nested:
            return None
        model = nested[0]
    return model


def _models(annotation: Any) -> typing.Iterator[type[BaseModel]]:
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        yield annotation
    for part in typing.get_args(annotation):
        yield from _models(part)


def _beside(spec: SweepSpec, folder: Path) -> SweepSpec:
    changes = {}
    for name in ("top", "stratified"):
        choice = getattr(spec.cells, name)
        if choice is not None and choice.table is not None:
            changes[name] = choice.model_copy(
                update={"table": (folder / choice.table.expanduser()).absolute()}
            )
    return spec.model_copy(update={"cells": spec.cells.model_copy(update=changes)})


EXAMPLE = """\
# A sweep: every cell x data set x recipe x seed below is one trial.
# rebench sweep check SPEC lists the trials, rebench sweep plan SPEC their cost,
# rebench submit SPEC --cluster slurm sends them.

datasets = ["digits"]          # rebench data list
seeds = [777, 888, 999]
epochs = 12
split = "full"                 # train on all, test on ori-test
stack = 3                      # train up to so many trials of one cell as one network
network = "rebench"            # or "xautodl", the benchmark's own code

# rebench recipe list; parameters as `rebench recipe show` names them
recipes = ["nb201", "topology"]
# recipes = [{ name = "topology", parameters = { degree = "target" } }]

[cells]                        # the union of what is given
indices = [11, 284]
# strings = ["|nor_conv_3x3~0|+|none~0|skip_connect~1|+|avg_pool_3x3~0|none~1|nor_conv_1x1~2|"]
random = { n = 8, seed = 0 }
# stratified = { n = 100, by = "accuracy", strata = 10, seed = 0, table = "nb201.parquet" }
# stratified = { n = 100, by = "multiplier" }
# top = { percent = 5, table = "nb201.parquet", dataset = "cifar10", split = "ori-test" }
# all = true
classes = "as given"           # or "one of each" functional class, or "every member"

[skeleton]
channels = 16
cells_per_stage = 5

[protocol]                     # the benchmark's, unless said here
# batch_size = 256
# precision = "bf16"

[slurm]                        # every option is also a flag of `rebench submit`
# partition = "gpu"
# account = "my-project"
gpus_per_task = 1
cpus_per_task = 4
# processes_per_job = 3        # so many workers share a job's GPU; cpus_per_task is for each
mem_gb = 16
time_min = 240                 # jobs are packed to end within this, with a margin
checkpoint_min = 10            # what a killed job loses at most
array_parallelism = 64
# cuda_graphs = true           # replay steps on a GPU: small networks are mostly launches
# compile_net = true           # torch.compile, minutes for every network
# setup = ["module load cuda"]
# container_image = "rebench.sif"
# extra = { reservation = "mine" }    # any other option of sbatch
"""
