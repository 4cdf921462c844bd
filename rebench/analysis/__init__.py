"""Questions asked of tables: how rankings moved, and what noise alone would do."""

from typing import TYPE_CHECKING

from rebench.lazy_package import load_on_demand

if TYPE_CHECKING:
    from rebench.analysis.accuracies import Accuracies, read_accuracies
    from rebench.analysis.choices import TOP_PERCENT, Choices
    from rebench.analysis.concordance import MIN_CELLS
    from rebench.analysis.contrasts import contrasts
    from rebench.analysis.gaps import gap_counts, gaps
    from rebench.analysis.improvement import improvement, improvement_by, regression
    from rebench.analysis.movement import seed_test
    from rebench.analysis.noise import noise_curve, seed_agreement, split_agreement
    from rebench.analysis.ranks import cell_means, rank_agreement, top_cells
    from rebench.analysis.reranking import Reranking, pair, rerank, verdict
    from rebench.analysis.seed_noise import SeedNoise
    from rebench.analysis.study import Study, study

__all__ = [
    "MIN_CELLS",
    "TOP_PERCENT",
    "Accuracies",
    "Choices",
    "Reranking",
    "SeedNoise",
    "Study",
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
    "study",
    "top_cells",
    "verdict",
]

load_on_demand(__name__)
