"""The architecture-aware rule of Chen et al. (2024), measured from its parts to its predictions.

The parts are the init (which in-degree keeps the signal), one step (Monte Carlo and exact
recursion), the exponent of the kernel size, and the maximal learning rates of one epoch. The paper
divides the rate of a CNN by q, the number of positions in a kernel; its released code divides by
the kernel's side. The slope distinguishes these two divisors, a correlation does not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import torch

from cells import moment
from experiments.laws.conv_step import ConvNetwork, Padding, sample_conv_updates
from experiments.laws.estimate import fit_exponent
from experiments.laws.graph_rates import (
    Experiment,
    Graph,
    SearchSettings,
    list_experiments,
    measure_experiment,
)
from experiments.laws.graphs import (
    DegreeRule,
    all_layer_graphs,
    chain,
    layer_variances,
    random_graphs,
    update_of,
    with_stem,
)
from experiments.laws.images import load_small_images
from experiments.laws.pieces import Pieces
from experiments.laws.result import Measured, Verdict, median_and_range, text, verdict
from experiments.laws.scores import rate_verdict, score_experiment
from experiments.laws.signal import ORDERS, measure_signal, sample_dag_updates
from rebench.intervals import Estimate
from rebench.recipes.recursion import Graphs

# The default settings are those of the theory: equation 1, target degree, mean-field readout. Only
# the graph's weights limit the rate.
DENSE = SearchSettings()
KERNELS = dataclasses.replace(DENSE, width=16, steps=48, n_lrs=12, lowest_lr=0.05, highest_lr=30.0)
# The two readings of equation 4.
RULES: tuple[DegreeRule, ...] = ("target", "source")
# Dimensions of the kernel, padding, and exponent of the kernel's side if the rate falls with the
# number of positions in the kernel.
KERNEL_CASES: tuple[tuple[Literal[1, 2], Padding, float], ...] = (
    (1, "circular", -1.0),
    (1, "zeros", -1.0),
    (2, "circular", -2.0),
    (2, "zeros", -2.0),
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KernelSettings:
    """Settings of chains of convolutions, for the first-order change in one step on white noise."""

    kernels: tuple[int, ...] = (1, 3, 5, 7)
    depth: int = 4
    channels: int = 24
    side: int = 14
    draws: int = 60
    seed: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DagSettings:
    """Sizes of all parts; `only` names the experiments to run (if empty, all)."""

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


def measure(settings: DagSettings, pieces: Pieces) -> Measured:
    """Measure every part of the rule."""
    rng = np.random.default_rng(settings.seed)
    images = load_small_images(settings.dataset, settings.data_root)
    draws = {"draws": settings.step_draws, "width": settings.step_width, "seed": settings.seed}
    [recursion] = pieces.map("recursion", compare_recursion, [draws])
    draws |= {"draws": settings.signal_draws, "width": settings.signal_width}
    [signal] = pieces.map("pre-activations", compare_norms, [draws])
    tables = {"signal": signal, "recursion": recursion}
    verdicts = [*_signal_verdicts(signal, settings), *_recursion_verdicts(recursion, settings)]
    tables["kernel"] = measure_kernel_slopes(settings.kernel, pieces)
    verdicts += _kernel_verdicts(tables["kernel"], settings.kernel)

    measured, scores = [], []
    for experiment in dag_experiments(settings):
        frame = measure_experiment(experiment, images, pieces, settings.seed)
        measured.append(frame)
        scores.append(score_experiment(frame, rng))
        verdicts.append(
            rate_verdict(
                paper=experiment.paper_r, rule="eq. 8, L", scores=scores[-1],
                title=experiment.title, graphs=len(frame), dataset=images.name,
                side=experiment.side, s=experiment.search,
            )
        )  # fmt: skip
    tables["rates"] = pd.concat(measured, ignore_index=True)
    tables["predictors"] = pd.concat(scores, ignore_index=True)
    return tables, verdicts


def dag_experiments(settings: DagSettings) -> list[Experiment]:
    """Return the paper's experiments; convolutional graphs alternate kernels 1, 3 and 5.

    Half of the graphs have GELU, and half of the dense graphs have a shared rate.
    """
    rng = np.random.default_rng(settings.seed)
    dense: list[Graph] = [(code, None) for code in random_graphs(settings.graphs, 5, rng)]
    drawn = random_graphs(settings.kernel_graphs, 5, rng)
    convolutional: list[Graph] = [(code, (1, 3, 5)[i % 3]) for i, code in enumerate(drawn)]
    families: dict[str, list[Graph]] = {
        "dense": dense,
        "half of dense": dense[: (len(dense) + 1) // 2],
        "convolutional": convolutional,
        "half of convolutional": convolutional[: (len(drawn) + 1) // 2],
        "chains": [(chain(depth), None) for depth in range(3, 11)],
    }
    dense_search, kernels = (
        dataclasses.replace(search, steps=settings.steps or search.steps)
        for search in (DENSE, KERNELS)
    )
    return list_experiments(
        "dag", families, only=settings.only, dense=(dense_search, 14), convolutional=(kernels, 7)
    )


def compare_recursion(draws: int, width: int, seed: int) -> pd.DataFrame:
    """Measure Monte Carlo and exact one-step updates of all connected 5-vertex layer graphs.

    Columns rule, code (pruned), codes (number of graphs that prune to it), update, standard_error,
    exact, ratio, equation_8 (sum L^3, depths with the stem).
    """
    counts: dict[str, int] = {}
    pruned = [code.pruned() for code in all_layer_graphs(5)]
    for code in pruned:
        counts[str(code)] = counts.get(str(code), 0) + 1
    codes = list(dict.fromkeys(pruned))
    graphs = Graphs.of(codes)
    frames = []
    for rule in RULES:
        generator = torch.Generator().manual_seed(seed)
        frame = sample_dag_updates(
            [with_stem(code) for code in codes],
            rule=rule, width=width, draws=draws, generator=generator,
        )  # fmt: skip
        exact = update_of(graphs, layer_variances(graphs, rule), "before").updates[:, -1]
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
    """Measure norms at init under every rule: all 5-vertex layer graphs, and 200 with skips."""
    layered = list(dict.fromkeys(code.pruned() for code in all_layer_graphs(5)))
    skipped = random_graphs(200, 5, np.random.default_rng(seed), (0, 1, 2))
    return measure_signal(
        layered, skipped, width=width, draws=draws, generator=torch.Generator().manual_seed(seed)
    )


def measure_kernel_slopes(settings: KernelSettings, pieces: Pieces) -> pd.DataFrame:
    """Fit the exponent of the kernel's side, with its interval, for every case."""
    rng = np.random.default_rng(settings.seed)
    cases = [{"dimensions": dims, "padding": padding} for dims, padding, _ in KERNEL_CASES]
    frames = pieces.map("kernel", _sample, cases, settings=settings)
    rows = []
    for (dimensions, padding, expected), frame in zip(KERNEL_CASES, frames, strict=True):
        samples = [
            frame.loc[frame["kernel"] == kernel, "update"].to_numpy() for kernel in settings.kernels
        ]
        slope = fit_exponent(settings.kernels, samples, -0.5, rng)
        rows.append(
            {"dimensions": dimensions, "padding": padding, "exponent": slope.value,
             "low": slope.low, "high": slope.high, "by_area": expected, "by_side": -1.0}
        )  # fmt: skip
    return pd.DataFrame(rows)


def _sample(dimensions: Literal[1, 2], padding: Padding, settings: KernelSettings) -> pd.DataFrame:
    side = settings.side if dimensions == 2 else settings.side**2
    rows = []
    for kernel in settings.kernels:
        generator = torch.Generator().manual_seed(settings.seed * 1009 + kernel)
        network = ConvNetwork(
            depth=settings.depth, channels=settings.channels, kernel=kernel,
            dimensions=dimensions, side=side, padding=padding,
        )  # fmt: skip
        updates = sample_conv_updates(network, draws=settings.draws, generator=generator)
        rows += [{"kernel": kernel, "update": value} for value in updates[:, -1].tolist()]
    return pd.DataFrame(rows)


def _signal_verdicts(table: pd.DataFrame, settings: DagSettings) -> Iterator[Verdict]:
    judged = table[(table["edges"] == "layers") & (table["of"] == "pre-activations")]
    for order in ORDERS:
        rows = judged[judged["order"] == order].set_index("rule")
        factors, source = rows["typical_factor"], rows.loc["source"]
        yield verdict(
            "dag.signal",
            Estimate(*(float(source[key]) for key in ("median", "min", "max"))),
            order=order, s=settings, count=source["count"], source=factors["source"],
            best=factors.idxmin(), least=factors.min(),
        )  # fmt: skip


def _recursion_verdicts(table: pd.DataFrame, settings: DagSettings) -> Iterator[Verdict]:
    for rule, part in table.groupby("rule"):
        rule_8 = (part["equation_8"] / part["update"]).to_numpy() ** 0.5
        yield verdict(
            "dag.recursion", median_and_range(part["ratio"]), rule=rule, s=settings,
            codes=part["codes"].sum(), distinct=len(part),
            own=np.exp(np.std(np.log(part["ratio"])) / 2),
            equation_8=np.exp(np.std(np.log(rule_8))),
        )  # fmt: skip


def _kernel_verdicts(table: pd.DataFrame, settings: KernelSettings) -> Iterator[Verdict]:
    """Return a verdict per case; q is "the kernel size" in the paper, the side in its code."""
    for row in table.to_dict("records"):
        ours = Estimate(row["exponent"], row["low"], row["high"])
        gaps = {"side": abs(ours.value + 1), "area": abs(ours.value - row["by_area"])}
        judged = text(
            "dag.area", "line" if row["dimensions"] == 1 else "square",
            nearer=min(gaps, key=lambda name: gaps[name]), by_area=row["by_area"],
            inside="inside" if ours.covers(row["by_area"]) else "outside",
        )  # fmt: skip
        yield verdict(
            "dag.kernel", ours, dimensions=row["dimensions"], padding=row["padding"],
            s=settings, judged=judged,
        )  # fmt: skip
