"""A comparison of two rankings: its numbers, its verdict and its notes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from simulated_tables import table_of, two_tables

import rebench
from cells.classes import trainable_networks
from rebench.analysis import Paired, agreement, reliability, rerank
from rebench.analysis import compare as compare_tables
from rebench.analysis.result_table import summary
from rebench.errors import InputError, UnknownNameError
from rebench.printable import signed
from rebench.tables import Table, open_table


def _accuracies(name, values):
    return table_of(values, name, seeds=(777, 888, 999)[: np.shape(values)[1]], epochs=200)


def _pair(n, seeds, change, seed=0, noise=0.3):
    rng = np.random.default_rng(seed)
    before, after = two_tables(n, seeds, rng, change=change, sd=(noise, noise))
    return _accuracies("benchmark", before), _accuracies("topology", after)


def _rerank(tables, **choices):
    rng = np.random.default_rng(1)
    return rerank(Paired.of(*tables), dataset="cifar10", draws=49, rng=rng, **choices)


def test_curve_holds_agreement_and_noise_side_by_side():
    tables = _pair(80, (3, 3), 0.0)
    found = _rerank(tables)
    alone = agreement(Paired.of(*tables), draws=0, rng=np.random.default_rng())
    np.testing.assert_allclose(found.frame()["tau"], alone["tau"])
    assert found.frame()["seed_tau"].notna().sum() == found.frame()["tau"].notna().sum()
    assert (found.frame()["means_tau"] > found.frame()["tau"]).iloc[0]
    assert found.improvement["n_cells"] == 80
    assert (found.tau, found.seed_tau) == (
        found.frame()["tau"].iloc[0],
        found.frame()["seed_tau"].iloc[0],
    )
    assert found.drop[0] == pytest.approx(found.seed_tau - found.tau)
    assert found.corrected_tau == pytest.approx(found.tau / found.seed_tau)


@pytest.mark.parametrize(
    ("n", "seeds", "words"),
    [
        (80, (3, 1), "topology is no noisier than benchmark. To check this, give a table of topol"),
        (80, (1, 1), "both tables have one value per cell. Top 100 %: tau = 0."),
        (5, (3, 3), "5 cells in common and 10 are needed"),
    ],
)
def test_verdict_on_few_runs_says_what_is_lacking(n, seeds, words):
    assert words in _rerank(_pair(n, seeds, 2.0)).sentence


def test_cells_of_one_network_have_no_comparison_and_no_interval():
    """Samples of a single class are all equal, so they say nothing about an interval."""
    networks = trainable_networks(np.arange(15_625))
    cells = np.flatnonzero(networks == np.bincount(networks).argmax())[:40]
    runs = 50 + np.random.default_rng(0).normal(size=(2, 40, 3))
    tables = [table_of(own, name, cells=cells) for name, own in zip("ab", runs, strict=True)]
    found = _rerank(tables)
    assert found.sentence.startswith("No comparison is possible: the 40 cells are one network")
    columns = ["tau_low", "seed_tau_high", "drop_low", "drop_high", "drop_error"]
    assert found.by_k[columns].isna().all(axis=None)
    rows = pd.DataFrame(runs[0], cells, range(3)).rename_axis(index="index")
    rows = rows.reset_index().melt("index", var_name="seed", value_name="accuracy")
    named = rows.assign(dataset="cifar10", split="ori-test", epochs=5)
    said = reliability(Table.from_frame(named, name="a"), top_percent=(100,)).sentence
    assert "CI" not in said
    assert "40 of 40 cells" in said


def test_verdict_on_few_second_seeds_says_that_they_are_too_few():
    tables = _pair(80, (2, 2), 2.0)
    for own in tables:
        own.runs[30:, 1] = np.nan
    said = _rerank(tables).sentence
    assert "because fewer than 50 cells have two seeds in both tables. Top 100 %: tau = 0." in said
    assert "Train a second seed of more cells, or" in said


def test_verdict_has_claim_numbers_interval_p_and_scope():
    found = _rerank(_pair(80, (3, 2), 2.0))
    row = found.by_k.iloc[0]
    gain = [signed(found.improvement[name]) for name in ("difference", "low", "high")]
    assert found.by_k["p_family"].idxmin() == 0
    assert found.sentence == (
        f"The rankings differ by more than seeds explain. Top 100 %: tau = {row['tau']:.2f}, "
        f"seed tau = {row['seed_tau']:.2f}: a drop of {row['drop']:.2f} (95 % CI "
        f"{row['drop_low']:.2f} to {row['drop_high']:.2f}; p = {found.p_value:.3f}, adjusted for "
        "all K). 80 cells, cifar10 ori-test, 200 epochs. topology: 2 seeds. benchmark: 3 seeds. "
        f"Accuracy of topology minus that of benchmark: {gain[0]} points (95 % CI {gain[1]} to "
        f"{gain[2]}), above 0 in {100 * found.improvement['improved']:.0f} % of the cells."
    )
    several = replace(found, p_adjusted=0.04, comparisons=2)
    assert "; p = 0.040, adjusted for all K and 2 comparisons). " in several.sentence
    assert several.p_adjusted_by_k[100.0] == pytest.approx(0.04)
    uneven = found.by_k.assign(p_family=np.linspace(0.02, 0.5, 12))
    assert replace(several, by_k=uneven).p_adjusted_by_k[1.0] == 1
    assert "drop of 0.35 (p = 0.050, adjusted for all K)" in (
        rerank(found.paired, dataset="", draws=0).sentence
    )


def test_verdict_without_a_difference_names_no_drop_that_could_be_missed():
    found = _rerank(_pair(60, (3, 3), 0.0))
    assert found.sentence.startswith("No difference was detected. ")
    assert "miss" not in found.sentence
    assert summary([found]) == ("In 1 of 1 comparisons with benchmark no difference was detected.")


def test_interval_of_the_drop_contains_possible_values_only():
    """Tau is at least -1; here each of three seeds favours cells, so intervals are wide."""
    rng = np.random.default_rng(3)
    before, after = _pair(16, (3, 3), 0.0, seed=1, noise=1.0)
    favoured = rng.normal(0, 6, (16, 1)) * np.array([1, 0, -1])
    tables = [replace(own, runs=own.runs + favoured) for own in (before, after)]
    found = _rerank(tables, top_percent=[100])
    row = found.by_k.iloc[0]
    assert row["drop_high"] <= row["seed_tau_high"] + 1
    assert row["drop_low"] >= row["seed_tau_low"] - 1
    assert row["drop_error"] * 1.96 > row["seed_tau_high"] + 1 - row["drop"]
    by_seed = found.jackknife().iloc[0]
    assert (by_seed["drop_low"], by_seed["drop_high"]) == (-1, 2)


def test_numbers_of_seeds_are_those_of_the_cells():
    before, after = _pair(40, (3, 1), 0.0)
    runs = before.runs.copy()
    runs[:20, 2] = np.nan
    fewer = replace(before, runs=runs)
    mean = replace(after, seeds=(-1,))
    assert _rerank((fewer, after)).measured == (
        "40 cells, 1 seed against 2 to 3 seeds, cifar10 ori-test, 200 epochs"
    )
    assert "40 cells, a mean over seeds against 3 seeds," in _rerank((before, mean)).measured
    arrays = compare_tables(before.runs, after.runs, draws=0)
    assert (arrays.measured, arrays.name) == (
        "40 cells, 1 seed against 3 seeds", "other against baseline"
    )  # fmt: skip


def test_printed_comparison_ends_with_its_notes():
    found = _rerank(_pair(40, (3, 1), 0.0))
    first, second = found.notes
    verdict = f"{found.name}: {found.sentence}"
    assert str(found) == f"{verdict}\nNote: {first}.\nNote: {second}."
    shown = found._repr_html_()
    assert shown.startswith(f"<p>{verdict}</p><table")
    assert shown.endswith(f"</table><p>Note: {first}.</p><p>Note: {second}.</p>")


def test_top_holds_the_ten_best_of_each_table():
    before, after = _pair(50, (2, 2), 2.0)
    top = _rerank((before, after)).top
    best_before = np.argsort(-before.runs.mean(axis=1))[:10]
    best_after = np.argsort(-after.runs.mean(axis=1))[:10]
    assert set(top["index"]) == set(best_before) | set(best_after)
    assert top["index"].iloc[0] == best_after[0]
    assert top.set_index("index").loc[best_before[0], "rank_baseline"] == 1


def test_a_cell_without_a_bad_seed_is_not_ranked_better_by_it():
    """Seed 888 is worse by 5 points. The worst cell has no run with it."""
    before, after = _pair(20, (2, 2), 0.0)
    true = np.linspace(80, 82, 20)
    runs = np.stack([true, true - 5], axis=1)
    runs[0, 1] = np.nan
    top = _rerank((replace(before, runs=runs), after)).top.set_index("index")
    ranks = {cell: rank for cell, rank in top["rank_baseline"].items() if rank <= 10}
    assert ranks == {19 - place: place + 1 for place in range(10)}


@pytest.mark.parametrize("seeds", [3, 1])
def test_a_table_compared_with_its_equal_warns_of_nothing(seeds):
    """Warnings are errors in tests: nothing may be divided by a noise of zero."""
    before, _ = _pair(40, (seeds, 1), 0.0)
    found = _rerank((before, _accuracies("again", before.runs)))
    assert found.tau == pytest.approx(found.seed_tau) if seeds == 3 else found.tau == 1
    assert found.improvement["difference"] == 0


def test_tau_above_the_noise_is_said_with_what_it_can_mean():
    """The second table contains the runs of the first with very little added noise."""
    before, after = _pair(80, (3, 3), 0.0)
    trace = np.random.default_rng(0).normal(0, 0.01, before.runs.shape)
    again = _accuracies("again", before.runs[:, [1, 2, 0]] + trace)
    said = _rerank((before, again)).sentence
    assert said.startswith("No difference was detected.")
    assert "the tables agree more than independent runs do" in said
    assert "share runs" in said
    assert "agree more" not in _rerank((before, after)).sentence


def test_compare_takes_names_tables_and_rows_alike():
    options = {"draws": 20, "top_percent": (100, 50)}
    by_name = rebench.compare("mini@fixed", "mini@topology", **options)
    tables = [open_table(f"mini@{recipe}") for recipe in ("fixed", "topology")]
    for before, after in (tables, [table.frame() for table in tables]):
        found = compare_tables(before, after, **options)
        pd.testing.assert_frame_equal(found.frame(), by_name.frame())
    said = "mini@topology against mini@fixed, cifar10-jpeg16"
    assert by_name.name == compare_tables(*tables, **options).name == said
    with pytest.raises(InputError, match=r"got cifar10 \(mini@fixed: cifar10-jpeg16"):
        compare_tables(*tables, dataset="cifar10")
    # As on the page of findings: a drop of 0.31, a corrected tau of 0.38.
    assert by_name.drop[0] == pytest.approx(0.3107, abs=5e-5)
    assert by_name.corrected_tau == pytest.approx(0.381, abs=5e-4)
    assert str(by_name).startswith(f"{said}: The rankings differ by")
    assert repr(by_name) == f"<Reranking: {by_name}>"
    assert "<table" in by_name._repr_html_()


@pytest.mark.parametrize("by", [None, "mini@topology-lr"])
def test_the_jackknife_is_of_the_drops_of_the_comparison(by):
    """The table that selects the top K % is the same."""
    options = {"draws": 0, "top_percent": (100, 50)}
    found = rebench.compare("mini@fixed", "mini@topology", by=by, **options)
    assert found.jackknife()["drop"].tolist() == pytest.approx(found.by_k["drop"].tolist())


def test_accuracies_with_an_index_of_cells_are_compared_with_a_table():
    """The result is that of the same accuracies as long rows, in either order."""
    rows = open_table("mini@topology").frame().query("split == 'ori-test'")
    wide = rows.pivot_table(index="index", columns="seed", values="accuracy")
    options = {"draws": 20, "top_percent": (100,)}
    found = rebench.compare("mini@fixed", wide.iloc[::-1], **options)
    by_rows = rebench.compare("mini@fixed", rows, **options)
    pd.testing.assert_frame_equal(found.frame(), by_rows.frame())
    assert found.measured == by_rows.measured
    swapped = rebench.compare(wide, "mini@fixed", **options)
    assert swapped.tau == pytest.approx(found.tau)
    single = rebench.compare("mini@fixed", wide[777], **options)
    assert "1 seed." in single.sentence
    with pytest.raises(InputError, match="as a pandas Series or DataFrame with the numbers of"):
        rebench.compare("mini@fixed", np.arange(20.0))
    with pytest.raises(InputError, match="must contain the numbers of the cells"):
        rebench.compare("mini@fixed", wide.set_axis([f"cell {own}" for own in wide.index]))
    with pytest.raises(UnknownNameError, match="unknown table 'minj'"):
        rebench.compare("minj", wide)
    with pytest.raises(InputError, match="name the data set with dataset: the table has Image"):
        rebench.compare("nb201", wide)


def test_tables_of_other_data_or_other_images_are_refused():
    rows = open_table("mini@fixed").frame()
    half = rows[rows["split"] == "ori-test"]
    said = r"share no split \(baseline: x-valid; other: ori-test\), so their accuracies"
    with pytest.raises(InputError, match=said):
        rebench.compare(half.assign(split="x-valid"), half)
    with pytest.raises(UnknownNameError, match="unknown split 'x-valid' of other; valid: ori-test"):
        rebench.compare(half.assign(split="x-valid"), half, split="x-valid")
    other = r"share no data set \(baseline: cifar10-jpeg16; other: cifar100\).*--against-dataset"
    with pytest.raises(InputError, match=other) as caught:
        rebench.compare(rows, rows.assign(dataset="cifar100"))
    assert "name one" not in str(caught.value)  # no name of one data set would help
    several = pd.concat([rows.assign(dataset=name) for name in ("svhn", "cifar10", "digits")])
    with pytest.raises(InputError, match=r"baseline: cifar10, digits, svhn; other: cifar100"):
        rebench.compare(several, rows.assign(dataset="cifar100"))


def test_two_data_sets_are_compared_on_purpose():
    """The result equals that for the same rows with one name of the data set.

    Each table is measured on the split that it has.
    """
    first, second = (
        open_table(f"mini@{name}").frame().query("split == 'ori-test'")
        for name in ("fixed", "topology")
    )
    options = {"draws": 20, "top_percent": (100,)}
    same = rebench.compare(first, second, **options)
    other = second.assign(dataset="cifar100", split="x-test")
    found = rebench.compare(first, other, against_dataset="cifar100", **options)
    pd.testing.assert_frame_equal(found.frame(), same.frame())
    assert (found.dataset, found.split) == (
        "cifar100 against cifar10-jpeg16", "x-test against ori-test"
    )  # fmt: skip
    assert found.name == "other on cifar100 against baseline on cifar10-jpeg16"
    both = pd.concat([other, second])
    with pytest.raises(InputError, match="name the data set of baseline"):
        rebench.compare(both, first, against_dataset="cifar10-jpeg16", **options)
    with pytest.raises(InputError, match="share no data set"):
        rebench.compare(first, other, **options)
    with pytest.raises(
        UnknownNameError, match="unknown data set 'cifar' of other; valid: cifar100"
    ):
        rebench.compare(first, other, against_dataset="cifar", **options)


def test_what_the_data_show_against_the_test_is_said():
    rng = np.random.default_rng(3)
    before, after = _pair(100, (3, 3), 0.0, seed=3)
    failed = rng.random(after.runs.shape) < 0.08
    broken = replace(after, runs=np.where(failed, 10.0, after.runs), diverged=failed)
    found = _rerank((before, broken))
    assert np.isnan(found.p_value)
    assert found.sentence.startswith("No p-value can be given; the notes say why. Top 100 %: tau")
    assert any("diverged although other seeds of the cell did not" in note for note in found.notes)
    # If all seeds of a cell diverge, the recipe does not train this cell: p is still valid.
    always = np.zeros(after.runs.shape, dtype=bool)
    always[:5] = True
    assert np.isfinite(_rerank((before, replace(after, diverged=always))).p_value)

    noisier = replace(after, runs=after.runs + rng.normal(0, 1, after.runs.shape))
    assert any("standard deviation" in note for note in _rerank((before, noisier)).notes)

    true = 95 - 6 * np.exp((90 - before.means) / 1.5)
    flat = replace(after, runs=true[:, None] + rng.normal(0, 0.3, after.runs.shape))
    found = _rerank((before, flat))
    assert np.isnan(found.p_value)
    assert any("one of them saturates" in note for note in found.notes)

    lacking = after.runs.copy()
    lacking[:30, 0] = np.nan
    notes = _rerank((before, replace(after, runs=lacking))).notes
    assert any("30 runs of topology are missing: if these are bad runs" in note for note in notes)

    favoured = after.runs + 0.5 * rng.normal(size=(100, 1)) * np.array([-1.0, 0.0, 1.0])
    found = _rerank((before, replace(after, runs=favoured)))
    assert any("effect of a seed seems to differ between cells" in note for note in found.notes)
    by_seed = found.jackknife().dropna()
    curve = found.frame().loc[by_seed.index]
    assert (curve["p_value"] >= by_seed["p_value"]).all()
    assert (curve["drop_low"] <= by_seed["drop_low"]).all()
    assert (curve["drop_high"] >= by_seed["drop_high"]).all()
    fewer = replace(before, seeds=before.seeds[:2], runs=before.runs[:, :2])
    found = _rerank((fewer, replace(after, runs=favoured)))
    assert np.isfinite(found.p_value)
    assert not any("effect of a seed" in note for note in found.notes)
    assert _rerank((before, after)).notes == ()


def test_a_third_table_chooses_the_top_of_both():
    """Each K is compared with the comparison of the best cells of the third table only."""
    before, after = _pair(80, (3, 3), 1.0)
    third = _accuracies("third", np.random.default_rng(4).permutation(80)[:, None] + 10.0)
    found = rerank(
        Paired.of(before, after).chosen_by(third),
        dataset="",
        top_percent=(100, 50),
        by="third",
        draws=49,
        rng=1,
    )
    assert found.frame()["n_cells"].tolist() == [80, 40]
    assert "the top K % are chosen by third" in found.notes
    best = third.runs[:, 0] >= np.sort(third.runs[:, 0])[40]
    alone = agreement(Paired.of(before.take(best), after.take(best)), (100,), draws=0)
    for name in ("tau", "seed_tau", "drop"):
        assert found.frame()[name].iloc[1] == pytest.approx(alone[name].iloc[0])
    taus = found.frame()["means_tau"].iloc[1]
    means = before.means[best], after.means[best]
    assert taus == pytest.approx(stats.kendalltau(*means).statistic)
    assert found.p_value < 0.05
    parts = [rerank(Paired.of(before.take(own), after.take(own)), dataset="", draws=0)
             for own in (np.full(80, True), best)]  # fmt: skip
    expected = [part.jackknife()["drop_low"].iloc[0] for part in parts]
    assert found.jackknife()["drop_low"].tolist() == pytest.approx(expected)
    given = compare_tables(before.runs, after.runs, by=third.runs, draws=0, top_percent=(50,))
    assert given.chooser == "the third table"
    assert given.tau == pytest.approx(found.frame()["tau"].iloc[1])


def test_a_third_table_of_several_data_sets_is_used_on_that_of_the_first_table():
    rng = np.random.default_rng(8)
    first, second, by = (
        pd.DataFrame({"index": range(60), "seed": 0, "accuracy": rng.normal(90, 1, 60)}).assign(
            dataset=dataset, split="ori-test", epochs=1
        )
        for dataset in ("cifar10", "cifar100", "cifar10")
    )
    both = pd.concat([by.assign(dataset="cifar100", accuracy=first["accuracy"]), by])
    options = {"draws": 0, "top_percent": (50,)}
    found = rebench.compare(first, second, against_dataset="cifar100", by=both, **options)
    alone = rebench.compare(first, second, against_dataset="cifar100", by=by, **options)
    assert found.tau == alone.tau
    arrays = [table.set_index("index")["accuracy"] for table in (first, second)]
    named = rebench.compare(*arrays, dataset="cifar10", by=both, **options)
    assert named.tau == alone.tau


def test_a_third_table_is_opened_by_name_or_given():
    tables = [open_table(f"mini@{recipe}") for recipe in ("fixed", "topology")]
    options = {"draws": 20, "top_percent": (100, 50)}
    named = rebench.compare(*tables, by="mini@fixed(lr=0.05)", **options)
    given = rebench.compare(*tables, by=open_table("mini@fixed(lr=0.05)"), **options)
    pd.testing.assert_frame_equal(named.frame(), given.frame())
    assert named.tau == rebench.compare(*tables, **options).tau  # all cells are the same
    rows = open_table("mini@fixed(lr=0.05)").frame()
    half = rows.assign(dataset="cifar10-jpeg16-valid", accuracy=1.0)
    both = rebench.compare(*tables, by=pd.concat([half, rows]), **options)
    pd.testing.assert_frame_equal(both.frame(), given.frame())  # by the data set of equal name
    alike = rebench.compare(*tables, by=rows.assign(dataset="cifar10"), **options)
    pd.testing.assert_frame_equal(alike.frame(), given.frame())
    other = rows.assign(dataset="digits")
    message = "unknown data set 'cifar10-jpeg16' of the third table, .*; valid: digits"
    with pytest.raises(UnknownNameError, match=message):
        rebench.compare(*tables, by=other, **options)
    far = replace(_accuracies("third", np.ones((3, 1))), cells=np.array([0, 1, 2]))
    before, after = _pair(60, (3, 3), 0.0)
    apart = Paired.of(*(replace(table, cells=np.arange(60) + 10) for table in (before, after)))
    with pytest.raises(InputError, match="third has none of the 60 cells compared"):
        apart.chosen_by(far)


def test_cells_that_one_of_the_tables_chose_are_said_to_be():
    rng = np.random.default_rng(5)
    many = _accuracies("nb201", rng.normal(90, 2, (300, 2)))
    best = np.argsort(-many.means)[:30]
    few = replace(_accuracies("mine", many.runs[:30]), cells=np.sort(best))
    [note] = [note for note in Paired.of(many, few).notes if "best of the 300" in note]
    assert note.startswith("the 30 cells in common are the best of the 300 of nb201")
    some = replace(few, cells=np.sort(rng.choice(300, 30, replace=False)))
    assert not any("best of" in note for note in Paired.of(many, some).notes)


def test_tied_cells_are_not_called_too_few():
    before, _ = _pair(20, (3, 3), 0.0)
    tied = _accuracies("tied", np.full((20, 3), 10.0))
    said = _rerank((before, tied)).sentence
    assert said == "No comparison is possible: all cells are tied in benchmark or tied."


@pytest.mark.parametrize(
    ("n", "top", "cells", "least"),
    [(60, [1], "1 cell", "16"), (60, [5, 10], "6 cells", "16"), (900, [1], "9 cells", "1.1")],
)
def test_a_k_that_leaves_too_few_cells_is_refused_with_the_smallest_that_works(
    n, top, cells, least
):
    """The top 16 % of 60 cells are 10 cells, the top 15 % are 9."""
    tables = _pair(n, (3, 3), 1.0)
    said = rf"at least 10 of the {n} cells, but the top {max(top)} % are {cells}: .* K of {least} "
    with pytest.raises(InputError, match=said):
        _rerank(tables, top_percent=top)
    assert _rerank(tables, top_percent=[float(least)]).by_k["n_cells"].tolist() == [10]


def test_small_tables_are_not_refused_for_their_k():
    assert "the tables have 9 cells in common" in _rerank(_pair(9, (3, 3), 1.0)).sentence


def test_arrays_that_are_not_in_percent_get_a_note_and_frames_of_words_an_error():
    a = np.random.default_rng(0).normal(70, 5, (60, 3))
    said = "no accuracy is above 1; if these are fractions, multiply them by 100"
    both = str(rebench.compare(a / 100, a[:, :2] / 100, draws=0))
    assert f"baseline: {said}" in both
    assert f"other: {said}" in both
    one = str(rebench.compare(a, a[:, :2] / 100, draws=0))
    assert f"other: {said}" in one
    assert f"baseline: {said}" not in one
    assert said not in str(rebench.compare(a, a[:, :2], draws=0))
    too_large = np.where(np.arange(60)[:, None] == 7, 250, a[:, :2])
    said = "other: an accuracy is 250; accuracies are percentages, from 0 to 100"
    assert said in str(rebench.compare(a, too_large, draws=0))
    with pytest.raises(InputError, match="got 3 cells with 60 seeds: transpose them"):
        rebench.compare(a.T, a.T + 1)
    named = pd.DataFrame({"arch": ["a", "b"], "mine": [70.0, 71.0]})
    with pytest.raises(
        InputError, match=r"must be numbers, .* 'a'.* with rebench.Table.from_frame"
    ):
        rebench.compare(named, named)


def test_p_beside_a_drop_is_that_of_its_k():
    """Without a difference the sentence gives the drop at the largest K, and p at this K."""
    found = _rerank(_pair(80, (3, 3), 0.0), top_percent=[100, 50])
    uneven = replace(found, by_k=found.by_k.assign(p_family=[0.9, 0.4]))
    assert uneven.p_of_verdict == 0.4
    assert "p = 0.900, adjusted for all K). " in uneven.sentence
    of_two = replace(uneven, p_adjusted=0.44, comparisons=2)
    assert "p = 0.990, adjusted for all K and 2 comparisons). " in of_two.sentence


def test_a_small_p_next_to_an_interval_that_contains_0_is_explained():
    """The test has more power than the interval, because means have less noise than runs."""
    found = _rerank(_pair(80, (3, 3), 0.0), top_percent=[100])
    said = "The interval of this drop contains 0, so its size is unknown: p is from means"
    for low, expected in ((-0.01, True), (0.01, False)):
        row = found.by_k.assign(p_family=0.01, drop_low=low)
        assert (said in replace(found, by_k=row).sentence) is expected


def test_a_table_compared_with_itself_is_refused():
    with pytest.raises(InputError, match=r"contain the same runs \(60 cells\): give two tables"):
        rebench.compare("mini@fixed", "mini@fixed")
    runs = np.random.default_rng(0).normal(90, 1, (60, 3))
    runs[7, 2] = np.nan
    with pytest.raises(InputError, match="contain the same runs"):
        rebench.compare(runs, runs.copy())


@pytest.mark.parametrize("draws", [1, 18, -1])
def test_draws_that_give_no_interval_are_refused_with_the_fewest_that_do(draws):
    with pytest.raises(InputError, match=f"draws must be at least 19, or 0 .*, got {draws}"):
        rerank(Paired.of(*_pair(20, (3, 3), 0.0)), dataset="", draws=draws)
    assert np.isnan(rerank(Paired.of(*_pair(20, (3, 3), 0.0)), dataset="", draws=0).drop[1])


def test_runs_that_collapse_in_one_table_are_left_out_and_counted():
    before, after = _pair(60, (3, 3), 0.0, seed=6)
    runs = after.runs.copy()
    runs[:9, 1] -= 8.0
    found = _rerank((before, replace(after, runs=runs)))
    assert (
        "0 of 180 runs of benchmark and 9 of 180 of topology are more than 7 standard deviations "
        "below the best run of their cell: these runs are omitted from tau, seed tau, `drop` and "
        "the test"
    ) in found.notes
    assert found.p_value > 0.05
    gone = replace(after, runs=np.where(runs < after.runs, np.nan, runs))
    expected = agreement(Paired.of(before, gone), draws=0)
    assert found.drop[0] == pytest.approx(expected["drop"].iloc[0])
