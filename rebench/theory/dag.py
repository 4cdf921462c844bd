"""The architecture-aware rule of Chen et al. (2024), measured from its parts to its predictions.

Init (which in-degree keeps the signal), one step (Monte Carlo against the exact recursion), the
power of the kernel, and the maximal learning rates of one epoch.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from cells import moment
from rebench.intervals import Estimate
from rebench.recipes import exact_maximal_lr
from rebench.theory.cell_lr import CellSettings, measure_cells
from rebench.theory.dag_step import sample_dag_updates
from rebench.theory.estimate import median
from rebench.theory.frames import join_frames
from rebench.theory.graphs import all_layer_graphs, random_graphs, with_stem
from rebench.theory.images import SmallImages, load_small_images
from rebench.theory.kernel import KernelSettings, measure_kernel_slopes
from rebench.theory.pieces import Piece, Pieces
from rebench.theory.rate_experiments import (
    Experiment,
    experiments,
    measure_experiment,
    score_experiment,
)
from rebench.theory.rate_verdicts import rate_verdict
from rebench.theory.result import LawResult, Verdict
from rebench.theory.signal import measure_signal

__all__ = ["FULL", "QUICK", "DagSettings", "compare_recursion", "measure_dag_law"]

LAW = "graphs (Chen et al.)"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DagSettings:
    """Sizes of every part; `only` names the experiments to run, empty for all."""

    signal_draws: int = 100
    signal_width: int = 256
    step_draws: int = 200
    step_width: int = 512
    kernel: KernelSettings = dataclasses.field(default_factory=KernelSettings)
    graphs: int = 80
    kernel_graphs: int = 18
    steps: int | None = None
    cells: CellSettings = dataclasses.field(default_factory=CellSettings)
    only: tuple[str, ...] = ()
    dataset: str | None = None
    data_root: Path | None = None
    seed: int = 0


FULL = DagSettings()
QUICK = DagSettings(
    signal_draws=10,
    signal_width=128,
    step_draws=20,
    step_width=128,
    kernel=KernelSettings(kernels=(1, 3), channels=16, side=8, draws=10),
    graphs=5,
    kernel_graphs=3,
    steps=20,
    cells=CellSettings(cells=4, steps=8, seeds=1),
    only=("mlp", "mlp-released", "cells"),
)


def measure_dag_law(settings: DagSettings = FULL, pieces: Pieces | None = None) -> LawResult:
    """Measure every part of the rule."""
    pieces = pieces or Pieces()
    rng = np.random.default_rng(settings.seed)
    images = load_small_images(settings.dataset, settings.data_root)
    tables: dict[str, pd.DataFrame] = {}
    verdicts: list[Verdict] = []

    pieces.expect(2)
    parts = {"signal": _signal, "recursion": compare_recursion}
    frames = pieces.get(
        [
            Piece(kind=name, settings=_key(settings), compute=partial(measure, settings))
            for name, measure in parts.items()
        ]
    )
    tables.update(zip(parts, frames, strict=True))
    verdicts += _signal_verdicts(tables["signal"], settings)
    verdicts += _recursion_verdicts(tables["recursion"], rng, settings)
    tables["kernel"] = measure_kernel_slopes(settings.kernel, pieces)
    verdicts += _kernel_verdicts(tables["kernel"], settings)

    measured, scores = [], []
    for experiment in experiments(
        settings.graphs, settings.kernel_graphs, images.name, settings.seed, settings.steps
    ):
        if settings.only and experiment.name not in settings.only:
            continue
        frame = measure_experiment(experiment, images, pieces, settings.seed)
        measured.append(frame)
        scores.append(score_experiment(frame, rng))
        verdicts.append(_search_verdict(experiment, frame, scores[-1], images))
    if not settings.only or "cells" in settings.only:
        frame = measure_cells(settings.cells, images, pieces, settings.seed)
        measured.append(frame)
        scores.append(score_experiment(frame, rng))
        verdicts.append(_cell_verdict(frame, scores[-1], settings))
    tables["rates"] = join_frames(measured)
    tables["predictors"] = join_frames(scores)
    return LawResult(law="dag", tables=tables, verdicts=tuple(verdicts))


def compare_recursion(settings: DagSettings) -> pd.DataFrame:
    """Return Monte Carlo and exact one-step updates of every connected 5-vertex layer graph.

    Columns rule, code (pruned), codes (how many graphs prune to it), update, standard_error,
    exact, ratio, equation_8 (sum L^3, depths with the stem).
    """
    counts: dict[str, int] = {}
    pruned = [code.pruned() for code in all_layer_graphs(5)]
    for code in pruned:
        counts[str(code)] = counts.get(str(code), 0) + 1
    codes = list(dict.fromkeys(pruned))
    frames = []
    for rule in ("target", "source"):
        generator = torch.Generator().manual_seed(settings.seed)
        frame = sample_dag_updates(
            [with_stem(code) for code in codes],
            rule=rule, width=settings.step_width, draws=settings.step_draws, generator=generator,
        )  # fmt: skip
        exact = np.array([exact_maximal_lr(code, rule) for code in codes]) ** -2.0
        frame = frame.assign(
            code=[str(code) for code in codes],
            codes=[counts[str(code)] for code in codes],
            exact=exact,
            ratio=frame["update"] / exact,
            equation_8=[float(moment(code.depth_polynomial(), 3, 1)) for code in codes],
        )
        frame.insert(0, "rule", rule)
        frames.append(frame)
    return join_frames(frames)


def _key(settings: DagSettings) -> dict[str, int]:
    names = ("signal_draws", "signal_width", "step_draws", "step_width", "seed")
    return {name: getattr(settings, name) for name in names}


def _signal(settings: DagSettings) -> pd.DataFrame:
    layered = list(dict.fromkeys(code.pruned() for code in all_layer_graphs(5)))
    skipped = random_graphs(200, 5, np.random.default_rng(settings.seed), (0, 1, 2))
    return measure_signal(
        layered, skipped, width=settings.signal_width, draws=settings.signal_draws,
        generator=torch.Generator().manual_seed(settings.seed),
    )  # fmt: skip


def _signal_verdicts(table: pd.DataFrame, settings: DagSettings) -> list[Verdict]:
    verdicts = []
    for order, where in (("before", "equation 1"), ("after", "released code")):
        part = table[(table["edges"] == "layers") & (table["order"] == order)]
        factors = dict(zip(part["rule"], part["typical_factor"], strict=True))
        source = part[part["rule"] == "source"].iloc[0]
        best = min(factors, key=lambda name: factors[name])
        listed = ", ".join(f"{name} {factor:.2f}" for name, factor in factors.items())
        verdicts.append(
            Verdict(
                law=LAW,
                quantity=f"norm of vertices under equation 4 (source degree), {where}",
                paper=1.0,
                ours=Estimate(source["median"], source["min"], source["max"]),
                settings=f"{source['vertices']} vertices of all connected 5-vertex layer graphs, "
                f"median and range, {settings.signal_draws} draws, width {settings.signal_width}",
                verdict=f"typical factor from 1 by rule: {listed}; best: {best}",
            )
        )
    return verdicts


def _recursion_verdicts(
    table: pd.DataFrame, rng: np.random.Generator, settings: DagSettings
) -> list[Verdict]:
    verdicts = []
    for rule, part in table.groupby("rule"):
        ratios = part["ratio"].to_numpy()
        rule_8 = (part["equation_8"] / part["update"]).to_numpy() ** 0.5
        spread = float(np.exp(np.std(np.log(rule_8))))
        own = float(np.exp(np.std(np.log(ratios)) / 2))
        middle = median(ratios, rng)
        verdicts.append(
            Verdict(
                law=LAW,
                quantity=f"our recursion: Monte Carlo over exact E dz^2, {rule} degree",
                paper=None,
                ours=Estimate(middle.value, float(ratios.min()), float(ratios.max())),
                settings=f"{part['codes'].sum()} connected 5-vertex layer graphs "
                f"({len(part)} distinct without dead edges), median and range, "
                f"{settings.step_draws} draws, width {settings.step_width}",
                verdict=f"typical factor of the one-step rate: recursion {own:.3f}, "
                f"equation 8 {spread:.2f}",
            )
        )
    return verdicts


def _kernel_verdicts(table: pd.DataFrame, settings: DagSettings) -> list[Verdict]:
    verdicts = []
    for row in table.to_dict("records"):
        ours = Estimate(row["exponent"], row["low"], row["high"])
        gaps = {
            name: abs(ours.value - row[key])
            for name, key in (("area", "by_area"), ("side", "by_side"))
        }
        nearer = (
            "either (they agree)" if row["dimensions"] == 1 else min(gaps, key=lambda g: gaps[g])
        )
        inside = "inside" if ours.covers(row["by_area"]) else "outside"
        verdicts.append(
            Verdict(
                law=LAW,
                quantity=f"exponent of the rate in kernel side, {row['dimensions']}-D "
                f"{row['padding']}",
                paper=row["by_area"],
                ours=ours,
                settings=f"one step, kernels {settings.kernel.kernels}, depth "
                f"{settings.kernel.depth}, {settings.kernel.draws} draws",
                verdict=f"nearer to patch {nearer}; q as patch area {inside} the interval",
            )
        )
    return verdicts


def _search_verdict(
    experiment: Experiment, frame: pd.DataFrame, scores: pd.DataFrame, images: SmallImages
) -> Verdict:
    search = experiment.search
    return rate_verdict(
        law=LAW,
        title=experiment.title,
        paper=experiment.paper_r,
        rule="eq. 8, L",
        scores=scores,
        settings=f"{len(frame)} graphs, {images.name} {experiment.side}x{experiment.side}, "
        f"width {search.width}, batch {search.batch_size}, {search.seeds} seeds, one epoch",
    )


def _cell_verdict(frame: pd.DataFrame, scores: pd.DataFrame, settings: DagSettings) -> Verdict:
    cells = settings.cells
    return rate_verdict(
        law=LAW,
        title="NAS-Bench-201 cells, BN on",
        paper=None,
        rule="eq. 8, L+1",
        scores=scores,
        settings=f"{len(frame)} cells, {frame['dataset'].iloc[0]}, {cells.channels} channels, "
        f"{cells.cells_per_stage} cell a stage, {cells.seeds} seeds, one epoch",
    )
