"""NAS algorithms that ask and tell on tables with simulated cost."""

from rebench.search import algorithms as _algorithms  # noqa: F401 - registers the algorithms
from rebench.search.base import (
    Problem,
    Query,
    Searcher,
    algorithm_names,
    describe,
    make_searcher,
    register,
)
from rebench.search.replay import Budget, Run, paper_budget, repeat, replay
from rebench.search.space import Space
from rebench.search.table import Fidelity, SearchTable, search_table

__all__ = [
    "Budget",
    "Fidelity",
    "Problem",
    "Query",
    "Run",
    "SearchTable",
    "Searcher",
    "Space",
    "algorithm_names",
    "describe",
    "make_searcher",
    "paper_budget",
    "register",
    "repeat",
    "replay",
    "search_table",
]
