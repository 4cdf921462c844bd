"""Ranks and means of the cells of one table, with intervals from the noise between seeds.

The interval of a cell's rank follows Mogstad, Romano, Shaikh and Wilhelm (Review of Economic
Studies, 2024): compare the cell with every other cell at one simultaneous level, and count the
cells that are significantly better and those that are significantly worse. Differences of means are
normal, with the variance of one run pooled over cells of similar accuracy (`pooled_sd`). The
critical value compares many cells with one cell (Dunnett, JASA 1955, with unequal variances). It is
widened to Student's distribution with the degrees of freedom of one pooled variance.

Cells with an interval from rank 1 cannot be separated from the best cell. They are the subset
selection of Gupta (Technometrics, 1965): this set contains the truly best cell with a probability
of at least 95 %. `scripts/bench/calibration.py` measures the coverage in simulated tables.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from rebench.analysis.paired import Accuracies
from rebench.analysis.seed_noise import reach
from rebench.analysis.tau import Floats
from rebench.errors import InputError
from rebench.intervals import student_reach
from rebench.tables.seed_effects import means_of, ranks_of

__all__ = ["critical_values", "mean_half_width", "rank_intervals"]

_LEVEL: Final = 0.95
# Level of the test whether the runs of a cell differ more than those of similar cells.
_OUTLYING: Final = 0.001
# Number of groups of cells with similar standard deviation; each group is computed with one value.
_BINS: Final = 24
# Nodes of the integral over the noise of the compared cell.
_NODES: Final = 97
_HALVINGS: Final = 25
# Largest number of groups of cells with similar standard error. If there are fewer cells, each cell
# is a group.
_GROUPS: Final = 128


def rank_intervals(table: Accuracies, cells: Sequence[int | str] | None = None) -> pd.DataFrame:
    """Rank cells by their mean over seeds, with 95 % intervals from the noise between seeds.

    Args:
        table: accuracies, two seeds or more of some cells.
        cells: the cells to return; all if None. Each is ranked among all cells.

    Returns:
        A row per cell, by index: `mean` (without the common effect of each seed), `rank` (1 is the
        best; ties share the better rank), `rank_low`, `rank_high`, and `may_be_best`, true where
        the cell cannot be separated from the best.
    """
    if not table.has_seeds:
        raise InputError(
            f"ranks of {table.name} have no interval: it has one run of each cell, and two seeds "
            "of some cells are needed; give a table with seeds"
        )
    asked = table.cells if cells is None else np.asarray(cells, dtype=table.cells.dtype)
    rows = np.searchsorted(table.cells, asked)
    known = rows < len(table.cells)
    known[known] = table.cells[rows[known]] == asked[known]
    if not known.all():
        raise InputError(f"{table.name} has no cell {asked[~known][0]}")
    means = table.centred_means
    sd = table.run_sd / np.sqrt(table.counts)
    critical = critical_values(sd, _freedom(table), rows=rows)
    better, worse = _separated(means, sd, critical, rows)
    return pd.DataFrame(
        {
            "mean": means[rows],
            "rank": ranks_of(means[rows], np.sort(means)),
            "rank_low": 1 + better,
            "rank_high": len(means) - worse,
            "may_be_best": better == 0,
        },
        index=pd.Index(asked, name="index"),
    )


def mean_half_width(table: Accuracies, cell: int | str) -> float:
    """Return the half width of the 95 % interval of a cell's mean over seeds.

    The variance of a run is pooled over cells of similar accuracy, because a cell has few runs. If
    the runs of the cell differ significantly more, such as after a divergence, it is their own.
    Else the variance between the common effects of the seeds is added. It is estimated from few
    seeds, so the degrees of freedom are Satterthwaite's.
    """
    row = int(np.searchsorted(table.cells, cell))
    runs, alone = (own[row][np.isfinite(table.runs[row])] for own in (table.runs, table.centred))
    variance, freedom = float(table.run_sd[row]) ** 2, _freedom(table)
    squares = float(((alone - alone.mean()) ** 2).sum())
    if special.chdtrc(len(runs) - 1, squares / variance) < _OUTLYING:
        return student_reach(len(runs) - 1) * math.sqrt(runs.var(ddof=1) / len(runs))
    between = _between_seeds(table)
    total = variance + between
    freedom = total**2 / (variance**2 / freedom + between**2 / max(len(table.seeds) - 1, 1))
    return student_reach(freedom) * math.sqrt(total / len(runs))


def _between_seeds(table: Accuracies) -> float:
    """Return the variance between the common effects of the seeds of a table."""
    effects = table.runs - table.centred
    effects = effects[np.nan_to_num(effects).any(axis=1)]
    known = np.isfinite(effects).any(axis=0)
    return float(means_of(effects[:, known].T).var(ddof=1)) if known.sum() > 1 else 0.0


def _freedom(table: Accuracies) -> float:
    """Return the degrees of freedom of a pooled variance."""
    n = len(table.cells)
    return min(2 * reach(n) + 1, n) * float((table.counts - 1).mean())


def critical_values(
    sd: Floats,
    freedom: float = np.inf,
    level: float = _LEVEL,
    rows: NDArray[np.intp] | slice = slice(None),
) -> Floats:
    """Return how many standard errors a cell must differ from another to be separated from it.

    The value c of cell j solves P(|e_j - e_k| <= c sqrt(s_j^2 + s_k^2) for all k) = level. The
    errors e are independent and normal with standard deviations s (`sd` [cells]), which have
    `freedom` degrees of freedom. The values are those of the cells in `rows`.
    """
    asked = sd[rows]
    if len(sd) < 2:
        return np.full(len(asked), np.inf)
    parts = np.array_split(np.sort(sd), min(_BINS, len(sd)))
    bins = np.array([part.mean() for part in parts])
    # A cell is not compared with itself.
    others = np.array([len(part) for part in parts]) - np.eye(len(parts))
    # The values of the two neighbouring bins are interpolated.
    above = np.searchsorted(bins, asked)
    needed = np.unique(np.clip([above - 1, above], 0, len(bins) - 1))
    nodes = np.linspace(-5.5, 5.5, _NODES)
    density = np.exp(-(nodes**2) / 2)
    density /= density.sum()
    own, other = bins[needed, None, None], bins[None, None, :]
    centre, width = nodes[None, :, None] * own / other, np.hypot(own, other) / other
    low, high = np.zeros(len(needed)), np.full(len(needed), 10.0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        half = middle[:, None, None] * width
        inside = special.ndtr(centre + half) - special.ndtr(centre - half)
        logs = np.log(np.maximum(inside, 1e-300))
        covered = np.exp((logs @ others[needed, :, None])[..., 0]) @ density
        low, high = np.where(covered < level, middle, low), np.where(covered < level, high, middle)
    normal = np.interp(asked, bins[needed], high)
    return normal if np.isinf(freedom) else -special.stdtrit(freedom, special.ndtr(-normal))


def _separated(
    means: Floats, sd: Floats, critical: Floats, rows: NDArray[np.intp]
) -> NDArray[np.int64]:
    """Count the cells that are significantly better and significantly worse: [2, rows].

    The other cells are grouped by standard error; each group uses its largest standard error.
    """
    counts = np.zeros((2, len(rows)), dtype=np.int64)
    for part in np.array_split(np.argsort(sd), min(_GROUPS, len(sd))):
        ordered = np.sort(means[part])
        least = critical * np.hypot(sd[rows], sd[part].max())
        counts[0] += len(part) - np.searchsorted(ordered, means[rows] + least, side="right")
        counts[1] += np.searchsorted(ordered, means[rows] - least, side="left")
    return counts
