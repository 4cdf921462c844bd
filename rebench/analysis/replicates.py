"""Second runs for a table with one run of each cell: the runs of equal cells.

The runs of equal cells are runs of the same trainable network (`equal_cells`). If a table has one
run of each cell, the run of an equal cell serves as the second run. Seed tau is then computed as
for a table with two seeds. Without equal cells, the noise of the other table would have to be
assumed.

Cells of one class share runs, so a permutation test cannot exchange runs between the tables. The
p-values come from a bootstrap over classes, which draws both tables together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from rebench.analysis.equal_cells import EqualCells, partners
from rebench.analysis.paired import Accuracies, Paired
from rebench.analysis.seed_noise import Rng
from rebench.analysis.tau import Floats, Ints

__all__ = [
    "FEWEST_CLASSES",
    "assumed_equal",
    "has_replicates",
    "shared_seed_bias",
    "with_replicates",
]

FEWEST_CLASSES: Final = 50
"""Smallest number of classes of equal cells from which noise is estimated."""
# Equal cells that share their seed agree more than different seeds do. The values are the largest
# bias of seed tau among the top K % on the three data sets of `nb201`, as measured by
# `experiments/published/equal_cells.py`.
_BIAS: Final = {5.0: 0.05, 10.0: 0.039, 20.0: 0.032, 50.0: 0.015, 100.0: 0.006}


def with_replicates(paired: Paired, rng: Rng = None) -> tuple[Paired, list[str]]:
    """Give second runs to tables with one run of each cell; return notes on the method.

    Returns:
        The pair of the cells that have an equal cell, and notes. If both tables have seeds, or
        there are too few equal cells, the pair is returned unchanged.
    """
    single = [own for own in (paired.baseline, paired.other) if not own.has_seeds]
    if not single:
        return paired, []
    equal = EqualCells.of_networks(paired.baseline.cells, paired.classes, paired.baseline.space)
    if equal.n_classes < FEWEST_CLASSES:
        if len(single) == 2:
            return paired, ["seed tau is not known: both tables have one seed per cell"]
        return paired, [
            f"{name} has one seed per cell: its noise is assumed to be that of {other}"
            for name, other in assumed_equal(paired)
        ]
    cells = paired.take(equal.rows)
    partner = partners(equal.classes, rng)
    seed = min(*paired.baseline.seeds, *paired.other.seeds) - 1
    baseline, other = (
        own if own.has_seeds else _doubled(own, partner, seed)
        for own in (cells.baseline, cells.other)
    )
    notes = [
        f"{own.name}: one {own.value} of each cell, so seed tau is measured between cells that are "
        f"the same network ({len(equal.rows)} of the {len(paired)} cells, in {equal.n_classes} "
        "classes); all figures are of these cells"
        + ("" if own.value == "run" else ". Means over seeds agree more than single runs do")
        for own in single
    ]
    shared = (
        "If equal cells share their seed, seed tau between them is too high: on nb201 by 0.005 "
        "over all cells, by 0.012 to 0.015 in the best half. The interval of `drop` and the "
        "p-values (bootstrap over classes) allow for it"
    )
    return replace(cells, baseline=baseline, other=other), [*notes, shared]


def has_replicates(paired: Paired) -> bool:
    """Return whether `with_replicates` gives second runs to a table of the pair."""
    if paired.baseline.has_seeds and paired.other.has_seeds:
        return False
    equal = EqualCells.of_networks(paired.baseline.cells, paired.classes, paired.baseline.space)
    return equal.n_classes >= FEWEST_CLASSES


def assumed_equal(paired: Paired) -> list[tuple[str, str]]:
    """Return names of tables with assumed noise, each with the table that gives the noise."""
    if has_replicates(paired):
        return []
    pairs = ((paired.other, paired.baseline), (paired.baseline, paired.other))
    return [(own.name, other.name) for own, other in pairs if not own.has_seeds]


def _doubled(table: Accuracies, partner: Ints, seed: int) -> Accuracies:
    """Return a table with a second column: the runs of equal cells, under another `seed`."""
    runs = np.stack([table.means, table.means[partner]], axis=1)
    return replace(table, seeds=(table.seeds[0], seed), runs=runs, diverged=None)


def shared_seed_bias(top_percent: Sequence[float], tables: int) -> Floats:
    """Return the largest bias of seed tau [K] if it is estimated in this number of tables.

    Seed tau is the geometric mean of the agreement in both tables, so one table counts half.
    """
    return tables / 2 * np.interp(top_percent, list(_BIAS), list(_BIAS.values()))
