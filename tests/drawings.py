"""Every kind of figure, drawn from small data, for the tests of all figures."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
from made_surfaces import some_cells, surface_table
from search_tables import smooth_table
from support import PROJECT

from experiments.laws.figures import law_figure
from experiments.laws.result import LawResult
from experiments.surface.answers import ask_surface
from experiments.surface.figures import draw_surface
from rebench.analysis import Accuracies, Paired, Reranking, rerank
from rebench.analysis.matrix import tau_matrix
from rebench.report.figures.ranking import (
    draw_curve,
    draw_head_to_head,
    draw_reranking,
    draw_tau_matrix,
)
from rebench.report.figures.search import agreement_figure, anytime_figure, ranks_figure
from rebench.report.figures.style import Drawing
from rebench.search import Budget, algorithm_names
from rebench.search.comparison import Comparison, run_all

LAWS = ("am-mup", "bafu", "cells", "dag", "depth", "released", "fsc")
RECIPES = (
    "nb201",
    "topology(base_lr=0.46,degree=source)",
    "topology-lr",
    "fixed(lr=0.3)",
    "fixed(lr=0.2)",
)


def accuracies(name, n, *, seeds=3, change=0.0, seed=0):
    """Return generated accuracies of `n` cells; equal `n` give the same cells."""
    rng = np.random.default_rng([seed, n])
    cells = np.sort(np.random.default_rng(n).choice(15_625, n, replace=False))
    true = 94 - np.random.default_rng([n, 1]).gamma(1.2, 2.5, n) + change * rng.normal(size=n)
    return Accuracies(
        name=name,
        cells=cells,
        seeds=(777, 888, 999)[:seeds],
        runs=np.round(true[:, None] + rng.normal(0, 0.25, (n, seeds)), 2),
        epochs=200,
        notes=(),
    )


@functools.cache
def reranking(n: int = 60, *, seeds: int = 3, dataset: str = "cifar10") -> Reranking:
    """Compare a benchmark of `n` cells with a recipe that has a long name and a small effect."""
    return rerank(
        Paired.of(
            accuracies("benchmark", n, seeds=seeds),
            accuracies("topology(base_lr=0.46)", n, seeds=seeds, seed=1, change=0.3),
        ),
        dataset=dataset,
        draws=20,
        rng=np.random.default_rng(0),
    )


@functools.cache
def _compared() -> tuple[Comparison, Comparison]:
    first, second = (
        run_all(
            replace(smooth_table(noise=0.5, seed=seed), name=name),
            algorithm_names(),
            budget=Budget(evaluations=30),
            repeats=5,
        )
        for seed, name in enumerate(("benchmark", "topology"))
    )
    return first, second


def _matrix(number: int) -> Drawing:
    names = [*RECIPES, *(f"fixed(lr={rate})" for rate in range(1, 10))][:number]
    tables = {name: accuracies(name, 20, seed=at, change=0.5) for at, name in enumerate(names)}
    return draw_tau_matrix(tau_matrix(tables, draws=0, seed=0)[0], "digits")


def _surface() -> Drawing:
    return draw_surface(ask_surface(surface_table(0.1, some_cells(24)), draws=5))


def _base_lr() -> Drawing:
    rows = [
        {"learning_rate": 2.0 ** (at - 7), "run": run, "loss": (at - 6) ** 2 / 40 + 1.4 + off}
        for at in range(10)
        for run, off in enumerate((-0.03, 0.0, 0.02))
    ]
    curve = pd.DataFrame(rows)
    curve.loc[28, "loss"] = np.inf
    choice = {"learning_rate": 0.5, "best": 0.5, "threshold": 1.45, "at_edge": False}
    return _drawn("base-lr", {"curve": curve, "choice": pd.DataFrame([choice])})


def _drawn(law: str, tables: dict[str, pd.DataFrame]) -> Drawing:
    return law_figure(LawResult(law=law, title=law, tables=tables, verdicts=()))


def _law(law: str) -> Drawing:
    """Return a law's result from the measured tables next to the notebook on the theory."""
    stored = (PROJECT / "notebooks" / "04_theory").glob(f"{law}-*.csv")
    tables = {path.stem.removeprefix(f"{law}-"): pd.read_csv(path) for path in stored}
    return _drawn(law, tables)


KINDS: dict[str, Callable[[], Drawing]] = {
    "base-lr": _base_lr,
    "head-to-head": lambda: draw_head_to_head(reranking()),
    **{f"law {law}": functools.partial(_law, law) for law in LAWS},
    "matrix of 3": lambda: _matrix(3),
    "matrix of 13": lambda: _matrix(13),
    "curve": lambda: draw_curve(reranking()),
    "curve of 3 cells": lambda: draw_curve(reranking(3)),
    "reranking": lambda: draw_reranking(reranking()),
    "reranking of 3 cells": lambda: draw_reranking(reranking(3)),
    "reranking of 200 cells": lambda: draw_reranking(reranking(200, dataset="cifar100")),
    "search, anytime": lambda: anytime_figure(_compared()),
    "search, ranks": lambda: ranks_figure(_compared()),
    "search, two tables": lambda: agreement_figure(_compared()),
    "surface": _surface,
}


@functools.cache
def drawing(kind: str) -> Drawing:
    """Return the figure of a kind; it is drawn only once."""
    return KINDS[kind]()
