"""Training-free rankings of cells, and their rank correlation with the accuracies of a table.

Parameters and FLOPs are the baselines that every table of proxies must show; the path statistics
are those of `cells`. Gradient norm, SNIP, SynFlow and NASWOT need a network and one batch. Networks
are `TinyNet` with PyTorch's default init, as in the benchmark. Each cell is scored on one
initialisation, whose seed depends on the cell's index. Gradient norm and SNIP agree with their
published rankings only in networks with several cells per stage; the figures are in
`docs/explanation/search.md`. torch is imported when the first cell is scored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from rebench.analysis.paired import Paired
from rebench.arguments import checked
from rebench.data import benchmark_data, data_spec
from rebench.errors import InputError, UnknownNameError
from rebench.intervals import spearman_interval
from rebench.search.proxy_names import NET_PROXIES, PROXY_SPEARMAN
from rebench.search.search_space import SearchSpace
from rebench.search.tabular import Given, SearchTable, search_tables

if TYPE_CHECKING:
    import torch

    from rebench.nets import LayeredNet
    from rebench.train import KeptNetwork

__all__ = [
    "image_batch",
    "init_seed",
    "knowing",
    "net_proxy_scores",
    "proxy_scores",
    "rank_correlation",
    "rate_proxies",
]

Floats: TypeAlias = NDArray[np.float64]


@checked
def proxy_scores(name: str, space: SearchSpace, dataset: str) -> Floats:
    """Return a proxy's score of every item of a space; higher is expected to be better."""
    spec = benchmark_data(dataset) or data_spec("cifar10")
    scores = space.of_space.statistics(space.indices, spec)
    if name not in scores:
        raise UnknownNameError("proxy", name, scores)
    return scores[name]


def rank_correlation(scores: ArrayLike, accuracy: ArrayLike) -> dict[str, float]:
    """Return Spearman's correlation with its interval, Kendall's tau-b and the number of cells.

    The interval is that of `rebench.intervals.spearman_interval`.

    Args:
        scores: one value a cell.
        accuracy: accuracies of the same cells, in a form of `rebench.analysis.Paired.of_values`.
    """
    paired = Paired.of_values(_rankable(scores), accuracy)
    first = paired.baseline.means
    second = paired.other.means
    n = len(paired)
    if n < 4:
        raise InputError(f"a rank correlation needs 4 cells or more, got {n}")
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return dict.fromkeys(("spearman", "low", "high", "kendall"), np.nan) | {"n": n}
    spearman = float(stats.spearmanr(first, second).statistic)
    _, low, high = spearman_interval(spearman, n)
    return {
        "spearman": spearman,
        "low": low,
        "high": high,
        "kendall": float(stats.kendalltau(first, second).statistic),
        "n": n,
    }


@checked
def rate_proxies(
    table: Given,
    scores: Mapping[str, ArrayLike] | None = None,
    *,
    dataset: str | None = None,
) -> pd.DataFrame:
    """Return the rank correlation of each proxy with a table's final accuracies, best first.

    `spearman` (with its 95 % interval `low` to `high`) and `kendall` are the correlations over `n`
    cells; NaN if all scores are equal. `answer` is the mean final accuracy (percent) of the cells
    with the highest score, which a choice by the proxy gives; `tied` is their number. `regret` is
    the best final accuracy minus `answer`. `published` is the correlation of `PROXY_SPEARMAN`, a
    column only if the data set and `scores` have published values.

    Args:
        table: table of the final accuracies, by name (NAME@RECIPE takes one recipe) or opened.
        scores: further proxies by name, such as the result of `net_proxy_scores`. A series is
            matched by benchmark index; all proxies are then rated on the cells of every series.
            An array has the order of the rated cells.
        dataset: data set of the accuracies; the usual data set of the table if None.
    """
    (searched,) = search_tables([table], dataset, on_test=True)
    given = scores or {}
    for column in given.values():
        if isinstance(column, pd.Series):
            searched = searched.restrict(column.index)
    cells = searched.space.indices
    spec = benchmark_data(searched.dataset) or data_spec("cifar10")
    columns: dict[str, ArrayLike] = {**searched.space.of_space.statistics(cells, spec), **given}
    final = searched.final
    rows = []
    for name, column in columns.items():
        known: ArrayLike = final
        if isinstance(column, pd.Series):
            known = pd.Series(final, cells)
            column = column[column.index.isin(cells)]
        values = Paired.of_values(known, _rankable(column)).other.means
        best = values == values.max()
        goodness = float(final[best].mean())
        rows.append(
            {
                "proxy": name,
                **rank_correlation(values, final),
                "answer": searched.measure.goodness(goodness),
                "tied": int(best.sum()),
                "regret": searched.best - goodness,
            }
        )
    rated = pd.DataFrame(rows).sort_values("spearman", ascending=False, ignore_index=True)
    published = PROXY_SPEARMAN.get(searched.dataset, {})
    if not published.keys().isdisjoint(given):
        rated.insert(2, "published", rated["proxy"].map(published))
    return rated


def _rankable(scores: ArrayLike) -> ArrayLike:
    """Return finite scores: -inf (no score for a cell) becomes a value below the lowest score."""
    values = np.asarray(scores, dtype=np.float64)
    lowest = values[np.isfinite(values)].min(initial=0.0)
    values = np.where(np.isneginf(values), lowest - 1, values)
    if isinstance(scores, pd.Series):
        return pd.Series(values, scores.index)
    return values


def image_batch(
    dataset: str, count: int, *, seed: int = 0, root: Path | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return `count` normalised training images, drawn without replacement, and their classes."""
    import torch

    from rebench.data import read_raw

    spec = data_spec(dataset)
    train = read_raw(dataset, root).train
    if not 1 <= count <= len(train):
        raise InputError(f"a batch of {dataset} has 1 to {len(train)} images, got {count}")
    chosen = np.random.default_rng(seed).choice(len(train), count, replace=False)
    picked = train.select(torch.as_tensor(chosen))
    mean = torch.tensor(spec.mean).view(1, 3, 1, 1)
    std = torch.tensor(spec.std).view(1, 3, 1, 1)
    images = (picked.pixels.float() / 255 - mean) / std
    return images, picked.labels.long()


def init_seed(seed: int, index: int) -> int:
    """Return the seed of torch's generator for the initialisation of a cell's network."""
    return int(np.random.SeedSequence((seed, index)).generate_state(1, np.uint32)[0])


def net_proxy_scores(
    names: Iterable[str],
    indices: Iterable[int],
    images: torch.Tensor,
    labels: torch.Tensor,
    *,
    seed: int = 0,
    channels: int = 16,
    cells_per_stage: int = 5,
    classes: int = 10,
    trained: Mapping[int, KeptNetwork] | None = None,
    on_cell: Callable[[int], None] | None = None,
) -> dict[str, Floats]:
    """Return each proxy's score of each cell; higher is expected to be better.

    A cell that a proxy cannot score (no flow, a singular kernel) gets -inf.

    Args:
        names: names from `NET_PROXIES`.
        indices: benchmark indices of the cells.
        images: normalised batch, (n, 3, height, width).
        labels: the classes of the images, (n,).
        seed: each cell's initialisation comes from (seed, index).
        channels: channels of the network's first stage.
        cells_per_stage: cells in each stage of the network.
        classes: number of classes of the data set.
        trained: cell index -> trained network to score; if None, untrained networks are scored.
        on_cell: called with the index of each cell that was scored, for progress.
    """
    import torch

    from rebench.nets import TinyNet, untrained

    measures: dict[str, Callable[..., float]] = {
        "grad-norm": untrained.grad_norm,
        "snip": untrained.snip,
        "synflow": untrained.synflow,
        "naswot": untrained.naswot,
    }

    def net_of(index: int) -> LayeredNet:
        if trained is not None:
            return trained[index].load().train()
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(init_seed(seed, index))
            return TinyNet(
                index,
                channels=channels,
                cells_per_stage=cells_per_stage,
                classes=classes,
            )

    chosen = list(names)
    for name in chosen:
        if name not in NET_PROXIES:
            raise UnknownNameError("proxy", name, NET_PROXIES)
    scores: dict[str, list[float]] = {name: [] for name in chosen}
    for index in indices:
        for name in chosen:
            scores[name].append(measures[name](net_of(index), images, labels))
        if on_cell:
            on_cell(index)
    return {name: np.array(values) for name, values in scores.items()}


def knowing(
    tables: Sequence[SearchTable],
    trained: Mapping[int, KeptNetwork],
    images: torch.Tensor,
    labels: torch.Tensor,
) -> list[SearchTable]:
    """Return the tables restricted to the cells in `trained`, with their proxies as features."""
    found = [table.restrict(trained) for table in tables]
    indices = found[0].space.indices.tolist()
    scores = net_proxy_scores(NET_PROXIES, indices, images, labels, trained=trained)
    columns = np.nan_to_num(np.column_stack(list(scores.values())), nan=-np.inf, neginf=-np.inf)
    said = "predictors know proxies of trained networks"
    return [
        replace(table, scores=columns, searched_on=f"{table.searched_on}; {said}")
        for table in found
    ]
