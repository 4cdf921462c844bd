"""Surfaces by regression, from generated configurations with known best rates."""

from __future__ import annotations

import json

import numpy as np
import pytest
from made_surfaces import sample_table, some_cells

from cells import compile_space
from experiments.surface.__main__ import main
from experiments.surface.grid import log_best_rates, read_surface
from rebench.errors import InputError

CELLS = some_cells(100)
MULTIPLIERS = compile_space().lr_multiplier[CELLS]
SAMPLE = sample_table(0.4 * MULTIPLIERS, CELLS, 3000).rename(columns={"learning_rate": "rate"})


@pytest.fixture
def sampled(monkeypatch):
    from experiments.surface import sampled

    return sampled


@pytest.fixture
def regressed(sampled):
    def regress(rows, seed=0, reference=0.1):
        rng = np.random.default_rng(seed)
        return sampled.regress_surface(rows, reference=reference, rng=rng)

    return regress


def test_a_samples_surface_is_asked_as_any(sampled, tmp_path, capsys):
    cells = some_cells(24)
    table = sample_table(0.4 * compile_space().lr_multiplier[cells], cells, 3000)
    table.to_parquet(tmp_path / "jahs.parquet")
    assert main([str(tmp_path / "jahs.parquet")]) == 2
    assert "experiments.surface.sampled" in capsys.readouterr().err
    out = str(tmp_path / "predicted.parquet")
    sampled.main(str(tmp_path / "jahs.parquet"), out)
    assert "regression: no cell was trained at these rates" in capsys.readouterr().out
    assert main([out, "--draws", "5", "--json"]) == 0
    fits = {row["predictors"]: row for row in json.loads(capsys.readouterr().out)["fits"]}
    # The planted best rates are the rule's own up to one factor.
    planted = fits["topology-lr"]
    assert planted["octaves"] < 0.5 * planted["octaves_constant"]


def test_predicted_best_rates_are_the_planted_ones(regressed):
    rows, notes = regressed(SAMPLE)
    made = read_surface(rows, dataset="cifar10")
    assert made.rates == pytest.approx(0.1 * 2.0 ** np.arange(-6, 4))
    assert made.seeds == (0, 1, 2)
    best = log_best_rates(made.accuracy.mean(axis=2), made.rates)
    truth = np.log2(0.4 * compile_space().lr_multiplier[made.cells])
    # A tolerance of half an octave: the rates of the grid double, and trees predict steps.
    assert np.sqrt(np.mean((best - truth) ** 2)) < 0.5
    assert np.corrcoef(best, truth)[0, 1] > 0.85
    [note] = notes
    assert "over 3000 configurations, in 3 disjoint parts" in note
    assert "channels 16, augmentation standard, weight decay 0.0005" in note


def test_accuracy_is_predicted_at_the_benchmarks_settings(regressed):
    rows = sample_table(0.1, CELLS, 3000, noise=0.1).rename(columns={"learning_rate": "rate"})
    made = read_surface(regressed(rows)[0], dataset="cifar10")
    # The true accuracy: 50, plus 2 for each path, plus 4 = log2(16 channels), plus 0 for the
    # standard augmentation.
    truth = 54 + 2 * compile_space().n_paths[made.cells]
    assert made.accuracy[:, made.column(0.1)].mean(axis=1) == pytest.approx(truth, abs=2.5)


def test_setting_that_the_sample_lacks_is_its_most_frequent_one(regressed):
    rows = SAMPLE[SAMPLE["channels"] != 16]
    usual = rows["channels"].mode().iloc[0]
    assert f"channels {usual}," in regressed(rows[:400])[1][0]
    assert "channels" not in regressed(SAMPLE[SAMPLE["channels"] == 4][:400])[1][0]


def test_fits_of_equal_seeds_are_equal(regressed):
    first, second, other = (regressed(SAMPLE[:400], seed)[0] for seed in (0, 0, 1))
    assert first.equals(second)
    assert not first.equals(other)


def test_run_that_diverged_counts_as_the_lowest(regressed):
    rows = SAMPLE[:400].copy()
    rows.loc[rows["rate"] > 0.5, "accuracy"] = np.nan
    predicted, notes = regressed(rows)
    diverged = int((rows["rate"] > 0.5).sum())
    assert notes[1].startswith(f"{diverged} configurations without a finite accuracy")
    made = read_surface(predicted, dataset="cifar10")
    assert made.accuracy[:, -1].mean() < made.accuracy[:, 5].mean() - 5


def test_sample_that_is_too_small_or_too_narrow_is_refused(regressed):
    with pytest.raises(InputError, match="needs 300 of them, got 299"):
        regressed(SAMPLE[:299])
    narrow = SAMPLE[SAMPLE["rate"].between(0.051, 0.15)]
    with pytest.raises(InputError, match=r"two octaves about 0\.1"):
        regressed(narrow)
