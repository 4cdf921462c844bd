"""Interface of a search algorithm: it selects cells to train and receives their accuracies.

To add an algorithm, write one file in this folder with a class like those in `random` or
`evolution`, decorated with `@register("name")`. Another package does the same, and names its module
as an entry point of the group ``rebench.algorithms``; a script imports its file. Budgets, cost,
repeats, statistics, figures and the command line use the registry.

The algorithms are not taken from a library: those of Syne Tune are asynchronous schedulers over
simulated workers, with several dozen dependencies. Here a run only reads the table, which is fast.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from rebench.arguments import checked
from rebench.errors import InputError, UnknownNameError
from rebench.extensions import announced, import_modules
from rebench.search.search_space import SearchSpace

__all__ = [
    "Problem",
    "Query",
    "Searcher",
    "algorithm_names",
    "describe",
    "make_searcher",
    "register",
]


class Query(NamedTuple):
    """A request to train one cell: its position in the space, and the level of the fidelity."""

    position: int
    level: int


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Facts that an algorithm may use before it begins.

    Attributes:
        space: the cells to choose from.
        epochs: the epochs of each fidelity, ascending; the level of a query is a position in it.
        signal: the level that algorithms with a single fidelity use.
        scores: features of each cell that need no training here, (cells, proxies), or None.
    """

    space: SearchSpace
    epochs: tuple[int, ...]
    signal: int
    scores: NDArray[np.float64] | None = None


class Searcher(ABC):
    """State of an algorithm during a run. `ask` can always be called; the caller ends the run.

    Attributes:
        name: the registered name of the algorithm.
    """

    name: ClassVar[str]

    def __init__(self, problem: Problem, generator: np.random.Generator) -> None:
        self.problem = problem
        self.space = problem.space
        self.generator = generator

    @abstractmethod
    def ask(self) -> Query:
        """Return the next cell to train, and its fidelity."""

    @abstractmethod
    def tell(self, query: Query, value: float) -> None:
        """Receive the accuracy (percent) of the last query."""


AnySearcher = TypeVar("AnySearcher", bound=type[Searcher])

_REGISTRY: dict[str, type[Searcher]] = {}


@checked
def register(name: str) -> Callable[[AnySearcher], AnySearcher]:
    """Register an algorithm under `name`."""

    def add(searcher: AnySearcher) -> AnySearcher:
        known = _REGISTRY.get(name, searcher)
        if (known.__module__, known.__qualname__) != (searcher.__module__, searcher.__qualname__):
            raise InputError(f"two algorithms are called {name!r}; give one another name")
        searcher.name = name
        _REGISTRY[name] = searcher
        return searcher

    return add


def algorithm_names() -> list[str]:
    """Return the names of all algorithms: first those of this package, then those of others."""
    return list(_known())


@checked
def describe(name: str) -> str:
    """Return the first line of an algorithm's docstring."""
    return (_find(name).__doc__ or "").strip().splitlines()[0]


@checked
def make_searcher(
    name: str,
    problem: Problem,
    generator: np.random.Generator,
    options: Mapping[str, float] | None = None,
) -> Searcher:
    """Return a new run of the algorithm `name`.

    Args:
        name: a registered name.
        problem: facts that the algorithm may use.
        generator: its only source of randomness.
        options: keyword arguments of its constructor, such as ``{"sample": 5}``.
    """
    searcher = _find(name)
    try:
        return searcher(problem, generator, **(options or {}))
    except TypeError as error:
        valid = ", ".join([*inspect.signature(searcher).parameters][2:]) or "none"
        raise InputError(f"{name} does not take these options: {error}; valid: {valid}") from error


def _find(name: str) -> type[Searcher]:
    algorithms = _known()
    if name not in algorithms:
        hint = (
            ". An own algorithm is found if its file is imported before, or if an installed "
            "package names it as an entry point (docs/how-to/extend.md)"
        )
        raise UnknownNameError("algorithm", name, algorithms, hint)
    return algorithms[name]


def _known() -> Mapping[str, type[Searcher]]:
    """Return all algorithms by name: ours in alphabetical order, then those of other packages."""
    import_modules("rebench.search")
    announced("algorithms")

    def place(name: str) -> tuple[bool, str]:
        return not _REGISTRY[name].__module__.startswith("rebench.search."), name

    return {name: _REGISTRY[name] for name in sorted(_REGISTRY, key=place)}
