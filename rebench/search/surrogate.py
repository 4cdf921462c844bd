"""A surrogate over all 15,625 cells, learned from the sample that a sweep has trained.

It predicts; it does not know. Its table holds predictions only, out of fold for the trained cells
too, so that trained and predicted values are never mixed, and its origin is ``surrogate``, which
every protocol line prints. How good it is comes with it: Kendall's tau in cross-validation, and
intervals whose coverage on held-out cells is measured, not assumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

import cells.table
from cells import SPACE_SIZE
from rebench.errors import InputError
from rebench.intervals import Estimate
from rebench.search.search_space import SearchSpace
from rebench.tables import write_table
from rebench.tables.columns import MEAN_SEED

__all__ = ["MIN_TRAINED", "Surrogate", "fit_surrogate", "write_surrogate"]

Floats: TypeAlias = NDArray[np.float64]

MIN_TRAINED: Final = 50
_FOLDS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Surrogate:
    """Predicted accuracy of every cell, percent, with intervals, in index order.

    Attributes:
        predicted: of each cell; out of fold for those that were trained.
        low: lower bound of each cell's prediction interval.
        high: upper bound.
        trained: the accuracies it was fitted to, NaN elsewhere.
        level: nominal coverage of the intervals.
        coverage: share of trained cells inside their interval when their fold was held out, the
            calibration included.
        tau: Kendall's tau-b between out-of-fold predictions and trained accuracies, with a
            bootstrap interval over cells.
        used_published: whether the published accuracy was a feature.
    """

    predicted: Floats
    low: Floats
    high: Floats
    trained: Floats
    level: float
    coverage: float
    tau: Estimate
    used_published: bool

    def describe(self) -> str:
        """Return one line that says how far it can be trusted."""
        width = float(np.median(self.high - self.low))
        features = "graph statistics" + (" and published accuracy" if self.used_published else "")
        return (
            f"surrogate on {features}, {int(np.isfinite(self.trained).sum()):,} trained cells: "
            f"cross-validated Kendall tau {self.tau.value:.3f} "
            f"[{self.tau.low:.3f}, {self.tau.high:.3f}]; {self.level:.0%} intervals hold "
            f"{self.coverage:.1%} of held-out cells, median width {width:.2f}"
        )


def _features(published: Floats | None) -> Floats:
    space = cells.table.compile_space()
    live = [
        ((space.ops == op) & space.live_edges).sum(axis=1)
        for op in range(1, int(space.ops.max()) + 1)
    ]
    columns = [
        SearchSpace.whole().path_encoding,
        space.depths,
        np.column_stack([space.n_paths, space.sum_cubed_depths, *live, space.in_degree_live]),
    ]
    if published is not None:
        columns.append(published[:, None])
    return np.hstack([np.asarray(column, dtype=np.float64) for column in columns])


class _Scale:
    """Accuracies as normal scores and back: trees and errors are then on an even scale."""

    def __init__(self, accuracy: Floats) -> None:
        self.accuracy = np.sort(accuracy)
        self.scores = stats.norm.ppf((np.arange(len(accuracy)) + 0.5) / len(accuracy))

    def score(self, accuracy: Floats) -> Floats:
        return np.interp(accuracy, self.accuracy, self.scores)

    def value(self, scores: Floats) -> Floats:
        """Return accuracies, beyond the trained ones on the line through the outer tenth."""
        reach = max(1, len(self.scores) // 10)
        inside = np.interp(scores, self.scores, self.accuracy)
        for end, other in ((0, reach), (-1, -1 - reach)):
            rise = self.accuracy[end] - self.accuracy[other]
            slope = rise / (self.scores[end] - self.scores[other])
            beyond = (scores - self.scores[end]) * (-1 if end == 0 else 1) > 0
            line = self.accuracy[end] + slope * (scores - self.scores[end])
            inside = np.where(beyond, line, inside)
        return np.clip(inside, 0.0, 100.0)


def fit_surrogate(
    indices: NDArray[np.int64],
    accuracy: Floats,
    *,
    rng: np.random.Generator,
    published: Floats | None = None,
    level: float = 0.9,
    trees: int = 100,
) -> Surrogate:
    """Fit extremely randomised trees to trained cells and predict the whole space.

    The intervals are conformal: out-of-fold errors, in units of the trees' own spread, give the
    factor that covers `level` of them.

    Args:
        indices: benchmark indices of the trained cells.
        accuracy: what each reached, percent.
        rng: source of folds, trees and bootstrap.
        published: the benchmark's accuracy of all 15,625 cells, as a further feature.
        level: nominal coverage.
        trees: of each forest.
    """
    if len(indices) != len(accuracy) or len(indices) < MIN_TRAINED:
        raise InputError(
            f"a surrogate needs at least {MIN_TRAINED} trained cells, got {len(indices)}; train "
            "more, or restrict the search to the cells that are trained"
        )
    if np.ptp(accuracy) == 0:
        raise InputError("a surrogate needs cells of different accuracy; all are equal")
    features = _features(published)
    scale = _Scale(accuracy)
    target = scale.score(accuracy)
    seeds = rng.integers(2**31, size=_FOLDS + 2)
    folds = np.empty(len(indices), dtype=np.int64)
    centre, spread = np.empty(len(indices)), np.empty(len(indices))
    from sklearn.model_selection import KFold  # takes seconds to load

    splitter = KFold(_FOLDS, shuffle=True, random_state=int(seeds[-1]))
    for fold, (kept, held) in enumerate(splitter.split(indices)):
        folds[held] = fold
        centre[held], spread[held] = _predict(
            features[indices[kept]], target[kept], features[indices[held]], trees, int(seeds[fold])
        )
    misfit = np.abs(target - centre) / spread
    covered = [
        misfit[folds == fold] <= _quantile(misfit[folds != fold], level) for fold in range(_FOLDS)
    ]
    middle, width = _predict(features[indices], target, features, trees, int(seeds[_FOLDS]))
    middle[indices], width[indices] = centre, spread
    reach = _quantile(misfit, level) * width
    trained = np.full(SPACE_SIZE, np.nan)
    trained[indices] = accuracy
    return Surrogate(
        predicted=scale.value(middle),
        low=scale.value(middle - reach),
        high=scale.value(middle + reach),
        trained=trained,
        level=level,
        coverage=float(np.concatenate(covered).mean()),
        tau=_tau(centre, accuracy, rng),
        used_published=published is not None,
    )


def _predict(
    features: Floats, target: Floats, unseen: Floats, count: int, seed: int
) -> tuple[Floats, Floats]:
    """Return mean and spread over the trees, the spread kept off zero."""
    from sklearn.ensemble import ExtraTreesRegressor  # takes seconds to load

    forest = ExtraTreesRegressor(
        count, min_samples_leaf=2, max_features=0.4, random_state=seed
    ).fit(features, target)
    trees = np.array([tree.predict(unseen) for tree in forest.estimators_])
    return trees.mean(axis=0), trees.std(axis=0) + 0.1


def _quantile(misfit: Floats, level: float) -> float:
    """Return the conformal quantile: of n errors the ceil((n + 1) level)-th smallest."""
    place = min(len(misfit), int(np.ceil((len(misfit) + 1) * level)))
    return float(np.sort(misfit)[place - 1])


def _tau(predicted: Floats, accuracy: Floats, rng: np.random.Generator) -> Estimate:
    value = float(stats.kendalltau(predicted, accuracy).statistic)
    draws = []
    for _ in range(200):
        rows = rng.integers(len(accuracy), size=len(accuracy))
        draws.append(float(stats.kendalltau(predicted[rows], accuracy[rows]).statistic))
    low, high = np.quantile(draws, [0.025, 0.975])
    return Estimate(value, float(low), float(high))


def write_surrogate(
    surrogate: Surrogate, path: Path, *, name: str, dataset: str, split: str, epochs: int
) -> list[Path]:
    """Write the predictions as a table whose origin is ``surrogate``, and the intervals as CSV."""
    rows = pd.DataFrame(
        {"index": np.arange(SPACE_SIZE), "dataset": dataset, "split": split, "epochs": epochs,
         "seed": MEAN_SEED, "accuracy": surrogate.predicted}
    )  # fmt: skip
    write_table(path, rows, name=name, origin="surrogate")
    intervals = path.with_name(f"{path.stem}.intervals.csv")
    columns = {"index": rows["index"], "predicted": surrogate.predicted, "low": surrogate.low,
               "high": surrogate.high, "trained": surrogate.trained}  # fmt: skip
    pd.DataFrame(columns).to_csv(intervals, index=False)
    return [path, intervals]
