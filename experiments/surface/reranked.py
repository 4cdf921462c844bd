#!/usr/bin/env python
"""How far recipes move a ranking beyond seeds, between runs, with intervals over cells.

usage: reranked.py TABLE [--json] [RECIPE ...]

TABLE is a run's folder, a file or the name of a table.

Every recipe is held against the first one, and the others against each other. As on the page of the
surface, tau is between runs of different seeds, and `reranked` is what it lacks of what seeds
alone leave: the geometric mean of the two rankings' own agreement between seeds.
"""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pandas as pd

import rebench
from rebench.analysis.rate_ranking import moved_intervals, resampled, tau_between_seeds

DRAWS = 2000
LEVEL = 0.95


def reranked(table: str, recipes: list[str], draws: int = DRAWS) -> pd.DataFrame:
    """Return a row per pair of recipes, with `tau`, `noise` and `reranked` and their intervals."""
    runs = {}
    for recipe in recipes:
        one = rebench.open(f"{table}@{recipe}")
        dataset, split, epochs = one.usual_key()
        frame = one.frame()
        chosen = (frame["dataset"] == dataset) & (frame["split"] == split)
        chosen &= frame["epochs"] == epochs
        runs[recipe] = frame[chosen].pivot_table("accuracy", "index", "seed")
    rows = []
    for first, second in itertools.combinations(recipes, 2):
        before, after = runs[first].dropna().align(runs[second].dropna(), join="inner")
        sample = resampled(len(before), draws, np.random.default_rng(0))
        tau, noise, _ = tau_between_seeds(before.to_numpy(), after.to_numpy(), sample, [100.0])
        row = {"first": first, "second": second, "n_cells": len(before)}
        row |= moved_intervals(tau[:, 0], noise[:, 0], LEVEL)
        row["points"] = float((after - before).mean(axis=None))
        rows.append(row)
    return pd.DataFrame(rows)


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--json"]
    if not words:
        sys.exit(__doc__)
    found = reranked(words[0], words[1:] or ["fixed", "topology", "topology-lr", "topology-init"])
    as_json = "--json" in sys.argv
    text = found.to_json(orient="records") if as_json else found.round(3).to_string(index=False)
    sys.stdout.write(f"{text}\n")
