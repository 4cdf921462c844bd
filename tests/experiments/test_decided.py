"""Decisions of `experiments.surface.decided` on generated records with a known truth."""

from __future__ import annotations

import itertools
import json
import math
import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from support import PROJECT

from experiments.surface import decided, plan_h
from experiments.surface.plan_h import measured
from rebench.analysis.paired import Accuracies, Paired
from rebench.analysis.seed_tau import seed_jackknife
from rebench.errors import InputError

FOLDER = PROJECT / "experiments" / "surface"
SWEEPS = {plan: decided.sweeps_of(plan) for plan in decided.PLANS}
MOVED = {"topology", "topology-lr(init_at=normalised)", "fixed(init=he)"}
HE_NORMALISED, LOWER = "fixed(init=he,init_at=normalised)", "two-rates(normalised_lr=0.0167)"
LOW = "fixed(lr=0.0125)"
HE_OTHERS, FASTER = "fixed(init=he,init_at=others)", "topology(base_lr=2.3)"


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    monkeypatch.setattr(decided, "DRAWS", 200)
    monkeypatch.setattr(plan_h, "DRAWS", 200)


@pytest.fixture(scope="module")
def published():
    return decided.published_accuracy()


def made(sweep, published, moved, noise=0.3):
    """Return every trial of a sweep; recipes in `moved` have another ranking of the cells."""
    spec = decided.asked(sweep)
    rng = np.random.default_rng(len(sweep))
    other = pd.Series(published.sample(frac=1, random_state=1).to_numpy(), index=published.index)
    cells, _ = decided.choose_cells(spec.cells, None)
    rows = [
        (trial.cell.index, trial.dataset, trial.epochs, trial.seed, trial.recipe.label,
         trial.trial_id)
        for family in spec.families(cells)
        for trial in family
    ]  # fmt: skip
    names = ["index", "dataset", "epochs", "seed", "recipe", "trial_id"]
    frame = pd.DataFrame(rows, columns=names).assign(split="ori-test", status="done")
    truth = np.where(frame["recipe"].isin(moved), other[frame["index"]], published[frame["index"]])
    ranks = pd.Series(truth).rank(pct=True)  # equal distances between accuracies
    frame["accuracy"] = 50 + 10 * ranks + noise * rng.standard_normal(len(frame))
    train = frame.assign(split="train")
    return pd.concat([frame, train]).sample(frac=1, random_state=0)


def decided_on(folder, published, frames, plan="E"):
    tables = {sweep: str(folder / f"{sweep}.parquet") for sweep in SWEEPS[plan]}
    for sweep, frame in frames.items():
        frame.to_parquet(tables[sweep])
    return decided.decide(tables, published, plan)


def all_made(published, moved, plan="E", **others):
    return {sweep: made(sweep, published, others.get(sweep, moved)) for sweep in SWEEPS[plan]}


def noisier(frame, recipes):
    """Add noise to the accuracies under some recipes."""
    rows = frame["recipe"].isin(recipes)
    noise = 6 * np.random.default_rng(3).standard_normal(len(frame))
    return frame.assign(accuracy=frame["accuracy"] + rows * noise)


def verdicts(found, plan="E"):
    lines = found["predictions"][: len(decided.PLANS[plan])]
    return {row["number"]: row["verdict"] for row in lines}


def limits_of(text):
    """Return the limits in a field of a plan's table: the side, and the number."""
    found = re.search(
        r"(upper|lower) limit(?: of the (?:drop|difference))? ([<>]) (-?[\d.]+)", text
    )
    return found and ({"<": "below", ">": "above"}[found[2]], float(found[3]))


@pytest.mark.parametrize("plan", decided.PLANS)
def test_thresholds_are_those_of_the_plan(plan):
    file = "plan.md" if plan == "E" else f"plan-{plan.lower()}.md"
    lines = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in (FOLDER / file).read_text().splitlines()
        if re.match(r"\| [FGH]?\d", line)
    ]
    lines = [line for line in lines if line[0] != "F3.3"]
    predictions = decided.PLANS[plan]
    assert [line[0] for line in lines] == [row.number for row in predictions]
    for row, (number, *_, holds, fails) in zip(predictions, lines, strict=True):
        if number == "F2.2":
            assert (row.holds_above, row.holds_below) == (-0.10, 0.10)
            assert (row.fails_below, row.fails_above) == (-0.10, 0.10)
            assert "both limits within -0.10 and 0.10" in holds
            continue
        for text, kind in ((holds, "holds"), (fails, "fails")):
            side, limit = limits_of(text)
            assert getattr(row, f"{kind}_{side}") == limit
            unused = {"below": "above", "above": "below"}[side]
            assert math.isinf(getattr(row, f"{kind}_{unused}"))
    at_975 = {"E": {"8", "9", "11", "12"}, "F": {"F2.1", "F2.2", "F2.3"}, "G": set(), "H": set()}
    assert {row.number for row in predictions if row.level == 0.975} == at_975[plan]


def test_recipes_and_sweeps_of_a_prediction_are_asked():
    for plan, rows in decided.PLANS.items():
        assert SWEEPS[plan][: len(set(SWEEPS[plan]))] == SWEEPS[plan]
        for row in rows:
            labels = {x.label for sweep in row.sweeps for x in decided.asked(sweep).recipes}
            assert {row.first, row.second} <= labels, row.number


def test_predictions_hold_where_they_are_true(published, tmp_path):
    still = {"mini-60ep-first": set(), "mini-60ep-second": set()}
    frames = all_made(published, MOVED, **still)
    worse = {"topology", "topology-lr(base_lr=0.09)"}
    proxy = made("mini-proxy", published, worse)
    frames["mini-proxy"] = noisier(proxy, {"fixed", "fixed(lr=0.05)"})
    found = decided_on(tmp_path, published, frames)
    assert set(verdicts(found).values()) == {"holds"}
    assert len(found["predictions"]) == 14 + 5 + 5, "no second look where the first one decides"
    assert found["predictions"][0]["n_cells"] == 60
    assert {row["n_cells"] for row in found["predictions"][-5:]} == {40}


def test_predictions_fail_where_the_opposite_is_true(published, tmp_path):
    moved = {"topology(init_at=others)", "topology-lr(init_at=others)", "topology"}
    still = {"mini-60ep-nodecay": set(), "mini-init-parts-seeds": set()}
    frames = all_made(published, moved, **still)
    frames["mini-proxy"] = made("mini-proxy", published, {"fixed"})
    found = verdicts(decided_on(tmp_path, published, frames))
    failed = {number for number, verdict in found.items() if verdict == "fails"}
    assert failed >= {"2", "4", "6", "8", "9", "10", "13", "14"}


@pytest.mark.parametrize("true", [True, False])
def test_plan_f_is_decided_from_the_limits_of_each_interval(published, tmp_path, true):
    moved = {HE_NORMALISED, LOWER, "topology"} if true else {HE_NORMALISED, HE_OTHERS}
    frames = all_made(published, moved, "F")
    upper = made("mini-proxy-upper", published, set() if true else {"fixed(init=he)"})
    if true:
        frames["mini-proxy-upper"] = noisier(upper, {"fixed"})
    else:
        frames["mini-proxy-upper"] = upper
        longer = made("mini-proxy-upper", published, {"fixed(init=he)", FASTER})
        keep = longer["recipe"] == FASTER
        other = upper[upper["recipe"] != FASTER]
        later = decided_on(
            tmp_path, published,
            {**frames, "mini-proxy-upper": pd.concat([other, longer[keep]])}, "F",
        )  # fmt: skip
        assert verdicts(later, "F")["F2.3"] == "fails"
    found = decided_on(tmp_path, published, frames, "F")
    expected = "holds" if true else "fails"
    decisive = verdicts(found, "F")
    if not true:
        assert decisive.pop("F2.3") == "holds"
    assert set(decisive.values()) == {expected}, decisive
    cells = {row["number"]: row["n_cells"] for row in found["predictions"]}
    assert cells["F1.1"] == 60
    assert (cells["F2.1"], cells["F2.3"]) == (120, 90)
    assert cells["F3.1"] == 500
    assert 200 < cells["F3.2"] < 300


@pytest.mark.parametrize("true", [True, False])
def test_plan_h_is_decided_from_the_limits_of_each_interval(published, tmp_path, true):
    small = {"mini-32px", "mini-32px-seeds", "mini-32px-lower"}
    moved = {"topology", LOW} if true else {"topology"}
    others = {} if true else {sweep: {LOW} for sweep in small}
    frames = all_made(published, moved, "H", **others)
    best = made("mini-best-60ep", published, set() if true else moved)
    best["accuracy"] += (-1 if true else 8) * (best["recipe"] == "topology")
    frames["mini-best-60ep"] = best
    found = decided_on(tmp_path, published, frames, "H")
    decisive = verdicts(found, "H")
    if not true:
        assert decisive.pop("H2.4") == "yes"
    assert set(decisive.values()) == {"yes" if true else "no"}, decisive
    assert [row["n_cells"] for row in found["predictions"]] == [72] * 3 + [500] * 4 + [60] * 3
    assert "over seeds" in decided.line(found["predictions"][0])


def _table(name, runs):
    seeds = tuple(range(runs.shape[1]))
    return Accuracies(name=name, cells=np.arange(len(runs)), seeds=seeds, runs=runs)


def test_measures_of_plan_h_are_those_of_plain_numpy():
    rng = np.random.default_rng(5)
    true = rng.normal(size=(50, 1))
    tables = [_table(name, true + rng.normal(size=(50, 3))) for name in ("a", "b")]
    best = [[set(np.argsort(-run)[:10]) for run in table.runs.T] for table in tables]
    own = [np.mean([len(x & y) / 10 for x, y in itertools.combinations(one, 2)]) for one in best]
    crossed = [len(best[0][i] & best[1][j]) / 10 for i, j in itertools.permutations(range(3), 2)]
    found = measured("drop of overlap", tables)
    assert found["drop of overlap"] == pytest.approx(np.mean(own) - np.mean(crossed))
    assert found["drop of overlap_low"] < found["drop of overlap"] < found["drop of overlap_high"]
    gap = tables[1].runs.mean() - tables[0].runs.mean()
    assert measured("accuracy", tables)["accuracy"] == pytest.approx(gap)

    by_seed = seed_jackknife(Paired.of(*tables), [100.0]).iloc[0]
    found = measured("drop over seeds", tables)
    ends = [found["drop over seeds"], found["drop over seeds_low"], found["drop over seeds_high"]]
    np.testing.assert_allclose(ends, by_seed[["drop", "drop_low", "drop_high"]].astype(float))
    third = _table("c", rng.normal(size=(50, 3)))
    first, other = (measured("drop", [one, tables[1]])["drop"] for one in (tables[0], third))
    both = measured("difference of drops", [*tables, third])["difference of drops"]
    assert both == pytest.approx(other - first)
    tables[1].runs[3, 1] = np.nan
    with pytest.raises(InputError, match="b lacks runs of networks of a"):
        measured("drop", tables)


def test_cells_with_a_second_seed_are_the_random_ones_and_the_best_tenth(published):
    drawn = decided.draw_plan_f(published)
    again = set(decided.asked("mini-all-888").cells.indices)
    best = decided.SAMPLES["best tenth"](published)
    assert len(best) == 548
    assert set(drawn["random 500"]) | set(best) == again
    assert len(drawn["random 500"]) == 500


def test_a_sweep_that_lacks_a_trial_is_not_analysed(published, tmp_path):
    frames = all_made(published, MOVED)
    parts = frames["mini-init-parts"]
    frames["mini-init-parts"] = parts[parts["trial_id"] != parts["trial_id"].iloc[0]]
    frames["mini-60ep-first"] = frames["mini-60ep-nodecay"]  # trials of another sweep
    del frames["mini-proxy"]
    found = decided_on(tmp_path, published, frames)
    assert found["trials"]["mini-init-parts"] == "719 of 720 trials"
    assert found["trials"]["mini-60ep-first"] == "0 of 540 trials"
    assert found["trials"]["mini-proxy"].startswith("0 of 1440 trials: no table at")
    without = {row["number"] for row in found["predictions"] if "n_cells" not in row}
    assert without == {"", *map(str, (1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 14))}
    assert all(map(decided.line, found["predictions"]))


def test_the_second_look_uses_all_cells_and_only_where_the_first_is_inconclusive(
    published, tmp_path
):
    frames = all_made(published, set())
    shift = pd.Series(np.random.default_rng(2).standard_normal(15_625))
    for sweep in ("mini-60ep-first", "mini-60ep-second"):
        frame = frames[sweep]
        weak = frame["recipe"] == "topology"
        frame["accuracy"] += 0.62 * weak * shift[frame["index"]].to_numpy()
    found = decided_on(tmp_path, published, frames)
    assert verdicts(found)["8"] == "inconclusive"
    second = [row for row in found["predictions"] if "mini-60ep-second" in row["sweeps"]]
    assert [(row["number"], row["n_cells"], row["level"]) for row in second] == [
        ("8", 120, 0.975), ("9", 120, 0.975)
    ]  # fmt: skip


def test_runs_with_equal_seeds_are_known_by_their_number(published, tmp_path):
    """Five runs are compared with three: tau by scipy, for each pair with different seeds."""
    frames = all_made(published, MOVED)
    found = decided_on(tmp_path, published, frames)["predictions"][0]
    rows = pd.concat(frames[name] for name in decided.PLANS["E"][0].sweeps)
    rows = rows[rows["split"] == "ori-test"]
    first, second = (
        rows[rows["recipe"] == recipe].pivot_table("accuracy", "index", "seed")
        for recipe in ("fixed", "topology(init_at=others)")
    )
    assert [first.shape[1], second.shape[1]] == [5, 3]
    taus = [
        stats.kendalltau(first[one], second[other]).statistic
        for one, other in itertools.product(first, second)
        if one != other
    ]
    assert found["tau"] == pytest.approx(np.mean(taus), abs=1e-9)


def test_an_interval_on_both_sides_of_a_limit_decides_nothing():
    row = next(row for row in decided.PLANS["F"] if row.number == "F2.2")
    assert row.verdict(-0.05, 0.05) == "holds"
    assert row.verdict(0.12, 0.2) == row.verdict(-0.2, -0.12) == "fails"
    assert row.verdict(-0.05, 0.12) == "inconclusive"


def test_order_of_algorithms_is_open_where_none_differ(tmp_path, published):
    """With four searches, no two algorithms differ on one of the tables: no pair could reverse."""
    frame = made("mini", published, set())
    frame = frame[frame["split"] == "ori-test"].assign(seconds=1.0)
    frame.to_parquet(tmp_path / "table.parquet")
    found = decided.order_of_algorithms(str(tmp_path / "table.parquet"), repeats=4)
    assert (found["verdict"], found["swaps"]) == ("inconclusive", [])
    assert [row["pairs"] for row in found["tables"]] == [21, 21]
    assert min(row["pairs_that_differ"] for row in found["tables"]) == 0
    assert all(0 < row["friedman_p"] <= 1 for row in found["tables"])


def test_command_prints_a_plan_and_refuses_an_unknown_sweep(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    decided.main(["G", "--json", "mini-32px=no-run"])
    found = json.loads(capsys.readouterr().out)
    assert {row["verdict"] for row in found["predictions"]} == {"no verdict: trials are missing"}
    with pytest.raises(SystemExit, match="no sweep is called other"):
        decided.main(["G", "other=x"])
    with pytest.raises(SystemExit, match="usage"):
        decided.main([])
