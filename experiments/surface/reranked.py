"""Print the drop between recipes of a table, with intervals over cells.

usage: python -m experiments.surface.reranked TABLE [--json] [RECIPE ...]

TABLE is the folder of a run, a file or the name of a table. All pairs of the recipes are compared.
`tau` is between runs with different seeds. `seed_tau` is the geometric mean of the two recipes'
agreement between seeds, and `drop` is seed_tau minus tau. `points` is the difference in accuracy,
with an interval over cells and seeds.
"""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pandas as pd

import rebench
from rebench.analysis import Paired, read_accuracies
from rebench.analysis.accuracy_change import crossed_difference
from rebench.analysis.paired import Accuracies
from rebench.analysis.seed_tau import at_k, between_seeds, resampled

DRAWS = 2000


def reranked(table: str, recipes: list[str]) -> pd.DataFrame:
    """Return a row per pair of recipes, with `tau`, `seed_tau`, `drop`, `points` and intervals."""
    tables = {}
    for recipe in recipes:
        one = rebench.open(f"{table}@{recipe}")
        dataset, split, epochs = one.default_key()
        tables[recipe] = read_accuracies(
            one.frame(), dataset=dataset, split=split, epochs=epochs, name=recipe
        )
    rows = []
    for first, second in itertools.combinations(recipes, 2):
        row = {"first": first, "second": second}
        rows.append(row | of_pair(tables[first], tables[second]))
    return pd.DataFrame(rows)


def of_pair(first: Accuracies, second: Accuracies, level: float = 0.95) -> dict[str, float]:
    """Return a row of `reranked` for two tables; `level` is the coverage of its intervals."""
    paired = Paired.of(first, second).whole
    sample = resampled(paired.classes, DRAWS, np.random.default_rng(0))
    seeds = (paired.baseline.seeds, paired.other.seeds)
    found = between_seeds(paired.baseline.runs, paired.other.runs, sample, [100.0], seeds=seeds)
    points = crossed_difference(paired)
    return at_k(found, 0, level=level) | {
        "points": points.value,
        "points_low": points.low,
        "points_high": points.high,
    }


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--json"]
    if not words:
        sys.exit(__doc__)
    found = reranked(words[0], words[1:] or ["fixed", "topology", "topology-lr", "topology-init"])
    as_json = "--json" in sys.argv
    text = found.to_json(orient="records") if as_json else found.round(3).to_string(index=False)
    sys.stdout.write(f"{text}\n")
