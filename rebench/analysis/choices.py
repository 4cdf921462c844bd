"""Settings of a study: plain values that need no import of numerical packages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from rebench.arguments import Between, checked

__all__ = ["MOST_DRAWS", "TOP_PERCENT", "Choices"]

TOP_PERCENT: Final = (100.0, 90.0, 80.0, 70.0, 60.0, 50.0, 40.0, 30.0, 20.0, 10.0, 5.0, 1.0)
"""Default values of K: rankings are compared among the top K % of the cells."""

MOST_DRAWS: Final = 100_000
"""Largest number of draws of a comparison: it takes minutes, and p-values are at least 0.00001."""


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """Settings of a study: the tables to compare, and the parameters of the comparison.

    Attributes:
        published: name of an ingested benchmark or of any other table.
        datasets: data sets to compare; if empty, all data sets of the run.
        recipes: recipes to compare; if empty, all recipes of the run.
        against: "benchmark" or a recipe of the run. If None: the `nb201` of the run (`fixed` if
            the run has no `nb201`), and also the published table if it contains the data set.
        split: images of the accuracies: `ori-test` (the whole test set), `x-test`, `x-valid` or
            `train`; if None, the first of these that the run has.
        epochs: number of epochs of the trials; if None, the longest training of each recipe.
        top_percent: the values of K, each above 0 and at most 100.
        by: name of a third table that selects the top K %; if None, one seed of the baseline
            selects them, see `compare`.
        draws: bootstrap draws, and permutations for the p-values: at least 19, or 0 for no
            bootstrap.
        seed: seed of all random draws: equal seeds give equal reports.
    """

    published: str | Path | None = None
    datasets: Sequence[str] = ()
    recipes: Sequence[str] = ()
    against: str | None = None
    split: str | None = None
    epochs: int | None = None
    top_percent: Sequence[float] = TOP_PERCENT
    by: str | None = None
    draws: Annotated[int, Between(0, MOST_DRAWS)] = 1000
    seed: Annotated[int, Between(0)] = 0
