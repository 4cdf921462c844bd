"""The laws behind the recipes, measured, each beside its paper's own figure."""

from rebench.theory.depth import measure_depth_law
from rebench.theory.estimate import Estimate
from rebench.theory.pieces import Pieces
from rebench.theory.result import LawResult, Verdict, load_verdicts, verdict_table

__all__ = [
    "Estimate",
    "LawResult",
    "Pieces",
    "Verdict",
    "load_verdicts",
    "measure_depth_law",
    "verdict_table",
]
