from .choices import TOP_PERCENT, Choices
from .concordance import MIN_CELLS
from .improvement import improvement_by
from .matrix import tau_matrix
from .paired import Accuracies, Paired, read_accuracies
from .ranking import agreement
from .reranking import Reranking, compare, contrasts, rerank
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
    "contrasts",
    "improvement_by",
    "read_accuracies",
    "rerank",
    "tau_matrix",
]
