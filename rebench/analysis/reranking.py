"""Comparison of two rankings of the same cells: `compare`, its result and its verdict."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from rebench.analysis.choices import MOST_DRAWS, TOP_PERCENT, Selection
from rebench.analysis.common_scale import FEW_CELLS
from rebench.analysis.concordance import MIN_CELLS
from rebench.analysis.curve import rank_curve
from rebench.analysis.improvement import improvement
from rebench.analysis.paired import Accuracies, Paired, read_accuracies, usual_split_of
from rebench.analysis.rank_table import (
    LEVEL,
    as_html,
    as_latex,
    as_markdown,
    caption_of,
    rank_table,
    with_notes,
)
from rebench.analysis.ranking import of_means, seed_jackknife
from rebench.analysis.replicates import assumed_equal
from rebench.analysis.seed_noise import Rng
from rebench.arguments import Between, checked
from rebench.drawable import Drawable
from rebench.errors import InputError, UnknownNameError
from rebench.printable import number, probability, signed, span
from rebench.tables import Table, open_table
from rebench.tables.columns import MEAN_SEED, REQUIRED, usual_split

__all__ = ["Contrast", "Reranking", "compare", "rerank", "third_table"]

Contrast: TypeAlias = Literal["recipe", "pipeline", "pipeline and recipe"]
"""The aspect in which two tables differ. Other code (pipeline) trained the published table."""

Ranked: TypeAlias = str | Path | Table | pd.DataFrame | ArrayLike
"""A ranking to compare: the name of a table (NAME@RECIPE selects a recipe), a table, its long rows,
or accuracies [cells] or [cells, seeds]."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Reranking(Drawable):
    """Difference between two rankings, with confidence intervals and the seed baseline."""

    dataset: str
    split: str
    paired: Paired
    contrast: Contrast
    by: Selection | str
    """Table that selects the top K %: one of the two, or the name of a third table."""
    by_k: pd.DataFrame
    """`rank_curve`: one row per K."""
    notes: tuple[str, ...]
    p_adjusted: float | None = None
    """The p-value adjusted for the other comparisons of the same study (Holm)."""
    comparisons: int = 1
    """Number of comparisons that `p_adjusted` allows for, including this comparison."""

    @property
    def before(self) -> Accuracies:
        """Return the benchmark or the baseline recipe, on the cells that both tables contain."""
        return self.paired.before

    @property
    def after(self) -> Accuracies:
        """Return the re-trained table, on the same cells."""
        return self.paired.after

    @functools.cached_property
    def _with_means(self) -> pd.DataFrame:
        """Return one row per K: `rank_curve` and `of_means`."""
        top = self.by_k["top_percent"].tolist()
        return self.by_k.merge(of_means(self.paired, top, by=_own(self.by)), on="top_percent")

    @property
    def p_value(self) -> float:
        """Return the p-value of no difference, adjusted for all K; NaN if not computable."""
        return float(self.by_k["p_family"].min())

    @property
    def p_judged(self) -> float:
        """Return the p-value of the verdict, adjusted for all comparisons of a study, if any."""
        return self.p_value if self.p_adjusted is None else self.p_adjusted

    @property
    def p_by_percent(self) -> dict[float, float]:
        """Return the p-value at each K, adjusted for all K and for all comparisons of a study."""
        factor = self.p_judged / self.p_value
        values = np.minimum(self.by_k["p_family"] * factor, 1)
        return dict(zip(self.by_k["top_percent"], values, strict=True))

    @property
    def name(self) -> str:
        """Return the names of both tables and of the data set."""
        compared = f"{self.after.name} against {self.before.name}"
        together = "" if self.contrast == "recipe" else f" ({self.contrast})"
        on = f", {self.dataset}" if self.dataset and " against " not in self.dataset else ""
        return f"{compared}{together}{on}"

    @property
    def chooser(self) -> str:
        """Return the name of the table that selects the top K %."""
        known = {"benchmark": self.before.name, "retrained": self.after.name}
        return known.get(self.by, "either table" if self.by == "either" else self.by)

    @property
    def measured(self) -> str:
        """Return the scope of the comparison: cells, seeds, data set, split and epochs."""
        tables = (self.after, self.before)
        seeds = " against ".join(dict.fromkeys(map(_seeds, tables)))
        epochs = " against ".join(dict.fromkeys(f"{own.epochs}" for own in tables if own.epochs))
        parts = [f"{len(self.before.cells):,} cells", seeds]
        if self.dataset:
            two = " against " in f"{self.dataset} {self.split}"
            parts.append(f"{self.dataset}{', ' if two else ' '}{self.split}")
        return ", ".join([*parts, f"{epochs} epochs"] if epochs else parts)

    @property
    def tau(self) -> float:
        """Return tau between runs of both tables with different seeds, for the largest top K %."""
        return float(self._whole["tau"])

    @property
    def seed_tau(self) -> float:
        """Return tau between runs of one recipe with different seeds, for the largest top K %."""
        return float(self._whole["seed_tau"])

    @property
    def drop(self) -> tuple[float, float, float]:
        """Return seed tau minus tau at the largest K, and the ends of its 95 % interval."""
        return tuple(float(self._whole[name]) for name in ("drop", "drop_low", "drop_high"))  # type: ignore[return-value]  # three of them

    @property
    def ratio(self) -> float:
        """Return the corrected tau at the largest K: tau divided by seed tau.

        This is the correction for attenuation of Spearman (Am. J. Psychol. 15, 1904, 72-101). The
        drop shrinks as noise grows; the corrected tau does not.
        """
        return float(self._whole["ratio"])

    @property
    def detectable(self) -> float:
        """Return the drop at the largest K that about half of such studies detect; NaN if unknown.

        It is 2.5 standard errors, more with several comparisons. Infinity means that no possible
        drop is so large: tau is at least -1.
        """
        # For one K and normal estimates the power would be 80 %. In simulations of the test, which
        # is adjusted for all K, it was mostly 30 to 60 %.
        errors = special.ndtri(1 - LEVEL / self.comparisons) + special.ndtri(0.8)
        drop = float(errors * self._whole["drop_error"])
        return math.inf if drop > self.seed_tau + 1 else drop

    @property
    def _whole(self) -> pd.Series[float]:
        return self.by_k.nlargest(1, "top_percent").iloc[0]

    @functools.cached_property
    def improvement(self) -> dict[str, float]:
        """Return `improvement` of the pair."""
        return improvement(self.paired)

    @functools.cached_property
    def top(self) -> pd.DataFrame:
        """Return the ten best cells before and after: `index`, both means, both ranks."""
        table = pd.DataFrame({"index": self.before.cells})
        for side, means in (("before", self.before.means), ("after", self.after.means)):
            table[side] = means
            table[f"rank_{side}"] = table[side].rank(ascending=False, method="min").astype(int)
        table["difference"] = table["after"] - table["before"]
        best = table[(table["rank_before"] <= 10) | (table["rank_after"] <= 10)]
        return best.sort_values(["rank_after", "rank_before", "index"]).reset_index(drop=True)

    def jackknife(self) -> pd.DataFrame:
        """Return `seed_jackknife`: `drop` at each K with an interval over seeds."""
        return seed_jackknife(self.paired, self.by_k["top_percent"].tolist())

    def frame(self) -> pd.DataFrame:
        """Return one row per K: tau, seed tau and drop with intervals, ratio, p-values."""
        return self._with_means.copy()

    def to_csv(self, path: str | Path | None = None) -> str | None:
        """Write `frame` as CSV into a file, or return it as text."""
        return self._with_means.to_csv(path, index=False)

    def to_markdown(self) -> str:
        """Return the table of all K as Markdown."""
        return as_markdown(rank_table([self]))

    def to_latex(self, label: str = "tab:rank") -> str:
        """Return the table of all K as LaTeX (package booktabs); its caption states the method."""
        return as_latex(rank_table([self]), caption_of([self]), label)

    def __str__(self) -> str:
        """Return the names of both tables and the verdict, then a line for each note."""
        return with_notes(f"{self.name}: {self.sentence}", self.notes)

    def _repr_html_(self) -> str:
        return as_html(str(self), rank_table([self]).to_html(index=False))

    @property
    def sentence(self) -> str:
        """Return the verdict: claim, numbers, interval, p-value, scope, then warnings."""
        curve = self.by_k.dropna(subset=["tau"])
        before, after, n = self.before.name, self.after.name, len(self.before.cells)
        if curve.empty:
            if (most := int(self.by_k["n_cells"].max())) >= MIN_CELLS:
                return f"No comparison is possible: all cells are tied in {before} or {after}."
            if n >= MIN_CELLS:
                return (
                    f"No comparison is possible: the top {self.by_k['top_percent'].max():g} % of "
                    f"{n} cells are {most} cells and {MIN_CELLS} are needed. Give a larger K."
                )
            return (
                f"No comparison is possible: the tables have {n} cells in common and {MIN_CELLS} "
                "are needed. Train more of the same cells."
            )
        largest = curve.nlargest(1, "top_percent").iloc[0]
        if curve["seed_tau"].isna().all():
            few = self.before.has_seeds or self.after.has_seeds
            why = (
                f"fewer than {FEW_CELLS} cells have two seeds in both tables"
                if few
                else "both tables have one value per cell"
            )
            return (
                f"A difference cannot be told from the effect of seeds, because {why}. "
                f"{_numbers(largest)}. {self._scope} Train a second seed"
                f"{' of more cells' if few else ''}, or give a table with several seeds."
            )
        if not math.isfinite(self.p_judged):
            return f"No p-value can be given; the notes say why. {_numbers(largest)}. {self._scope}"
        if self.p_judged <= LEVEL:
            claim = "The rankings differ by more than seeds explain."
            row = curve.loc[curve["p_family"].idxmin()]
            warnings = [
                f"{name} has one value per cell, so its noise is unknown. This verdict assumes "
                f"that {name} is no noisier than {other}. To check this, give a table of {name} "
                "with several seeds."
                for name, other in assumed_equal(self.paired)
            ]
        else:
            claim, row = "No difference was detected.", largest
            warnings = self._limits(largest)
        p_text = f"{_p_text(self.p_by_percent[row['top_percent']])}, adjusted for all K"
        if self.comparisons > 1:
            p_text += f" and {self.comparisons} comparisons"
        return " ".join([claim, f"{_numbers(row, p_text)}.", self._scope, *warnings])

    @property
    def _scope(self) -> str:
        """Return the scope (common facts, then a sentence about each table), and the accuracies."""
        tables = (self.after, self.before)
        on = "" if " against " in self.dataset else self.dataset  # else the names say it
        splits = (self.split.split(" against ") * 2)[:2] if self.dataset else ["", ""]
        facts = [
            tuple(map(_seeds, tables)),
            tuple(f"{on} {split}".strip() for split in splits),
            tuple(f"{own.epochs} epochs" if own.epochs else "" for own in tables),
        ]
        common = [f"{len(self.before.cells):,} cells", *(a for a, b in facts if a == b and a)]
        said = [", ".join(common)]
        for at, table in enumerate(tables):
            if own := ", ".join(pair[at] for pair in facts if len({*pair}) > 1 and pair[at]):
                said.append(f"{table.name}: {own}")
        row = self.improvement
        value, low, high = (signed(row[name]) for name in ("difference", "low", "high"))
        if on == self.dataset:  # accuracies on two data sets are not comparable
            said.append(
                f"Accuracy of {self.after.name} minus that of {self.before.name}: {value} points "
                f"(95 % CI {low} to {high}), above 0 in {100 * row['improved']:.0f} % of the cells"
            )
        return " ".join(f"{part}." for part in said)

    def _limits(self, row: pd.Series[float]) -> list[str]:
        """Return the smallest drop that would have been detected, and a tau above seed tau."""
        said = []
        if math.isinf(self.detectable):
            said.append("No drop can be detected with these data: they are too few or too noisy.")
        elif math.isfinite(self.detectable):
            said.append(
                f"With {row['n_cells']:,.0f} cells, about half of such studies would miss a drop "
                f"of {self.detectable:.2g}."
            )
        if row["drop_high"] < 0:
            said.append(
                "Tau is above seed tau: the tables agree more than independent runs do. Check "
                "whether they share runs."
            )
        return said


@checked
def compare(
    before: Ranked,
    after: Ranked,
    *,
    dataset: str | None = None,
    against_dataset: str | None = None,
    split: str | None = None,
    epochs: int | None = None,
    top_percent: Sequence[float] = TOP_PERCENT,
    by: Selection | Ranked = "benchmark",
    draws: Annotated[int, Between(0, MOST_DRAWS)] = 1000,
    seed: Annotated[int, Between(0)] = 0,
) -> Reranking:
    """Compare two rankings of the same cells, and their difference with the effect of seeds.

    Args:
        before: the benchmark or the baseline recipe (see `Ranked`).
        after: the re-trained table.
        dataset: data set of `before`, and of `after` if `against_dataset` is None; if None, the
            only data set that both tables contain.
        against_dataset: data set of `after`, to compare different data sets on purpose.
        split: where accuracies are measured; if None, the whole test set or a part of it.
        epochs: number of epochs; if None, the longest training of each table.
        top_percent: the values of K.
        by: table that selects the top K %: `benchmark` (the first), `retrained` (the second),
            `either`, or a third table with noise that is independent of both.
        draws: bootstrap draws, and permutations for the p-values.
        seed: seed of all random draws: equal seeds give equal results.
    """
    values = [ranked for ranked in (before, after) if not _is_table(ranked)]
    chosen: list[str] = []
    if len(values) == 1:
        raise InputError(
            "compare takes two tables, or two arrays of accuracies, got a table and an array"
        )
    if values:
        paired = Paired.of_values(before, after)  # type: ignore[arg-type]  # no tables
        means = np.concatenate([paired.before.means, paired.after.means])
        if 0 <= means.min() <= means.max() <= 1:
            said = (
                "no accuracy is above 1; if these are fractions, multiply them by 100, because the "
                "difference of accuracies is printed in percentage points"
            )
            paired = replace(paired, notes=(*paired.notes, said))
    else:
        names = _names(before, after)
        rows = [_long_rows(ranked) for ranked in (before, after)]  # type: ignore[arg-type]  # tables
        chosen = _data_sets(rows, names, dataset, against_dataset)
        if chosen[0] != chosen[1]:
            names = [f"{name} on {on}" for name, on in zip(names, chosen, strict=True)]
        rows = [own[own["dataset"] == name] for own, name in zip(rows, chosen, strict=True)]
        shared = chosen[0] == chosen[1]
        measured = [split or usual_split_of(*(rows if shared else [own])) for own in rows]
        first, second = (
            read_accuracies(
                own,
                dataset=on,
                split=part,
                epochs=epochs or int(own.loc[own["split"] == part, "epochs"].max()),
                name=name,
            )
            for own, on, part, name in zip(rows, chosen, measured, names, strict=True)
        )
        dataset, split = (" against ".join(dict.fromkeys(own[::-1])) for own in (chosen, measured))
        if _equal(first, second):
            raise InputError(
                f"{first.name} and {second.name} contain the same runs ({len(first.cells)} cells): "
                "give two tables of different runs, or NAME@RECIPE for two recipes of a table"
            )
        paired = Paired.of(first, second)
    if not (isinstance(by, str) and by in get_args(Selection)):
        third = third_table(by, chosen[0] if chosen else "")
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
        by_k=curve,
        notes=(*paired.notes, *notes),
    )


def _data_sets(
    rows: Sequence[pd.DataFrame],
    names: Sequence[str],
    dataset: str | None,
    against_dataset: str | None,
) -> list[str]:
    """Return the data sets of both tables: the same data set, unless the user names two."""
    own = [sorted(map(str, table["dataset"].unique())) for table in rows]
    shared = sorted({*own[0]} & {*own[1]})
    contents = "; ".join(
        f"{name}: {', '.join(known)}" for name, known in zip(names, own, strict=True)
    )
    two = "to compare different ones, name the second with against_dataset (--against-dataset)"
    if against_dataset is None:
        if dataset is None and len(shared) != 1:
            what = "share no data set" if not shared else f"share {len(shared)} data sets"
            raise InputError(f"the tables {what} ({contents}): name one with --dataset; {two}")
        if dataset is not None and dataset not in shared:
            raise InputError(f"dataset must be in both tables, got {dataset} ({contents}); {two}")
        return [dataset or shared[0]] * 2
    wanted = [dataset or own[0][0], against_dataset]
    if dataset is None and len(own[0]) > 1:
        raise InputError(f"name the data set of {names[0]} with dataset ({contents})")
    for name, known, one in zip(names, own, wanted, strict=True):
        if one not in known:
            raise UnknownNameError(f"data set of {name}", one, known)
    return wanted


def third_table(by: Ranked, dataset: str) -> Accuracies:
    """Return the accuracies that select the top K %, of all runs of the longest training.

    The data set is `dataset`, or the only one whose name continues it or begins it, such as
    `cifar10-valid` for `cifar10`.
    """
    named = isinstance(by, str | Path | Table)
    name = _names(by, "")[0] if named else "the third table"
    if not _is_table(by):
        return replace(Paired.of_values(by, by).before, name=name)  # type: ignore[arg-type]  # no table
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
        raise UnknownNameError(f"data set of {name}, which selects the top K %", dataset, known)
    rows = rows[rows["dataset"] == alike[0]]
    split = usual_split(rows["split"].unique())
    epochs = int(rows.loc[rows["split"] == split, "epochs"].max())
    return read_accuracies(rows, dataset=alike[0], split=split, epochs=epochs, name=name)


def _own(by: Selection | str) -> Selection:
    """Return `by` if it means one of the two tables.

    If a third table selects the cells, return `benchmark`, which then has no effect.
    """
    return by if by in get_args(Selection) else "benchmark"  # type: ignore[return-value]  # tested


def _equal(first: Accuracies, second: Accuracies) -> bool:
    """Return whether two tables contain the same runs of the same cells."""
    same = first.seeds == second.seeds and np.array_equal(first.cells, second.cells)
    return same and np.array_equal(first.runs, second.runs, equal_nan=True)


def _numbers(row: pd.Series[float], p_text: str = "") -> str:
    """Return K, tau, seed tau and the drop with its interval and p-value, as text."""
    said = f"Top {row['top_percent']:g} %: tau = {number(row['tau'])}"
    if not math.isfinite(row["drop"]):
        return said
    interval = span(row["drop_low"], row["drop_high"])
    inside = "; ".join(filter(None, [f"95 % CI {interval}" if interval else "", p_text]))
    said += f", seed tau = {number(row['seed_tau'])}: a drop of {number(row['drop'])}"
    return f"{said} ({inside})" if inside else said


def _p_text(p_value: float) -> str:
    return f"p {'' if p_value < 0.001 else '= '}{probability(p_value)}"


def _seeds(table: Accuracies) -> str:
    """Return how many seeds the cells of a table have, as text: "3 seeds" or "2 to 3 seeds"."""
    if table.seeds == (MEAN_SEED,):
        return "a mean over seeds"
    number_of = " to ".join(dict.fromkeys((f"{table.counts.min()}", f"{table.counts.max()}")))
    return f"{number_of} seed{'s' * (number_of != '1')}"


def _is_table(ranked: Ranked) -> bool:
    return isinstance(ranked, str | Path | Table) or (
        isinstance(ranked, pd.DataFrame) and "accuracy" in ranked
    )


def _long_rows(ranked: str | Path | Table | pd.DataFrame) -> pd.DataFrame:
    if isinstance(ranked, pd.DataFrame):
        if lacking := [name for name in REQUIRED if name not in ranked]:
            raise InputError(
                f"a frame to compare needs the columns {', '.join(REQUIRED)}; "
                f"{', '.join(lacking)} missing: rename or add them"
            )
        return ranked
    return (ranked if isinstance(ranked, Table) else open_table(ranked)).frame()


def _names(*tables: Ranked) -> list[str]:
    """Return the names of two sides of a comparison: the names of their tables.

    If both sides come from the same table, the names of the recipes are added.
    """
    names = []
    for table, plain in zip(tables, ("before", "after"), strict=True):
        if isinstance(table, Table):
            names.append(table.name)
        else:
            said = Path(table).stem if isinstance(table, Path) else table
            names.append(said if isinstance(said, str) else plain)
    if names[0] == names[1]:  # two recipes of one table
        recipes = [table.recipe if isinstance(table, Table) else None for table in tables]
        names = [
            f"{name}@{recipe}" if recipe else name
            for name, recipe in zip(names, recipes, strict=True)
        ]
    return names
