from .choices import TOP_PERCENT, Choices
from .concordance import MIN_CELLS
from .matrix import tau_matrix
from .paired import Accuracies, Paired, read_accuracies
from .ranking import agreement
from .reranking import Reranking, compare, rerank
from .seed_noise import SeedNoise
from .study import Study

__all__ = [
    "MIN_CELLS",
    "TOP_PERCENT",
    "Accuracies",
    "Choices",
    "Paired",
    "Reranking",
    "SeedNoise",
    "Study",
    "agreement",
    "compare",
    "read_accuracies",
    "rerank",
    "tau_matrix",
]
