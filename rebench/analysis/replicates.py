"""Second runs for a table with one run of each cell: the runs of equal cells.

Cells that are the same trainable network are two runs of it (`equal_cells`). In a table with one
run of each cell, every cell that has an equal cell is given the run of such a cell as its second
run. Seed tau of the table is then measured like that of a table with two seeds. Without equal cells
the table would have to be assumed to be as noisy as the other one.

Cells of one class share runs. So p-values come from a bootstrap over classes, which draws the
agreement of both tables together; runs cannot be exchanged between the tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from rebench.analysis.concordance import Floats, Ints
from rebench.analysis.equal_cells import EqualCells, partners
from rebench.analysis.paired import Accuracies, Paired
from rebench.analysis.seed_noise import Rng

__all__ = [
    "FEWEST_CLASSES",
    "assumed_equal",
    "shared_seed_bias",
    "with_replicates",
]

FEWEST_CLASSES: Final = 50
"""With fewer classes of equal cells the noise of a table is not estimated from them."""
# Equal cells of one run may share their seed and then agree more than different seeds do: by at
# most so much among the top K % of the three data sets of `nb201`, as measured by
# `experiments/published/equal_cells.py`.
_BIAS: Final = {5.0: 0.05, 10.0: 0.039, 20.0: 0.032, 50.0: 0.015, 100.0: 0.006}


def with_replicates(paired: Paired, rng: Rng = None) -> tuple[Paired, list[str]]:
    """Give second runs to tables with one run of each cell; say what was done, or assumed.

    Returns:
        The pair of the cells that have an equal cell, or the pair itself if both tables have seeds
        or the cells have too few equal cells; and notes.
    """
    single = [own.name for own in (paired.before, paired.after) if not own.has_seeds]
    if not single:
        return paired, []
    equal = EqualCells.of_networks(paired.before.cells, paired.classes)
    if equal.n_classes < FEWEST_CLASSES:
        if len(single) == 2:
            return paired, ["no seed noise to compare with: both tables have one seed a cell"]
        return paired, [
            f"{name} has one seed a cell: its noise is taken to be that of {other}"
            for name, other in assumed_equal(paired)
        ]
    cells = paired.take(equal.rows)
    partner = partners(equal.classes, rng)
    seed = min(*paired.before.seeds, *paired.after.seeds) - 1
    before, after = (
        own if own.has_seeds else _doubled(own, partner, seed)
        for own in (cells.before, cells.after)
    )
    note = (
        f"{' and '.join(single)}: one run of each cell, so seed tau is measured between cells that "
        f"are the same network ({len(equal.rows)} of the {len(paired)} cells, in "
        f"{equal.n_classes} classes); all figures are of these cells. If equal cells share their "
        "seed, this seed tau is too high: on nb201 by 0.005 over all cells, by 0.012 to 0.015 in "
        "the best half. The interval of `drop` and the p-values (bootstrap over classes) allow "
        "for it"
    )
    return replace(cells, before=before, after=after), [note]


def assumed_equal(paired: Paired) -> list[tuple[str, str]]:
    """Return the table whose noise can only be assumed, and the table that it is taken from."""
    equal = EqualCells.of_networks(paired.before.cells, paired.classes)
    if equal.n_classes >= FEWEST_CLASSES:
        return []
    pairs = ((paired.after, paired.before), (paired.before, paired.after))
    return [(own.name, other.name) for own, other in pairs if not own.has_seeds]


def _doubled(table: Accuracies, partner: Ints, seed: int) -> Accuracies:
    """Return a table whose second column, of another `seed`, holds the runs of equal cells."""
    runs = np.stack([table.means, table.means[partner]], axis=1)
    return replace(table, seeds=(table.seeds[0], seed), runs=runs, diverged=None)


def shared_seed_bias(top_percent: Sequence[float], tables: int) -> Floats:
    """Return by how much seed tau may be too high [K] where it is estimated in so many tables.

    Seed tau is the geometric mean of the agreement in both tables, so one table counts half.
    """
    return tables / 2 * np.interp(top_percent, list(_BIAS), list(_BIAS.values()))
