"""Do rules for the rate hold for cells with batch normalisation? Maximal rates of many cells.

Figure 4 of Chen et al. sets every cell's rate by equation 8, and shows no maximal rate of a cell:
here they are searched for, by one epoch at every rate, and held against every rule and a constant.
It takes hours on a processor; every finished cell is kept, so that it can go on at any time.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from rebench.theory.cell_lr import CellSettings, measure_cells
from rebench.theory.images import load_small_images
from rebench.theory.pieces import Pieces
from rebench.theory.predictors import PERFECT
from rebench.theory.rate_experiments import score_experiment
from rebench.theory.rate_verdicts import rule_verdict
from rebench.theory.result import LawResult

__all__ = ["FULL", "QUICK", "CellLawSettings", "measure_cell_law"]

LAW = "cells with batch normalisation (Chen et al., figure 4)"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CellLawSettings:
    """Cells, their networks and epochs, and what they are trained on."""

    cells: CellSettings
    dataset: str | None = None
    data_root: Path | None = None
    device: str = "cpu"
    seed: int = 0


FULL = CellLawSettings(
    cells=CellSettings(
        cells=120, channels=8, cells_per_stage=1, side=16, batch_size=128, steps=96, n_lrs=12
    )
)
QUICK = CellLawSettings(cells=CellSettings(cells=6, channels=4, steps=6, n_lrs=6, seeds=2))


def measure_cell_law(settings: CellLawSettings = FULL, pieces: Pieces | None = None) -> LawResult:
    """Measure the maximal rates of cells, and score every rule on them."""
    images = load_small_images(settings.dataset, settings.data_root, limit=None)
    images = dataclasses.replace(
        images, pixels=images.pixels.to(settings.device), labels=images.labels.to(settings.device)
    )
    frame = measure_cells(settings.cells, images, pieces or Pieces(), settings.seed)
    scores = score_experiment(frame, np.random.default_rng(settings.seed))
    cells = settings.cells
    steps = min(cells.steps, len(images.labels) // cells.batch_size)
    said = (
        f"{len(frame)} cells, {images.name} {cells.side}x{cells.side}, {cells.channels} channels, "
        f"{cells.cells_per_stage} cell a stage, {steps} steps of {cells.batch_size}, "
        f"{cells.seeds} seeds"
    )
    rules = [name for name in scores["predictor"] if name not in ("constant", PERFECT)]
    verdicts = tuple(
        rule_verdict(law=LAW, rule=rule, scores=scores, settings=said) for rule in rules
    )
    return LawResult(law="cells", tables={"rates": frame, "predictors": scores}, verdicts=verdicts)
