from .choices import TOP_PERCENT, Choices
from .comparing import compare
from .concordance import MIN_CELLS
from .matrix import tau_matrix
from .one_table import Reliability, reliability
from .paired import Accuracies, Paired, read_accuracies
from .ranking import agreement
from .ranks import rank_intervals
from .reranking import Reranking, rerank
from .seed_noise import SeedNoise
from .study import Study

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
