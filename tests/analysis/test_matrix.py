"""Comparison of all pairs of rankings, checked with scipy, run by run."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from report_tables import run_table
from scipy import stats

from rebench.analysis.matrix import read_rankings, tau_matrix
from rebench.analysis.p_values import holm
from rebench.errors import InputError, UnknownNameError
from rebench.tables.opening import read_rows


def test_tau_of_every_pair_is_scipys():
    rows = run_table(40)
    tables, _ = read_rankings(rows, "recipes")
    [(shared, rankings)] = tables.items()
    assert shared == "cifar10"
    found, _ = tau_matrix(rankings, draws=20, seed=0)
    pairs = list(itertools.combinations(rankings, 2))
    assert list(zip(found["first"], found["second"], strict=True)) == pairs
    for row in found.to_dict("records"):
        first, second = (rankings[row[name]].runs for name in ("first", "second"))
        taus = [
            stats.kendalltau(first[:, i], second[:, j]).statistic
            for i, j in itertools.permutations(range(first.shape[1]), 2)
        ]
        assert row["tau"] == pytest.approx(np.mean(taus), abs=1e-9)
        assert row["tau_low"] < row["tau"] < row["seed_tau"]
        assert row["points"] == pytest.approx(second.mean() - first.mean())
        assert row["points_low"] < row["points"] < row["points_high"]
    assert found["p_adjusted"].tolist() == pytest.approx(holm(found["p_family"]).tolist())


def test_data_sets_are_each_measured_on_what_they_have():
    """Accuracies of CIFAR-10 are from the split `ori-test`, those of CIFAR-100 from `x-test`."""
    cifar10 = run_table(40, recipes=("nb201",)).drop(columns="recipe")
    cifar100 = cifar10.assign(dataset="cifar100", split="x-test", accuracy=cifar10["accuracy"] / 2)
    [rankings] = read_rankings(pd.concat([cifar100, cifar10]), "datasets")[0].values()
    found, _ = tau_matrix(rankings, draws=20, seed=0)
    assert found[["first", "second"]].to_numpy().tolist() == [
        ["cifar10 ori-test", "cifar100 x-test"]
    ]
    assert found["tau"].item() == pytest.approx(found["seed_tau"].item())


def test_splits_with_runs_are_preferred_to_means():
    """In `nb201`, accuracies of CIFAR-100 are means on `x-test` and runs on `x-valid`."""
    rows = read_rows("nb201")
    tables, notes = read_rankings(rows, "datasets", name="nb201")
    assert list(tables["nb201"]) == [
        "ImageNet16-120 x-valid", "cifar10 ori-test", "cifar10-valid x-valid", "cifar100 x-valid"
    ]  # fmt: skip
    kinds = [table.value for table in tables["nb201"].values()]
    assert kinds == ["run", "mean over seeds", "run", "run"]
    assert notes == []


def test_rankings_without_the_named_split_are_left_out_with_a_note():
    tables, notes = read_rankings(read_rows("nb201"), "datasets", split="x-test", name="nb201")
    assert list(tables["nb201"]) == ["ImageNet16-120 x-test", "cifar100 x-test"]
    assert notes == [f"nb201 on {name} is left out: it has no x-test" for name in (
        "cifar10", "cifar10-valid")]  # fmt: skip
    with pytest.raises(InputError, match="left out: it has no x-valid after 12 epochs"):
        read_rankings(read_rows("nb201"), "datasets", split="x-valid", epochs=12)


def test_notes_of_means_and_missing_runs_are_the_same_for_every_pair():
    """Equal notes are printed once."""
    rows = read_rows("nb201")
    rows = rows[(rows["index"] < 2500) & (rows["dataset"] != "ImageNet16-120")]
    [rankings] = read_rankings(rows, "datasets")[0].values()
    _, notes = tau_matrix(rankings, draws=0)
    assert len([note for note in notes if "one mean over seeds of each cell" in note]) == 1
    assert not [note for note in notes if note.startswith("0 ") or " 0 runs" in note]


def test_what_is_not_there_is_named():
    rows = run_table(40)
    with pytest.raises(UnknownNameError, match="valid: cifar10"):
        read_rankings(rows, "recipes", datasets=["cifar100"])
    with pytest.raises(UnknownNameError, match="valid: topology"):
        read_rankings(rows, "recipes", recipes=["topolgy"])
    with pytest.raises(InputError, match="no two datasets to compare"):
        read_rankings(rows, "datasets")


def test_recipe_is_found_however_it_is_spelt():
    rows = run_table(40)
    [rankings] = read_rankings(rows, "recipes", recipes=["nb201", "fixed( lr = 0.30 )"])[0].values()
    assert list(rankings) == ["nb201", "fixed(lr=0.3)"]
