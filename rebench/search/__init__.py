"""NAS algorithms that ask and tell on tables with simulated cost."""

from typing import TYPE_CHECKING

from rebench.lazy_package import load_on_demand

if TYPE_CHECKING:
    from rebench.search.base import (
        Problem,
        Query,
        Searcher,
        algorithm_names,
        describe,
        make_searcher,
        register,
    )
    from rebench.search.replay import Budget, Run, paper_budget, replay
    from rebench.search.search_space import SearchSpace
    from rebench.search.tabular import Fidelity, SearchTable, search_table

__all__ = [
    "Budget",
    "Fidelity",
    "Problem",
    "Query",
    "Run",
    "SearchSpace",
    "SearchTable",
    "Searcher",
    "algorithm_names",
    "describe",
    "make_searcher",
    "paper_budget",
    "register",
    "replay",
    "search_table",
]

load_on_demand(__name__)
