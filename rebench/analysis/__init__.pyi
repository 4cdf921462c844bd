from .cell_ranks import rank_intervals
from .choices import TOP_PERCENT, Choices
from .comparing import compare
from .matrix import tau_matrix
from .one_table import Reliability, reliability
from .paired import Accuracies, Paired, read_accuracies
from .result import Reranking, rerank
from .seed_noise import SeedNoise
from .seed_tau import agreement
from .study import Study
from .tau import MIN_CELLS

__all__ = [
    "MIN_CELLS",
    "TOP_PERCENT",
    "Accuracies",
    "Choices",
    "Paired",
    "Reliability",
    "Reranking",
    "SeedNoise",
    "Study",
    "agreement",
    "compare",
    "rank_intervals",
    "read_accuracies",
    "reliability",
    "rerank",
    "tau_matrix",
]
