"""Runs of others as rows of a surface: a row a run and split, numbered through."""

from __future__ import annotations

import pandas as pd

from rebench.nats.surface_rows import surface_rows


def test_a_run_has_a_row_for_each_split_with_its_cell_and_recipe():
    runs = pd.DataFrame({"index": [11, 0, 11], "learning_rate": [0.1, 0.1, 0.025]})
    measured = {
        "x-valid": {"accuracy": pd.Series([50.0, 60.0, 70.0]), "loss": pd.Series([1.0, 2.0, 3.0])},
        "x-test": {"accuracy": pd.Series([51.0, 61.0, 71.0])},
    }
    rows = surface_rows(runs, measured)
    assert rows.index.tolist() == list(range(6))
    assert rows["split"].tolist() == ["x-valid"] * 3 + ["x-test"] * 3
    assert rows["index"].tolist() == [11, 0, 11] * 2
    assert rows["recipe"].tolist() == ["fixed(lr=0.1)", "fixed(lr=0.1)", "fixed(lr=0.025)"] * 2
    assert rows["accuracy"].tolist() == [50.0, 60.0, 70.0, 51.0, 61.0, 71.0]
    assert rows["loss"].tolist()[:3] == [1.0, 2.0, 3.0]
    assert rows["loss"].isna().tolist() == [False] * 3 + [True] * 3
    assert rows["arch"].nunique() == 2
