"""An interrupted calibration resumes, and gives the same rows as an uninterrupted run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support import PROJECT

from rebench.analysis.drop import rank_curve


def _rows(folder: Path) -> list[dict[str, object]]:
    return json.loads((folder / "calibration.json").read_text())["rows"]


def test_an_interrupted_calibration_measures_only_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.syspath_prepend(str(PROJECT / "scripts/bench"))
    import calibration
    import results_file

    for module in (calibration, results_file):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    small = [calibration.Scenario(n=10, seeds=seeds) for seeds in ((2, 2), (2, 3), (3, 3))]
    monkeypatch.setattr(calibration, "scenarios", lambda: {"cells and seeds": small})
    monkeypatch.setattr("sys.argv", ["calibration", "--tables", "2", "--draws", "19"])
    part = tmp_path / "calibration-1-part.jsonl"

    calibration.main()
    whole = _rows(tmp_path)
    assert len(whole) == 3
    assert not part.exists()

    first = ("cells and seeds", small[0], 2, (1, 0), 19)
    line = json.dumps([calibration._key(first), whole[0]])
    part.write_text(f"{line}\n{line[:40]}")  # one done, and a line that was torn
    capsys.readouterr()
    calibration.main()
    assert "3 scenarios, 1 of them in" in capsys.readouterr().out
    assert _rows(tmp_path) == whole
    assert not part.exists()


def test_intervals_of_ranks_hold_the_true_ranks(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(PROJECT / "scripts/bench"))
    import calibration

    # With many cells of nearly equal accuracy, false differences are most likely.
    found = calibration.ranks_covered(400, 3, "tight", "normal", 60)
    assert found["covered"] > 0.95
    assert found["best_in_set"] > 0.95
    assert found["set"] > 1


@pytest.mark.parametrize("world", ["benchmark", "tight"])
def test_equal_rankings_are_equal_among_the_best_cells_that_another_seed_chooses(
    monkeypatch: pytest.MonkeyPatch, world: str
):
    monkeypatch.syspath_prepend(str(PROJECT / "scripts/bench"))
    import calibration

    scenario = calibration.Scenario(n=100, seeds=(3, 3), world=world)
    rejected = np.zeros(2)
    missed = np.zeros(2)
    for table in range(40):
        rng = np.random.default_rng([3, table])
        paired = calibration._pair(scenario, rng)
        curve = rank_curve(paired, (50, 20), draws=99, rng=rng)[0]
        rejected += curve["p_value"] <= 0.05
        missed += (curve["drop_low"] > 0) | (curve["drop_high"] < 0)
    # At 5 %, more than 6 of 40 tables have a probability of 1 %.
    assert (rejected <= 6).all(), rejected
    assert (missed <= 6).all(), missed


@pytest.mark.parametrize("by_feature", [0.0, 0.5])
def test_the_interval_of_a_drop_holds_for_new_cells_and_new_seeds(
    monkeypatch: pytest.MonkeyPatch, by_feature: float
):
    """With noise of single cells, and with seeds that favour cells (half of the variance)."""
    monkeypatch.syspath_prepend(str(PROJECT / "scripts/bench"))
    import calibration

    found = calibration.drop_covered(60, 3, by_feature, 40)
    # At 95 %, fewer than 34 of 40 tables have a probability of 1 %.
    assert found["covered"] >= 34 / 40
