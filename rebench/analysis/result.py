"""Difference between two rankings of the same cells: its numbers and its verdict."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import pandas as pd

from rebench.analysis.accuracy_change import improvement
from rebench.analysis.choices import TOP_PERCENT
from rebench.analysis.common_scale import FEW_CELLS
from rebench.analysis.drop import rank_curve
from rebench.analysis.paired import Accuracies, Paired
from rebench.analysis.replicates import assumed_equal, has_replicates
from rebench.analysis.result_table import (
    LEVEL,
    as_html,
    as_latex,
    as_markdown,
    caption_of,
    rank_table,
    with_notes,
)
from rebench.analysis.seed_noise import Rng
from rebench.analysis.seed_tau import of_means, seed_jackknife
from rebench.analysis.tau import MIN_CELLS, refuse_small_top
from rebench.drawable import Drawable
from rebench.printable import number, probability, signed, span
from rebench.tables.columns import MEAN_SEED
from rebench.tables.seed_effects import ranks_of

__all__ = ["Contrast", "Reranking", "rerank"]

Contrast: TypeAlias = Literal["recipe", "pipeline", "pipeline and recipe"]
"""The aspect in which two tables differ. Other code (pipeline) trained the published table."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Reranking(Drawable):
    """Difference between two rankings, with confidence intervals and the seed baseline."""

    dataset: str
    """Data set, or two data sets joined by " against "."""
    split: str
    """Split of the accuracies, or two splits joined by " against "."""
    paired: Paired
    contrast: Contrast
    by: str | None
    """Name of the third table that selects the top K %; if None, the baseline selects them."""
    by_k: pd.DataFrame
    """One row per K: `top_percent`, `n_cells`, `tau`, `seed_tau` and `drop` with `_low` and `_high`
    (95 %), `corrected_tau`, `drop_error` (standard error), and `p_value` (at this K) and
    `p_family` (adjusted for all K) of no drop; `overlap`, `seed_overlap`, `regret` (points) and
    `seed_regret` with `_low` and `_high`."""
    notes: tuple[str, ...]
    p_adjusted: float | None = None
    """The p-value adjusted for the other comparisons of the same study (Holm)."""
    comparisons: int = 1
    """Number of comparisons that `p_adjusted` allows for, including this comparison."""

    @property
    def baseline(self) -> Accuracies:
        """Return the benchmark or the baseline recipe, on the cells that both tables contain."""
        return self.paired.baseline

    @property
    def other(self) -> Accuracies:
        """Return the re-trained table, on the same cells."""
        return self.paired.other

    @functools.cached_property
    def _with_means(self) -> pd.DataFrame:
        """Return one row per K: `rank_curve` and `of_means`."""
        top = self.by_k["top_percent"].tolist()
        return self.by_k.merge(of_means(self.paired, top), on="top_percent")

    @property
    def p_value(self) -> float:
        """Return the p-value of no difference, adjusted for all K; NaN if not computable."""
        return float(self.by_k["p_family"].min())

    @property
    def p_of_verdict(self) -> float:
        """Return the p-value of the verdict, adjusted for all comparisons of a study, if any."""
        return self.p_value if self.p_adjusted is None else self.p_adjusted

    @property
    def p_adjusted_by_k(self) -> dict[float, float]:
        """Return the p-value at each K, adjusted for all K and for all comparisons of a study."""
        factor = self.p_of_verdict / self.p_value
        values = np.minimum(self.by_k["p_family"] * factor, 1)
        return dict(zip(self.by_k["top_percent"], values, strict=True))

    @property
    def name(self) -> str:
        """Return the names of both tables and of the data set."""
        compared = f"{self.other.name} against {self.baseline.name}"
        together = "" if self.contrast == "recipe" else f" ({self.contrast})"
        on = f", {self.dataset}" if self.dataset and " against " not in self.dataset else ""
        return f"{compared}{together}{on}"

    @property
    def chooser(self) -> str:
        """Return the name of the table that selects the top K %, or "one seed of" and this name."""
        if self.by is not None:
            return self.by
        return f"one seed of {self.baseline.name}" if self.by_one_seed else self.baseline.name

    @property
    def by_one_seed(self) -> bool:
        """Return whether one seed of the baseline selects cells, and the others are measured."""
        smallest = float(self.by_k["top_percent"].min())
        return self.by is None and smallest < 100 and bool(self.paired.choosers)

    @property
    def measured(self) -> str:
        """Return the scope of the comparison: cells, seeds, data set, split and epochs."""
        tables = (self.other, self.baseline)
        seeds = " against ".join(dict.fromkeys(map(_seeds, tables)))
        epochs = " against ".join(dict.fromkeys(f"{own.epochs}" for own in tables if own.epochs))
        parts = [f"{len(self.baseline.cells):,} cells", seeds]
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
    def corrected_tau(self) -> float:
        """Return the corrected tau at the largest K: tau divided by seed tau.

        It is NaN if seed tau is at most 0.1.

        This is the correction for attenuation of Spearman (Am. J. Psychol. 15, 1904, 72-101). It is
        exact for Pearson's correlation. The drop shrinks as noise grows; the corrected tau grows a
        little (`docs/explanation/analysis.md`).
        """
        return float(self._whole["corrected_tau"])

    @property
    def _whole(self) -> pd.Series[float]:
        return self.by_k.nlargest(1, "top_percent").iloc[0]

    @functools.cached_property
    def improvement(self) -> dict[str, float]:
        """Return the mean change of accuracy and the share of improved cells, with intervals.

        Keys: `n_cells`, `n_classes`, `difference` (points) with `low`, `high` and `p_value`, and
        `improved` (from 0 to 1) with `_low` and `_high`.
        """
        return improvement(self.paired)

    @functools.cached_property
    def top(self) -> pd.DataFrame:
        """Return the ten best cells before and after: index, means, ranks and difference."""
        table = pd.DataFrame({"index": self.baseline.cells})
        for side, accuracies in (("baseline", self.baseline), ("other", self.other)):
            means = accuracies.centred_means
            table[side] = accuracies.means
            table[f"rank_{side}"] = ranks_of(means, np.sort(means))
        table["difference"] = table["other"] - table["baseline"]
        best = table[(table["rank_baseline"] <= 10) | (table["rank_other"] <= 10)]
        return best.sort_values(["rank_other", "rank_baseline", "index"]).reset_index(drop=True)

    def jackknife(self) -> pd.DataFrame:
        """Return `drop` at each K with a 95 % interval and a p-value by a jackknife over seeds.

        They are NaN if a table has fewer than three seeds. Seed tau is between 0 and 1 and tau
        between -1 and 1, so the interval ends at -1 and 2.
        """
        top = self.by_k["top_percent"].tolist()
        found = seed_jackknife(self.paired, top)
        found[["drop_low", "drop_high"]] = found[["drop_low", "drop_high"]].clip(-1, 2)
        return found

    def frame(self) -> pd.DataFrame:
        """Return one row per K: the columns of `by_k`, and the agreement of means over seeds.

        The agreement is in the columns `means_tau`, `spearman` and `weighted_tau`.
        """
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
        return self.baseline.space.worded(self._verdict)

    @property
    def _verdict(self) -> str:
        if impossible := self._impossible:
            return f"No comparison is possible: {impossible}"
        curve = self.by_k.dropna(subset=["tau"])
        largest = curve.nlargest(1, "top_percent").iloc[0]
        if curve["seed_tau"].isna().all():
            few = self.baseline.has_seeds or self.other.has_seeds
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
        if not math.isfinite(self.p_of_verdict):
            return f"No p-value can be given; the notes say why. {_numbers(largest)}. {self._scope}"
        if self.p_of_verdict <= LEVEL:
            claim = "The rankings differ by more than seeds explain."
            row = curve.loc[curve["p_family"].idxmin()]
            warnings = [
                f"{name} has one value per cell, so its noise is unknown. This verdict assumes "
                f"that {name} is no noisier than {other}. To check this, give a table of {name} "
                "with several seeds."
                for name, other in assumed_equal(self.paired)
            ]
            if row["drop_low"] <= 0:
                why = "p is from means over seeds, which are less noisy than the single runs of tau"
                if has_replicates(self.paired):
                    why = "p is one-sided, and the interval is two-sided"
                warnings.insert(
                    0, f"The interval of this drop contains 0, so its size is unknown: {why}."
                )
        else:
            claim, row = "No difference was detected.", largest
            warnings = []
            if largest["drop_high"] < 0:
                warnings.append(
                    "Tau is above seed tau: the tables agree more than independent runs do. Check "
                    "whether they share runs."
                )
        p_text = f"{_p_text(self.p_adjusted_by_k[row['top_percent']])}, adjusted for all K"
        if self.comparisons > 1:
            p_text += f" and {self.comparisons} comparisons"
        return " ".join([claim, f"{_numbers(row, p_text)}.", self._scope, *warnings])

    @property
    def _impossible(self) -> str:
        """Return why the rankings cannot be compared, and what to do; empty if they can."""
        baseline, other, n = self.baseline.name, self.other.name, len(self.baseline.cells)
        if self.by_k["tau"].isna().all():
            if (most := int(self.by_k["n_cells"].max())) >= MIN_CELLS:
                return f"all cells are tied in {baseline} or {other}."
            if n >= MIN_CELLS:
                return (
                    f"only {most} of the {n} cells have enough runs and {MIN_CELLS} are needed. "
                    "Train the missing runs."
                )
            return (
                f"the tables have {n} cells in common and {MIN_CELLS} are needed. Train more of "
                "the same cells."
            )
        if self.improvement["n_classes"] == 1:
            return (
                f"the {n} cells are one network (equal cells), so only noise orders them. Give "
                "cells of different networks."
            )
        return ""

    @property
    def _scope(self) -> str:
        """Return the scope (common facts, then a sentence about each table), and the accuracies."""
        tables = (self.other, self.baseline)
        on = "" if " against " in self.dataset else self.dataset  # else the names say it
        splits = (self.split.split(" against ") * 2)[:2] if self.dataset else ["", ""]
        facts = [
            tuple(map(_seeds, tables)),
            tuple(f"{on} {split}".strip() for split in splits),
            tuple(f"{own.epochs} epochs" if own.epochs else "" for own in tables),
        ]
        common = [f"{len(self.baseline.cells):,} cells", *(a for a, b in facts if a == b and a)]
        said = [", ".join(common)]
        for at, table in enumerate(tables):
            if own := ", ".join(pair[at] for pair in facts if len({*pair}) > 1 and pair[at]):
                said.append(f"{table.name}: {own}")
        if on == self.dataset:  # accuracies on two data sets are not comparable
            said.append(self._difference)
        return " ".join(f"{part}." for part in said)

    @property
    def _difference(self) -> str:
        """Return the difference of the measure between both tables, with its interval."""
        row, measure = self.improvement, self.baseline.measure
        better = f"in {100 * row['improved']:.0f} % of the cells"
        names = f"of {self.other.name} minus that of {self.baseline.name}"
        if measure.is_percent:
            value, low, high = (signed(row[name]) for name in ("difference", "low", "high"))
            return f"Accuracy {names}: {value} points (95 % CI {low} to {high}), above 0 {better}"
        limits = sorted(measure.goodness(np.array([row["low"], row["high"]])).tolist())
        value = f"{measure.goodness(np.array(row['difference'])):+.3g} {measure.unit}".strip()
        interval = f"(95 % CI {limits[0]:+.3g} to {limits[1]:+.3g})"
        name = measure.name[:1].upper() + measure.name[1:]
        return f"{name} {names}: {value} {interval}, better {better}"


def rerank(
    paired: Paired,
    *,
    dataset: str,
    split: str = "ori-test",
    top_percent: Sequence[float] = TOP_PERCENT,
    by: str | None = None,
    draws: int = 1000,
    contrast: Contrast = "recipe",
    rng: Rng = None,
) -> Reranking:
    """Compare the two tables of a pair.

    Args:
        paired: accuracies of the same cells in both tables.
        dataset: name of the data set, for texts only.
        split: name of the split, for texts only.
        top_percent: the values of K.
        by: name of the third table of the pair, if it has one.
        draws: bootstrap draws, and permutations for the p-values; see `compare`.
        contrast: the aspect in which the tables differ, for texts only.
        rng: source of all random draws.
    """
    curve, notes = rank_curve(paired, top_percent, draws=draws, rng=rng)
    if curve["n_cells"].max() < MIN_CELLS:
        refuse_small_top(len(paired), top_percent)
    return Reranking(
        dataset=dataset,
        split=split,
        paired=paired,
        contrast=contrast,
        by=by,
        by_k=curve,
        notes=tuple(map(paired.baseline.space.worded, (*paired.notes, *notes))),
    )


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
