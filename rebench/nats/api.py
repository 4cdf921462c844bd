"""`ReBench`: the calls of ``nats_bench``'s topology API, answered from tables.

It is a subclass of the package's class. The most frequent calls are answered from the tables'
arrays, the others by the package's code over objects that are made when needed. Defaults are those
of the package: 12 epochs (`hp`) and a random seed (`is_random`).
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from nats_bench.api_topology import NATStopology
from nats_bench.api_utils import remap_dataset_set_names
from numpy.typing import NDArray

from cells import SPACE_SIZE, Cell, all_cells
from rebench.arguments import checked
from rebench.data import BENCHMARK
from rebench.errors import InputError, MissingDataError
from rebench.nats import searchable
from rebench.nats.choice import Choice
from rebench.nats.fastpath import Values
from rebench.nats.packaged import package_results
from rebench.tables.opening import open_table
from rebench.tables.table import Table

__all__ = ["NotHeldError", "ReBench", "create"]

_package_results: Final = functools.lru_cache(maxsize=64)(package_results)
_values: Final = functools.lru_cache(maxsize=64)(Values)
_SIMULATED: Final = ("cifar10", "cifar100", "ImageNet16-120")
_COMMENT: Final = (
    "In this dict, train-loss/accuracy/time is the metric on the {trained} of CIFAR-10. The "
    "test-loss/accuracy/time is the performance of the CIFAR-10 test set after training on the "
    "{trained} by {hp} epochs. The per-time and total-time indicate the per epoch and total time "
    "costs, respectively."
)


class NotHeldError(MissingDataError, KeyError):
    """Error for a value that the tables do not have; a KeyError, as in the package."""

    __str__ = Exception.__str__  # the text of a KeyError would be in quotes


class _Info(dict[str, Any]):
    """The metrics of a cell; an error names the metric that the table does not have."""

    def __init__(self, held: Mapping[str, Any], lacking: str) -> None:
        super().__init__(held)
        self._lacking = lacking

    def __missing__(self, name: str) -> Any:
        known = ", ".join(key for key in self if key != "comment")
        raise NotHeldError(f"{self._lacking.format(name=name)}; it has {known}")


class _Results(Mapping[int, Mapping[str, Any]]):
    """``arch2infos_dict``: the package's objects of a cell, made at the first query."""

    def __init__(self, choice: Choice) -> None:
        self._choice = choice

    @functools.cached_property
    def held(self) -> frozenset[int]:
        """Indices of the cells that at least one table contains."""
        return frozenset(self._choice.cells.tolist())

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        if index not in self.held:
            raise KeyError(index)
        return _package_results(int(index), self._choice)  # 303.0 == 303, as in any dict

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self.held))

    def __len__(self) -> int:
        return len(self.held)


class ReBench(NATStopology):  # type: ignore[misc]  # the package is untyped
    """The benchmark's API for a published table, a re-trained table, or both.

    A metric that no table has is absent from an answer; its key raises `NotHeldError` (a KeyError),
    which names the metric. A missing value is NaN, a missing time is None. The package's texts
    about a cell show NaN for absent metrics.

    A mean over unknown seeds is not a trial. If the table has trials of the same data set and
    number of epochs, such means are returned with ``is_random=False`` only. Otherwise the mean is
    the only trial of a cell, with the seed -1. For example, `nb201` has only means of ``cifar10``.

    If the run has a record, its values are returned, otherwise the published values; see
    `source_of`. A table with a run of each network with a path answers for cells that it lacks
    with the runs of an equal cell (`rebench.tables.whole_space`), or with the accuracy of chance
    for cells without a path (`rebench.nats.searchable.with_chance`). Values that search scripts
    need and that no table has are replaced (`rebench.nats.searchable.for_search`); `filename`
    lists the replacements.

    Args:
        published: the benchmark: a table, its path, or the name of a released table (`nb201`).
        retrained: a run: a table, its folder or its ``results.parquet``; ``@RECIPE`` may follow.
        recipe: recipe to take from a run with several recipes.
        dataset_as: other names of the run's data sets (or of the only table's), such as
            ``{"cifar10-jpeg16": "cifar10"}`` for scripts that know the benchmark's names only.
        verbose: print every call, as the package does.
    """

    @checked
    def __init__(
        self,
        published: Table | str | Path | None = None,
        retrained: Table | str | Path | None = None,
        *,
        recipe: str | None = None,
        dataset_as: Mapping[str, str] | None = None,
        verbose: bool = False,
    ) -> None:
        given = [_opened(published), _opened(retrained, recipe)]
        opened = list(given)
        last = given[1] or given[0]
        if dataset_as and last:
            opened[given.index(last)] = searchable.renamed(last, dataset_as)
        self._choice = Choice(published=opened[0], retrained=opened[1])
        empty: dict[str, Any] = {"meta_archs": [], "arch2infos": {}, "evaluated_indexes": []}
        super().__init__(empty, fast_mode=False, verbose=False)
        del self.meta_archs, self.archstr2index  # made at their first use
        self.verbose = verbose
        self.filename = " and ".join(
            own.full_name + table.name.removeprefix(own.name)  # and its replacements
            for own, table in zip(filter(None, reversed(given)), self._choice.tables, strict=True)
        )
        self.arch2infos_dict = _Results(self._choice)
        self._avaliable_hps = {str(epochs) for epochs in self._choice.epochs}

    def __len__(self) -> int:
        return SPACE_SIZE

    @functools.cached_property
    def meta_archs(self) -> list[str]:
        """The architecture string of every cell."""
        return list(_arch_strings())

    @functools.cached_property
    def archstr2index(self) -> dict[str, int]:
        """The index of every architecture string."""
        return {arch: index for index, arch in enumerate(_arch_strings())}

    @property
    def evaluated_indexes(self) -> set[int]:
        """Indices of the cells that at least one table contains; the name is the package's."""
        return set(self.arch2infos_dict.held)

    @evaluated_indexes.setter
    def evaluated_indexes(self, _: object) -> None:
        """Ignore the value that the package's loading code sets."""

    def source_of(self, arch: int | str, dataset: str, hp: int | str = "12") -> str:
        """Return the source of a cell's values: ``published``, ``retrained`` or another origin."""
        index = Cell.find(arch).index
        known = str(hp) in self._avaliable_hps
        table = self._choice.table(index, dataset, int(hp)) if known else None
        if table is None:
            raise NotHeldError(self._lacking(arch, dataset, hp))
        return table.origin

    def _lacking(self, what: object, dataset: object, hp: object) -> str:
        """Return the message for values that no table has."""
        held: dict[str, list[str]] = {}
        for key in sorted(self._choice.keys):
            lengths = held.setdefault(key.dataset, [])
            if str(key.epochs) not in lengths:
                lengths.append(str(key.epochs))
        told = "; ".join(f"{name} with hp {', '.join(hps)}" for name, hps in held.items())
        return f"no table contains {what} for dataset {dataset!r} with hp {hp!r}; there are {told}"

    @contextlib.contextmanager
    def _naming_what_is_held(self, dataset: object, hp: object) -> Iterator[None]:
        """Add the available data sets and epochs to a bare KeyError of the package's code."""
        try:
            yield
        except NotHeldError:
            raise
        except KeyError as error:
            raise KeyError(self._lacking("values", dataset, hp)) from error

    def get_more_info(
        self,
        index: Any,
        dataset: str,
        iepoch: int | None = None,
        hp: int | str = "12",
        is_random: bool | int = True,
    ) -> dict[str, Any]:
        """Return the metrics of a cell, with the package's keys."""
        number = int(self.query_index_by_arch(index))
        values = self._find(number, dataset, hp)
        if values is None:
            with self._naming_what_is_held(dataset, hp):
                return super().get_more_info(index, dataset, iepoch, hp, is_random)
        answer = None
        if iepoch in (None, values.epochs - 1):
            if not self.verbose or not values.has_training:
                answer = values.more_info(number, is_random, _comment(dataset, hp))
        elif 0 <= iepoch < values.epochs and not values.table.has_curves:
            raise NotHeldError(
                f"iepoch asks for a curve, and {values.table.name} has no file of curves; ingest "
                f"the benchmark with curves, or keep a run's curves.parquet next to its results"
            )
        if answer is None:
            with self._naming_what_is_held(dataset, hp):
                given = super().get_more_info(index, dataset, iepoch, hp, is_random)
            answer = {}
            for name, value in given.items():
                if values.lacks(name):
                    continue
                answer[name] = value
                if name.endswith("-time") and value != value:  # NaN
                    answer[name] = None
        if is_random is False and iepoch is None:
            answer |= values.means_info(number)
        return _Info(answer, f"{values.table.name} has no {{name}} of {dataset} with hp {hp!r}")

    def simulate_train_eval(
        self,
        arch: Any,
        dataset: str,
        iepoch: int | None = None,
        hp: int | str = "12",
        account_time: bool = True,
    ) -> tuple[float, float | None, float, float]:
        """Return validation accuracy (percent), latency, cost and the cost so far (seconds).

        The cost is the time of training and validation. It is added to the cost so far if
        `account_time` is True. The latency is None if it was not measured.
        """
        known = list(_SIMULATED)
        known += [name for name in self._choice.datasets if name not in BENCHMARK]
        if dataset not in known:
            raise ValueError(f"Invalid dataset name : {dataset} vs {tuple(known)}")
        index = self.query_index_by_arch(arch)
        if index not in self.arch2infos_dict.held:
            raise ValueError(
                f"Did not find {index} from arch2infos_dict: {self.filename} has "
                f"{len(self.arch2infos_dict)} of {SPACE_SIZE} cells. A script that draws from all "
                f"cells needs all. `api.evaluated_indexes` lists the cells of the table; "
                f"`rebench search run` draws from them"
            )
        trained = "cifar10-valid" if dataset == "cifar10" else dataset
        info = self.get_more_info(index, trained, iepoch, hp)
        if "valid-accuracy" in info or "valtest-accuracy" not in info:
            accuracy, evaluated = info["valid-accuracy"], info["valid-per-time"]
        else:
            accuracy = info["valtest-accuracy"]
            evaluated = self.get_more_info(index, dataset, None, hp)["valid-per-time"]
        trained_seconds = info["train-all-time"]
        if trained_seconds is None:
            raise NotHeldError(f"{self.filename} has no train-all-time of {trained}")
        # The time of a run's training includes its evaluations, so they add nothing.
        seconds = trained_seconds + (evaluated or 0.0)
        if account_time:
            self._used_time += seconds
        latency = self.get_latency(index, dataset, hp)
        return accuracy, latency, seconds, self._used_time

    def get_cost_info(self, index: int, dataset: str, hp: int | str = "12") -> dict[str, Any]:
        """Return MFLOPs, millions of parameters, latency and times (s) by the package's keys."""
        if isinstance(index, int | np.integer) and not self.verbose:
            values = self._find(int(index), dataset, hp)  # True is cell 1, as in the package
            if values is not None:
                return values.cost_info(int(index))
        with self._naming_what_is_held(dataset, hp):
            return super().get_cost_info(index, dataset, hp)

    def query_meta_info_by_index(self, arch_index: int, hp: int | str = "12") -> Any:
        """Return the package's object of a cell, newly made, as the package returns a copy."""
        if arch_index in self.arch2infos_dict and not self.verbose:
            made = package_results(int(arch_index), self._choice, hp=str(hp))
            if made:
                return made[str(hp)]
        return super().query_meta_info_by_index(arch_index, hp)

    def _query_info_str_by_arch(
        self, arch: Any, hp: str = "12", print_information: Callable[..., list[str]] | None = None
    ) -> str | None:
        if print_information is not None and hp in self._avaliable_hps and not self.verbose:
            index = self.query_index_by_arch(arch)
            if index in self.arch2infos_dict:
                # The text contains no time.
                made = package_results(int(index), self._choice, hp=hp, only_end=True)
                if made:
                    return "\n".join(print_information(made[hp], f"arch-index={index}"))
        text: str | None = super()._query_info_str_by_arch(arch, hp, print_information)
        return text

    def find_best(
        self,
        dataset: str,
        metric_on_set: str,
        flop_max: float | None = None,
        param_max: float | None = None,
        hp: Any = "12",
        enforce_all: bool | None = None,
    ) -> tuple[int, float | None]:
        """Return index and mean accuracy of the best cell within the limits.

        A cell without a value is an error, as in the package; diverged cells are skipped.
        """
        if enforce_all:
            raise AssertionError("enforce_all=True asks for fast_mode=True, and tables have none")
        flop_max = math.inf if flop_max is None else flop_max
        param_max = math.inf if param_max is None else param_max
        dataset, split = remap_dataset_set_names(dataset, metric_on_set, self.verbose)
        split = "x-valid" if split == "valid" else split
        accuracy: NDArray[np.float64] = np.full(SPACE_SIZE, np.nan)
        plain = np.zeros(SPACE_SIZE, dtype=bool)
        for cells, values in self._of_tables(dataset, hp):
            within = ~((values.flops > flop_max) | (values.params > param_max))
            accuracy[cells & within] = values.mean_accuracy(split)[cells & within]
            plain[cells] = values.is_plain(split)[cells]
        # Other cases are answered by the package's objects, or by their error.
        for index in self._choice.cells[~plain[self._choice.cells]].tolist():
            with self._naming_what_is_held(dataset, hp):
                results = self.arch2infos_dict[index][hp]
                costs = results.get_compute_costs(dataset)
            accuracy[index] = np.nan
            if not (costs["flops"] > flop_max or costs["params"] > param_max):
                accuracy[index] = results.get_metrics(dataset, split)["accuracy"]
        if np.isnan(accuracy).all():
            return -1, None
        best = int(np.nanargmax(accuracy))
        return best, float(accuracy[best])

    def statistics(self, dataset: str, hp: int | str) -> dict[int, int]:
        """Return the number of cells by their number of trials of a data set."""
        choice, hp = self._choice, str(hp)
        if dataset not in (*BENCHMARK, *choice.datasets):
            raise ValueError(f"{dataset} not in {list(BENCHMARK)}")
        if hp not in self._avaliable_hps:
            raise KeyError(self._lacking("trials", dataset, hp))
        counts = np.zeros(SPACE_SIZE, dtype=np.int64)
        for cells, values in self._of_tables(dataset, hp):
            counts[cells] = values.n[cells]
        trials, cells_with = np.unique(counts[choice.cells], return_counts=True)
        return dict(zip(trials.tolist(), cells_with.tolist(), strict=True))

    def _of_tables(self, dataset: str, hp: Any) -> list[tuple[NDArray[np.bool_], Values]]:
        """Return the cells of each table with its arrays; empty for another `hp`."""
        if hp not in self._avaliable_hps:
            return []
        which = self._choice.which(dataset, int(hp))
        found = []
        for number, table in enumerate(self._choice.tables):
            if (which == number).any():
                found.append((which == number, _values(table, dataset, int(hp))))
        return found

    def reload(self, archive_root: str | None = None, index: int | None = None) -> None:
        """Raise an error: answers come from tables, not from a folder of the package's files."""
        raise InputError(
            f"ReBench reads no folder of pickles (archive_root={archive_root!r}, index={index}); "
            f"ingest it and open the table"
        )

    def _find(self, index: int, dataset: str, hp: int | str) -> Values | None:
        """Return the arrays with the answer, or None if the package's code raises the error."""
        text = str(hp)
        if text not in self._avaliable_hps or not 0 <= index < SPACE_SIZE:
            return None
        table = self._choice.table(index, dataset, int(text))
        return None if table is None else _values(table, dataset, int(text))


@checked
def create(
    file_path_or_dict: str | Path,
    search_space: str = "tss",
    fast_mode: bool = False,  # noqa: ARG001 - the package's signature
    verbose: bool = True,
    *,
    dataset_as: Mapping[str, str] | None = None,
) -> ReBench:
    """Open a table as ``nats_bench.create`` opens the benchmark.

    Args:
        file_path_or_dict: an ingested table, or a run's folder or ``results.parquet``.
        search_space: ``tss`` or ``topology``; no other.
        fast_mode: accepted and not needed.
        verbose: print every call, as the package does.
        dataset_as: as for `ReBench`.
    """
    if search_space not in ("tss", "topology"):
        raise InputError(f"search_space must be 'tss' or 'topology', got {search_space!r}")
    table = open_table(file_path_or_dict)
    tables = (None, table) if table.origin == "retrained" else (table, None)
    return ReBench(*tables, dataset_as=dataset_as, verbose=verbose)


def _opened(table: Table | str | Path | None, recipe: str | None = None) -> Table | None:
    if table is None:
        return None
    return table if isinstance(table, Table) else open_table(table, recipe=recipe)


@functools.cache
def _arch_strings() -> tuple[str, ...]:
    return tuple(map(str, all_cells()))


@functools.lru_cache(maxsize=16)
def _comment(dataset: str, hp: int | str) -> str | None:
    trained = {"cifar10": "train+valid sets", "cifar10-valid": "train set"}.get(dataset)
    return trained and _COMMENT.format(trained=trained, hp=hp)
