"""What a study is asked to compare, and how: plain values, which need nothing that computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

from rebench.arguments import Between, checked

__all__ = ["MOST_DRAWS", "TOP_PERCENT", "Choices", "Selection"]

Selection: TypeAlias = Literal["benchmark", "retrained", "either"]

TOP_PERCENT: Final = (100.0, 90.0, 80.0, 70.0, 60.0, 50.0, 40.0, 30.0, 20.0, 10.0, 5.0, 1.0)
"""The top K % that rankings are compared at, unless others are asked for."""

MOST_DRAWS: Final = 100_000
"""The most draws of one comparison: they take minutes, and tell p-values of 0.00001 apart."""


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What a study is asked to compare, and how.

    Attributes:
        published: an ingested benchmark or any other table, by name.
        datasets: which data sets; all of the run if empty.
        recipes: which recipes; all but the one compared with if empty.
        against: "benchmark" or a recipe of the run. If None: the run's own `nb201`, and then the
            published table where it has the data set.
        split: where accuracies are measured; if None the whole test set, or what there is of it.
        epochs: of the run's trials; needed only where a recipe was trained for several.
        top_percent: the values of K.
        by: which table chooses the top K %, or the name of a third one.
        draws: bootstrap draws and simulated tables.
        seed: of all random draws: equal seeds give equal reports.
    """

    published: str | Path | None = None
    datasets: Sequence[str] = ()
    recipes: Sequence[str] = ()
    against: str | None = None
    split: str | None = None
    epochs: int | None = None
    top_percent: Sequence[float] = TOP_PERCENT
    by: Selection | str = "benchmark"
    draws: Annotated[int, Between(0, MOST_DRAWS)] = 1000
    seed: Annotated[int, Between(0)] = 0
