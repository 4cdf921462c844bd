"""Questions asked of tables: how rankings moved, and what noise alone would do."""

from rebench.analysis.accuracies import Accuracies, Pairing, pair, read_accuracies
from rebench.analysis.gaps import gap_counts, gaps
from rebench.analysis.improvement import contrasts, improvement, improvement_by, regression
from rebench.analysis.movement import seed_test
from rebench.analysis.noise import noise_curve, seed_agreement, split_agreement
from rebench.analysis.ranks import MIN_CELLS, TOP_PERCENT, cell_means, rank_agreement, top_cells
from rebench.analysis.reranking import Reranking, rerank, verdict
from rebench.analysis.seed_noise import SeedNoise

__all__ = [
    "MIN_CELLS",
    "TOP_PERCENT",
    "Accuracies",
    "Pairing",
    "Reranking",
    "SeedNoise",
    "cell_means",
    "contrasts",
    "gap_counts",
    "gaps",
    "improvement",
    "improvement_by",
    "noise_curve",
    "pair",
    "rank_agreement",
    "read_accuracies",
    "regression",
    "rerank",
    "seed_agreement",
    "seed_test",
    "split_agreement",
    "top_cells",
    "verdict",
]
