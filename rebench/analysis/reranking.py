"""One recipe against another, or against the benchmark: `compare`, and all that it says."""

from __future__ import annotations

import functools
import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from rebench.analysis.choices import MOST_DRAWS, TOP_PERCENT, Selection
from rebench.analysis.concordance import MIN_CELLS
from rebench.analysis.curve import rank_curve
from rebench.analysis.improvement import improvement
from rebench.analysis.paired import Accuracies, Paired, read_accuracies
from rebench.analysis.ranking import of_means, seed_jackknife
from rebench.analysis.replicates import assumed_equal
from rebench.analysis.seed_noise import Rng
from rebench.arguments import Between, checked
from rebench.drawable import Drawable
from rebench.errors import InputError, UnknownNameError
from rebench.tables import Table, open_table
from rebench.tables.columns import REQUIRED, usual_split

__all__ = ["Contrast", "Reranking", "compare", "rerank", "third_table"]

_LEVEL: Final = 0.05

Contrast: TypeAlias = Literal["recipe", "pipeline", "pipeline and recipe"]
"""What two tables differ by. Against the published table the training code differs as well."""

Ranked: TypeAlias = str | Path | Table | pd.DataFrame | ArrayLike
"""What can be compared: a table's name (NAME@RECIPE takes one recipe), a table, its long rows, or
accuracies [cells] or [cells, seeds]."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Reranking(Drawable):
    """What re-training moved, with its uncertainty and what seeds alone would do."""

    dataset: str
    split: str
    paired: Paired
    contrast: Contrast
    by: Selection | str
    """Which table chooses the top K %, or the name of a third one."""
    moved: pd.DataFrame
    """`rank_curve`: one row per K."""
    notes: tuple[str, ...]
    p_adjusted: float | None = None
    """The p-value adjusted for the other recipes and data sets of one study (Holm)."""
    comparisons: int = 1
    """How many comparisons that is adjusted for, this one included."""

    @property
    def before(self) -> Accuracies:
        """The benchmark or the recipe compared with, of the cells that both tables have."""
        return self.paired.before

    @property
    def after(self) -> Accuracies:
        """The re-trained table, of the same cells."""
        return self.paired.after

    @functools.cached_property
    def curve(self) -> pd.DataFrame:
        """One row per K: what moved, and `of_means`."""
        top = self.moved["top_percent"].tolist()
        return self.moved.merge(of_means(self.paired, top, by=_own(self.by)), on="top_percent")

    @property
    def p_value(self) -> float:
        """Of no change of the ranking, adjusted for looking at every K; NaN if untested."""
        return float(self.moved["p_family"].min())

    @property
    def p_judged(self) -> float:
        """The p-value to judge by: adjusted, where a study made several comparisons."""
        return self.p_value if self.p_adjusted is None else self.p_adjusted

    @property
    def name(self) -> str:
        """What is compared, in a few words."""
        compared = f"{self.after.name} against {self.before.name}"
        together = "" if self.contrast == "recipe" else f" ({self.contrast})"
        return f"{compared}{together}, {self.dataset}" if self.dataset else compared

    @property
    def tau(self) -> float:
        """Kendall's tau between single runs of different seeds, at the largest K."""
        return float(self._whole["tau"])

    @property
    def seed_tau(self) -> float:
        """The tau that seeds alone leave, at the largest K."""
        return float(self._whole["seed_tau"])

    @property
    def drop(self) -> tuple[float, float, float]:
        """How much less tau is than noise, at the largest K, with its 95 % interval."""
        return tuple(float(self._whole[name]) for name in ("drop", "drop_low", "drop_high"))  # type: ignore[return-value]  # three of them

    @property
    def ratio(self) -> float:
        """Tau over noise, at the largest K: `drop` shrinks where there is more noise."""
        return float(self._whole["ratio"])

    @property
    def _whole(self) -> pd.Series[float]:
        return self.moved.nlargest(1, "top_percent").iloc[0]

    @functools.cached_property
    def improvement(self) -> dict[str, float]:
        """`improvement` of the accuracies."""
        return improvement(self.paired)

    @functools.cached_property
    def top(self) -> pd.DataFrame:
        """The ten best cells before and after: `index`, both means, both ranks."""
        table = pd.DataFrame({"index": self.before.cells})
        for side, means in (("before", self.before.means), ("after", self.after.means)):
            table[side] = means
            table[f"rank_{side}"] = table[side].rank(ascending=False, method="min").astype(int)
        table["difference"] = table["after"] - table["before"]
        best = table[(table["rank_before"] <= 10) | (table["rank_after"] <= 10)]
        return best.sort_values(["rank_after", "rank_before", "index"]).reset_index(drop=True)

    def jackknife(self) -> pd.DataFrame:
        """`seed_jackknife`: `drop` at each K with seeds for a sample, too."""
        return seed_jackknife(self.paired, self.moved["top_percent"].tolist())

    def frame(self) -> pd.DataFrame:
        """A row per K: tau, noise and less with their intervals, ratio, p-values."""
        return self.curve.copy()

    def __str__(self) -> str:
        """The comparison and its verdict, in two sentences."""
        return f"{self.name}: {self.sentence}"

    def _repr_html_(self) -> str:
        shown = ["top_percent", "n_cells", "tau", "seed_tau", "drop", "drop_low", "drop_high"]
        shown += ["ratio", "p_value", "p_family"]
        table = self.moved[shown].to_html(index=False, float_format="{:.3g}".format, na_rep="-")
        return f"<p>{html.escape(str(self))}</p>{table}"

    @property
    def sentence(self) -> str:
        """Whether the ranking moved by more than seeds explain, in a sentence."""
        curve = self.moved.dropna(subset=["tau"])
        if curve.empty:
            if (few := len(self.before.cells)) >= MIN_CELLS:
                return (
                    f"The {few} cells in common are tied in {self.before.name} or in "
                    f"{self.after.name}: there is no ranking to compare."
                )
            return f"Too few cells in common ({few}; {MIN_CELLS} are needed): nothing can be said."
        if curve["seed_tau"].isna().all():
            return "Each table has one seed a cell, so seed noise cannot be told from a change."
        if not math.isfinite(self.p_judged):
            return "No p-value is given: see the notes."
        shown = f"{_p_text(self.p_value)}, over all K"
        if self.comparisons > 1:
            shown += f"; {_p_text(self.p_judged)}, over all {self.comparisons} comparisons"
        if self.p_judged > _LEVEL:
            more = ""
            if (most := curve.nlargest(1, "top_percent").iloc[0])["drop_high"] < 0:
                more = (
                    f" Among the top {most['top_percent']:g} % tau is {most['tau']:.3f}, above the "
                    f"{most['seed_tau']:.3f} of seeds: the tables agree more than independent runs "
                    "do. They may share runs, or a seed may favour the same cells in both."
                )
            return f"The ranking did not move by more than seed noise explains ({shown}).{more}"
        smallest = curve.loc[curve["p_family"].idxmin()]
        return (
            f"The ranking moved by more than seed noise explains ({shown}): among the top "
            f"{smallest['top_percent']:g} % tau is {smallest['tau']:.3f}, where seeds alone leave "
            f"{smallest['seed_tau']:.3f}, {smallest['drop']:.3f} less "
            f"({smallest['drop_low']:.2f} to {smallest['drop_high']:.2f}; "
            f"ratio {smallest['ratio']:.2f})."
            + "".join(
                f" That is if {name}, with one seed a cell, is no noisier than {other}."
                for name, other in assumed_equal(self.paired)
            )
        )


@checked
def compare(
    before: Ranked,
    after: Ranked,
    *,
    dataset: str | None = None,
    split: str | None = None,
    epochs: int | None = None,
    top_percent: Sequence[float] = TOP_PERCENT,
    by: Selection | Ranked = "benchmark",
    draws: Annotated[int, Between(0, MOST_DRAWS)] = 1000,
    seed: Annotated[int, Between(0)] = 0,
) -> Reranking:
    """How far `after` ranks cells otherwise than `before`, beside what seeds alone would do.

    Args:
        before: the benchmark, or the recipe compared with, as `Ranked` says.
        after: the re-trained table.
        dataset: which data set; the one that both hold if None.
        split: where accuracies are measured; if None the whole test set, or what there is of it.
        epochs: after how many; if None the longest training of each.
        top_percent: the values of K.
        by: which of the two chooses the top K % (`benchmark`: the first; `retrained`, `either`),
            or a third table, whose accuracies no run of the two has part in.
        draws: bootstrap draws, and deals of runs for the p-values.
        seed: of all random draws: equal seeds give equal results.
    """
    values = [ranked for ranked in (before, after) if not _is_table(ranked)]
    if len(values) == 1:
        raise InputError("a table is compared with a table, accuracies with accuracies")
    if values:
        paired = Paired.of_values(before, after)  # type: ignore[arg-type]  # no tables
    else:
        rows = [_long_rows(ranked) for ranked in (before, after)]  # type: ignore[arg-type]  # tables
        shared = sorted(set.intersection(*(set(map(str, own["dataset"])) for own in rows)))
        if dataset is None and len(shared) != 1:
            raise InputError(
                f"the tables share {len(shared)} data sets ({', '.join(shared)}): name one"
            )
        if dataset is not None and dataset not in shared:
            raise UnknownNameError("data set that both tables hold", dataset, shared)
        dataset = dataset or shared[0]
        rows = [own[own["dataset"] == dataset] for own in rows]
        split = split or usual_split(set.intersection(*(set(own["split"]) for own in rows)))
        first, second = (
            read_accuracies(
                own,
                dataset=dataset,
                split=split,
                epochs=epochs or int(own.loc[own["split"] == split, "epochs"].max()),
                name=name,
            )
            for own, name in zip(rows, _names(before, after), strict=True)
        )
        if _equal(first, second):
            raise InputError(
                f"{first.name} and {second.name} hold the same runs ({len(first.cells)} cells): "
                "give two tables of different runs, or NAME@RECIPE for two recipes of a table"
            )
        paired = Paired.of(first, second)
    if not (isinstance(by, str) and by in get_args(Selection)):
        third = third_table(by, dataset or "")
        paired, by = paired.chosen_by(third), third.name
    return rerank(
        paired,
        dataset=dataset or "",
        split=split or "",
        top_percent=top_percent,
        by=by,
        draws=draws,
        rng=seed,
    )


def rerank(
    paired: Paired,
    *,
    dataset: str,
    split: str = "ori-test",
    top_percent: Sequence[float] = TOP_PERCENT,
    by: Selection | str = "benchmark",
    draws: int = 1000,
    contrast: Contrast = "recipe",
    rng: Rng = None,
) -> Reranking:
    """Compare the two tables of a pair."""
    curve, notes = rank_curve(paired, top_percent, by=_own(by), draws=draws, rng=rng)
    return Reranking(
        dataset=dataset,
        split=split,
        paired=paired,
        contrast=contrast,
        by=by,
        moved=curve,
        notes=(*paired.notes, *notes),
    )


def third_table(by: Ranked, dataset: str) -> Accuracies:
    """The accuracies that choose the top K %: of the data set, or of one whose name it begins with.

    All runs of the longest training count; a data frame or series of accuracies by cell is taken as
    it is.
    """
    name = _names(by, "before")[0] if _is_table(by) else "by"
    if not _is_table(by):
        return Paired.of_values(by, by).before  # type: ignore[arg-type]  # no table
    try:
        rows = _long_rows(by)  # type: ignore[arg-type]  # a table
    except UnknownNameError as error:
        sides = ", ".join(get_args(Selection))
        raise InputError(f"by takes {sides} or a table: {error}") from error
    known = sorted(map(str, rows["dataset"].unique()))
    alike = [own for own in known if own == dataset] or [
        own for own in known if dataset.startswith(own) or own.startswith(dataset)
    ]
    if len(alike) != 1:
        raise UnknownNameError(f"data set of {name}, which chooses the top K %,", dataset, known)
    rows = rows[rows["dataset"] == alike[0]]
    split = usual_split(rows["split"].unique())
    epochs = int(rows.loc[rows["split"] == split, "epochs"].max())
    return read_accuracies(rows, dataset=alike[0], split=split, epochs=epochs, name=name)


def _own(by: Selection | str) -> Selection:
    """The selection by one of the two tables; with a third one it has no effect."""
    return by if by in get_args(Selection) else "benchmark"  # type: ignore[return-value]  # tested


def _equal(first: Accuracies, second: Accuracies) -> bool:
    """Whether two tables are one: the same runs of the same cells."""
    same = first.seeds == second.seeds and np.array_equal(first.cells, second.cells)
    return same and np.array_equal(first.runs, second.runs, equal_nan=True)


def _p_text(p_value: float) -> str:
    return f"p = {p_value:.3f}" if p_value >= 0.001 else "p < 0.001"


def _is_table(ranked: Ranked) -> bool:
    return isinstance(ranked, str | Path | Table) or (
        isinstance(ranked, pd.DataFrame) and "accuracy" in ranked
    )


def _long_rows(ranked: str | Path | Table | pd.DataFrame) -> pd.DataFrame:
    if isinstance(ranked, pd.DataFrame):
        if lacking := [name for name in REQUIRED if name not in ranked]:
            raise InputError(
                f"a frame to compare has the columns {', '.join(REQUIRED)}; this one lacks "
                f"{', '.join(lacking)}"
            )
        return ranked
    return (ranked if isinstance(ranked, Table) else open_table(ranked)).frame()


def _names(*tables: Ranked) -> list[str]:
    """What the tables are called, with their recipes where two of one table are compared."""
    names = []
    for table, plain in zip(tables, ("before", "after"), strict=True):
        if isinstance(table, Table):
            names.append(table.name)
        else:
            said = Path(table).stem if isinstance(table, Path) else table
            names.append(said if isinstance(said, str) else plain)
    if names[0] == names[1]:  # one table, of which two recipes were opened
        recipes = [table.recipe if isinstance(table, Table) else None for table in tables]
        names = [
            f"{name}@{recipe}" if recipe else name
            for name, recipe in zip(names, recipes, strict=True)
        ]
    return names
