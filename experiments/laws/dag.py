"""The architecture-aware rule of Chen et al. (2024), measured from its parts to its predictions.

Init (which in-degree keeps the signal), one step (Monte Carlo against the exact recursion), the
power of the kernel, and the maximal learning rates of one epoch.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from cells import moment
from experiments.laws.dag_step import sample_dag_updates
from experiments.laws.estimate import median
from experiments.laws.graphs import all_layer_graphs, random_graphs, with_stem
from experiments.laws.images import load_small_images
from experiments.laws.kernel import KernelSettings, measure_kernel_slopes
from experiments.laws.pieces import Pieces
from experiments.laws.rate_experiments import experiments, measure_experiment
from experiments.laws.recursion import exact_maximal_lr
from experiments.laws.result import LawResult, Verdict
from experiments.laws.scores import rate_verdict, score_experiment
from experiments.laws.signal import measure_signal
from rebench.intervals import Estimate


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
    only: tuple[str, ...] = ()
    dataset: str | None = None
    data_root: Path | None = None
    seed: int = 0


FULL = DagSettings()
SMALL = DagSettings(
    signal_draws=10,
    signal_width=128,
    step_draws=20,
    step_width=128,
    kernel=KernelSettings(kernels=(1, 3), channels=16, side=8, draws=10),
    graphs=5,
    kernel_graphs=3,
    steps=20,
    only=("mlp", "mlp-released"),
)


def measure(settings: DagSettings = FULL, pieces: Pieces | None = None) -> LawResult:
    """Measure every part of the rule."""
    pieces = pieces or Pieces()
    rng = np.random.default_rng(settings.seed)
    images = load_small_images(settings.dataset, settings.data_root)
    draws = {"draws": settings.step_draws, "width": settings.step_width, "seed": settings.seed}
    [recursion] = pieces.map("recursion", compare_recursion, [draws])
    draws |= {"draws": settings.signal_draws, "width": settings.signal_width}
    [signal] = pieces.map("pre-activations", compare_norms, [draws])
    tables = {"signal": signal, "recursion": recursion}
    verdicts = _signal_verdicts(signal, settings) + _recursion_verdicts(recursion, rng, settings)
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
        search = experiment.search
        verdicts.append(
            rate_verdict(
                title=experiment.title, paper=experiment.paper_r, rule="eq. 8, L",
                scores=scores[-1],
                settings=f"{len(frame)} graphs, {images.name} {experiment.side}x{experiment.side}, "
                f"width {search.width}, batch {search.batch_size}, {search.seeds} seeds, one epoch",
            )
        )  # fmt: skip
    tables["rates"] = pd.concat(measured, ignore_index=True)
    tables["predictors"] = pd.concat(scores, ignore_index=True)
    return LawResult(
        law="dag", title="graphs (Chen et al.)", tables=tables, verdicts=tuple(verdicts)
    )


def compare_recursion(draws: int, width: int, seed: int) -> pd.DataFrame:
    """Monte Carlo and exact one-step updates of every connected 5-vertex layer graph.

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
        generator = torch.Generator().manual_seed(seed)
        frame = sample_dag_updates(
            [with_stem(code) for code in codes],
            rule=rule, width=width, draws=draws, generator=generator,
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
    return pd.concat(frames, ignore_index=True)


def compare_norms(draws: int, width: int, seed: int) -> pd.DataFrame:
    """Norms at init under every rule: of all 5-vertex layer graphs, and of 200 with skips."""
    layered = list(dict.fromkeys(code.pruned() for code in all_layer_graphs(5)))
    skipped = random_graphs(200, 5, np.random.default_rng(seed), (0, 1, 2))
    return measure_signal(
        layered, skipped, width=width, draws=draws, generator=torch.Generator().manual_seed(seed)
    )


def _signal_verdicts(table: pd.DataFrame, settings: DagSettings) -> list[Verdict]:
    verdicts = []
    layers = table[table["edges"] == "layers"]
    for order, where in (("before", "equation 1"), ("after", "released code")):
        part = layers[layers["order"] == order]
        rows = part[part["of"] == "pre-activations"].set_index("rule")
        judged = {str(rule): float(factor) for rule, factor in rows["typical_factor"].items()}
        best = min(judged, key=lambda name: judged[name])
        text = f"typical factor from 1 {judged['source']:.2f}; best: {best} {judged[best]:.2f}"
        verdicts.append(
            Verdict(
                quantity=f"norm of pre-activations under equation 4 (source degree), {where}",
                paper=1.0,
                ours=Estimate(
                    *(float(rows.loc["source", key]) for key in ("median", "min", "max"))
                ),
                settings=f"{rows.loc['source', 'count']} in all connected 5-vertex layer graphs, "
                f"median and range, {settings.signal_draws} draws, width {settings.signal_width}",
                verdict=text,
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
    """A verdict per case; the paper's q is "the kernel size", in its code the side."""
    verdicts = []
    for row in table.to_dict("records"):
        ours = Estimate(row["exponent"], row["low"], row["high"])
        if row["dimensions"] == 1:
            text = "side and area of the patch are one in 1-D"
        else:
            gaps = {"side": abs(ours.value + 1), "area": abs(ours.value - row["by_area"])}
            inside = "inside" if ours.covers(row["by_area"]) else "outside"
            text = (
                f"nearer to the patch's {min(gaps, key=lambda name: gaps[name])}; its area, our "
                f"reading of q, would give {row['by_area']:g}, {inside} the interval"
            )
        verdicts.append(
            Verdict(
                quantity=f"exponent of the rate in kernel side, {row['dimensions']}-D "
                f"{row['padding']}",
                paper=row["by_side"],
                ours=ours,
                settings=f"one step, kernels {settings.kernel.kernels}, depth "
                f"{settings.kernel.depth}, {settings.kernel.channels} channels, "
                f"{settings.kernel.draws} draws",
                verdict=text,
            )
        )
    return verdicts
