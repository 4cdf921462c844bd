"""The laws behind the recipes, measured, each beside its paper's own figure."""

from typing import TYPE_CHECKING

from rebench.lazy_package import load_on_demand

if TYPE_CHECKING:
    from rebench.intervals import Estimate
    from rebench.theory.alignment import measure_alignment_law
    from rebench.theory.am_mup import measure_am_mup_law
    from rebench.theory.bafu import measure_feature_updates, spectral_moments
    from rebench.theory.cell_law import measure_cell_law
    from rebench.theory.dag import measure_dag_law
    from rebench.theory.depth import measure_depth_law
    from rebench.theory.pieces import Pieces
    from rebench.theory.released import measure_released_law
    from rebench.theory.result import (
        LawResult,
        Verdict,
        load_results,
        load_verdicts,
        verdict_table,
    )
    from rebench.theory.speed import measure_speed_law

__all__ = [
    "Estimate",
    "LawResult",
    "Pieces",
    "Verdict",
    "load_results",
    "load_verdicts",
    "measure_alignment_law",
    "measure_am_mup_law",
    "measure_cell_law",
    "measure_dag_law",
    "measure_depth_law",
    "measure_feature_updates",
    "measure_released_law",
    "measure_speed_law",
    "spectral_moments",
    "verdict_table",
]

load_on_demand(__name__)
