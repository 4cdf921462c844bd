from .base import Problem, Query, Searcher, algorithm_names, describe, make_searcher, register
from .comparison import Compared, compare
from .proxies import image_batch, net_proxy_scores, rate_proxies
from .run import Budget, Trajectory, paper_budget, replay
from .search_space import SearchSpace
from .tabular import Fidelity, SearchTable, search_table

__all__ = [
    "Budget",
    "Compared",
    "Fidelity",
    "Problem",
    "Query",
    "SearchSpace",
    "SearchTable",
    "Searcher",
    "Trajectory",
    "algorithm_names",
    "compare",
    "describe",
    "image_batch",
    "make_searcher",
    "net_proxy_scores",
    "paper_budget",
    "rate_proxies",
    "register",
    "replay",
    "search_table",
]
