"""Study of a whole run: the order of its comparisons, and the adjustment for their number."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest
from report_tables import published_table, run_table, studied

from rebench.analysis import (
    TOP_PERCENT,
    Choices,
    Study,
    agreement,
    compare,
    reliability,
    rerank,
)
from rebench.analysis.drop import rank_curve
from rebench.analysis.matrix import read_rankings, tau_matrix
from rebench.analysis.p_values import holm
from rebench.analysis.study import study
from rebench.errors import InputError, UnknownNameError
from rebench.report.facts import subtitle
from rebench.tables import Table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run of three recipes (one is nb201) on two data sets, and a published table."""
    folder = tmp_path_factory.mktemp("run")
    both = [run_table(), run_table(dataset="digits")]
    pd.concat(both, ignore_index=True).to_parquet(folder / "results.parquet")
    published_table().to_parquet(folder / "published.parquet")
    return folder


@pytest.fixture(scope="module")
def whole(folder) -> Study:
    return studied(folder, Choices(published=folder / "published.parquet", draws=49))


def _compared(found: Study) -> list[tuple[str, str, str, str]]:
    return [
        (one.dataset, one.other.name, one.baseline.name, one.contrast) for one in found.rerankings
    ]


def test_the_runs_own_baseline_comes_first_and_the_published_table_second(whole):
    both = "pipeline and recipe"
    assert _compared(whole) == [
        ("cifar10", "fixed(lr=0.3)", "nb201", "recipe"),
        ("cifar10", "topology", "nb201", "recipe"),
        ("cifar10", "nb201", "benchmark", "pipeline"),
        ("cifar10", "fixed(lr=0.3)", "benchmark", both),
        ("cifar10", "topology", "benchmark", both),
        ("digits", "fixed(lr=0.3)", "nb201", "recipe"),
        ("digits", "topology", "nb201", "recipe"),
    ]
    assert whole.rerankings[4].name == "topology against benchmark (pipeline and recipe), cifar10"


def test_a_pair_has_the_same_figures_alone_among_others_and_in_a_matrix():
    run = run_table(recipes=("nb201", "fixed(lr=0.3)", "topology"))
    [*_, whole] = study(run, Choices(draws=49)).rerankings
    assert whole.name == "topology against nb201, cifar10"
    alone = compare(*(run[run["recipe"] == name] for name in ("nb201", "topology")), draws=49)
    pd.testing.assert_frame_equal(whole.by_k, alone.by_k)
    [rankings] = read_rankings(run, "recipes")[0].values()
    pairs, _ = tau_matrix(rankings, alone.by_k["top_percent"], draws=49)
    found = pairs[(pairs["first"] == "nb201") & (pairs["second"] == "topology")]
    for name in ("tau", "seed_tau", "drop_low", "drop_high", "p_family"):
        assert found[name].tolist() == pytest.approx(alone.by_k[name].tolist(), nan_ok=True)


def test_each_data_set_is_compared_on_its_own_split():
    """The usual split of all rows together would be `ori-test`, which cifar100 lacks."""
    other = run_table(dataset="cifar100").assign(split="x-test")
    found = study(pd.concat([run_table(), other]), Choices(draws=0))
    assert {(one.dataset, one.split) for one in found.rerankings} == {
        ("cifar10", "ori-test"),
        ("cifar100", "x-test"),
    }
    assert "accuracy on ori-test and x-test;" in subtitle(found)


def test_against_takes_one_side_alone(folder):
    chosen = Choices(published=folder / "published.parquet", datasets=["cifar10"], draws=20)
    for against, expected in (("benchmark", {"benchmark"}), ("topology", {"topology"})):
        found = studied(folder, Choices(**_fields(chosen) | {"against": against}))
        assert {one.baseline.name for one in found.rerankings} == expected


def test_draws_seed_and_levels_have_the_same_defaults_everywhere():
    usual = {"draws": 1000, "seed": 0, "top_percent": TOP_PERCENT, "by": None, "split": None}
    for function in (compare, reliability, rerank, agreement, rank_curve, Choices):
        given = inspect.signature(function).parameters
        shared = {name: given[name].default for name in usual if name in given}
        shared |= {"split": None}  # `rerank` names the whole test set
        assert shared == {name: value for name, value in usual.items() if name in shared}
        assert {"draws", "top_percent"} <= {*shared}
    given = inspect.signature(tau_matrix).parameters.values()
    assert [one.default for one in given][1:] == [(100.0,), 1000, 0]
    assert TOP_PERCENT == (100, 90, 80, 70, 60, 50, 40, 30, 20, 10, 5, 1)


def _fields(chosen: Choices) -> dict[str, object]:
    return {name: getattr(chosen, name) for name in chosen.__dataclass_fields__}


def test_p_values_are_adjusted_over_recipes_and_data_sets_compared_alike(whole):
    alike = [one for one in whole.rerankings if one.contrast == "recipe"]
    others = [one for one in whole.rerankings if one.contrast != "recipe"]
    for family in (alike, others):
        expected = holm([one.p_value for one in family])
        assert [one.p_adjusted for one in family] == pytest.approx(expected.tolist())
        assert {one.comparisons for one in family} == {len(family)}
    assert "adjusted for all K and 4 comparisons" in alike[0].sentence


def test_holm_is_the_hand_calculation():
    # 0.01 * 4 = 0.04, 0.02 * 3 = 0.06, 0.03 * 2 = 0.06. 0.04 * 1 is raised to 0.06, because
    # adjusted p-values must not fall.
    assert holm([0.02, 0.01, 0.04, 0.03]).tolist() == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.5, 0.6]).tolist() == [1.0, 1.0]
    found = holm([np.nan, 0.03])
    assert np.isnan(found[0])
    assert found[1] == 0.03


def test_diverged_runs_count_with_what_they_ended_with_and_are_named(tmp_path):
    table = run_table(recipes=("nb201", "topology"))
    mine = (table["recipe"] == "topology") & (table["seed"] == 777)
    cells = table.loc[mine, "index"].to_numpy()[:2]
    failed = mine & table["index"].isin(cells)
    table.loc[failed, ["status", "accuracy"]] = ["diverged", 10.0]
    table.to_parquet(tmp_path / "results.parquet")
    [one] = studied(tmp_path, Choices(draws=20)).rerankings
    named = ", ".join(str(cell) for cell in sorted(cells))
    expected = "topology: 2 runs that diverged and count with the accuracy they ended with"
    assert f"{expected}: cells {named}" in one.notes
    at = one.baseline.cells.tolist().index(cells[0])
    assert one.other.runs[at, 0] == 10.0


def test_fixed_at_the_benchmarks_rate_is_the_runs_own_nb201(tmp_path):
    rows = run_table(recipes=("fixed", "fixed(lr=0.2)", "fixed(lr=0.4)"))
    rows.to_parquet(tmp_path / "rates.parquet")
    found = studied(tmp_path / "rates.parquet", Choices(draws=20))
    assert [(one.baseline.name, one.other.name) for one in found.rerankings] == [
        ("fixed", "fixed(lr=0.2)"),
        ("fixed", "fixed(lr=0.4)"),
    ]


def test_recipe_without_a_training_of_these_epochs_is_left_out_and_refused_by_name():
    rows = run_table(recipes=("nb201", "topology", "mup"))
    rows.loc[rows["recipe"] == "mup", "epochs"] = 12
    found = study(rows, Choices(draws=0, epochs=200))
    assert [one.other.name for one in found.rerankings] == ["topology"]
    assert "mup on cifar10 was not trained for 200 epochs: left out" in found.notes
    for chosen in ({"recipes": ["mup"]}, {"against": "mup"}):
        with pytest.raises(UnknownNameError, match=r"unknown recipe 'mup'; valid: .*nb201"):
            study(rows, Choices(draws=0, epochs=200, **chosen))


def test_published_table_without_the_data_set_is_told_from_no_published_table():
    rows, other = run_table(recipes=("nb201", "topology")), published_table(dataset="cifar100")
    chosen = Choices(draws=0, published="other.parquet")
    [note] = study(rows, chosen, published=Table.from_frame(other)).notes
    assert note.endswith("because the published table lacks cifar10 ori-test")
    [note] = study(rows, Choices(draws=0)).notes
    assert note.endswith("because no published accuracies were given (--published)")


def test_longest_training_is_compared_and_the_others_are_named():
    short = run_table(recipes=("nb201", "topology")).assign(epochs=12)
    found = study(pd.concat([short, run_table(recipes=("nb201", "topology"))]), Choices(draws=0))
    assert [one.measured for one in found.rerankings] == [
        "40 cells, 3 seeds, cifar10 ori-test, 200 epochs"
    ]
    several = "on cifar10 was trained for 12, 200 epochs: the longest is shown"
    assert [note.split(" (")[0] for note in found.notes[:2]] == [
        f"nb201 {several}", f"topology {several}"
    ]  # fmt: skip


@pytest.mark.parametrize(("trained", "compared"), [(12, 12), (50, 200)])
def test_published_runs_of_the_same_epochs_are_compared_or_else_the_longest(
    tmp_path, trained, compared
):
    published = pd.concat([published_table().assign(epochs=own) for own in (12, 100, 200)])
    published.to_parquet(tmp_path / "published.parquet")
    run_table(recipes=("nb201",)).assign(epochs=trained).to_parquet(tmp_path / "run.parquet")
    chosen = Choices(published=tmp_path / "published.parquet", draws=0)
    [one] = studied(tmp_path / "run.parquet", chosen).rerankings
    assert (one.baseline.epochs, one.other.epochs) == (compared, trained)


def test_a_table_with_one_recipe_alone_is_told_of_the_second_ranking_it_needs(tmp_path):
    run_table(recipes=("nb201",)).to_parquet(tmp_path / "one.parquet")
    with pytest.raises(InputError, match=r"--published TABLE.* a second recipe") as caught:
        studied(tmp_path / "one.parquet", Choices(draws=0))
    told = str(caught.value)
    assert f"`rebench rank {tmp_path / 'one.parquet'}` shows how well seeds agree" in told
    assert "--against" not in told


def test_the_published_table_is_a_valid_name_only_if_it_is_given():
    rows = run_table(recipes=("nb201", "topology", "mup"))
    rows.loc[rows["recipe"] == "mup", "epochs"] = 12
    for against in ("usul", "mup"):
        for published in (None, "nb201"):
            chosen = Choices(against=against, published=published, draws=0, epochs=200)
            with pytest.raises(UnknownNameError) as caught:
                study(rows, chosen)
            assert ("benchmark" in str(caught.value)) == (published is not None)


def test_recipes_without_a_common_one_are_named(tmp_path):
    run_table(recipes=("topology", "mup")).to_parquet(tmp_path / "rules.parquet")
    with pytest.raises(InputError, match=r"recipes of .* are mup, topology; name one .*--against"):
        studied(tmp_path / "rules.parquet", Choices(draws=20))
