"""Trials of a recipe whose rule changed while its run was trained are named."""

import pytest
from made_records import make_record, write_records

from rebench.recipes import learning_rate
from rebench.runs import RecipeSpec
from rebench.tables import open_table
from rebench.tables.collecting import collect

FIXED = RecipeSpec(name="fixed")  # the same rate for all cells
NOW = learning_rate(11, "fixed")
OLD = 3 * NOW


def run_with(folder, *trained, recipe=FIXED):
    """Make a run of trials, each given by its cell, seed and learning rate."""
    records = [
        make_record(cell, seed, recipe=recipe, outcome={"learning_rate": rate})
        for cell, seed, rate in trained
    ]
    write_records(folder, "worker", *records)
    return folder


@pytest.mark.parametrize(
    ("trained", "told"),
    [
        (
            [(11, 1, OLD), (11, 2, NOW), (12, 1, NOW)],
            "1 of 2 cells have several learning rates, such as cell 11: 0.1 and 0.3",
        ),
        (
            [(11, 1, NOW), (12, 1, OLD), (13, 1, OLD)],
            "2 of 3 cells have an outdated learning rate, such as cell 12: 0.3, now 0.1",
        ),
    ],
)
def test_run_of_two_rules_is_named_by_collect_and_by_every_reader(tmp_path, caplog, trained, told):
    run = run_with(tmp_path / "run", *trained)
    (line,) = collect(run).changed_rules
    assert line.startswith(f"recipe 'fixed': {told}. If the rule changed")
    for _ in range(2):
        open_table(run)
    assert [record.message for record in caplog.records] == [f"{run}: {line}"]


def test_unknown_recipe_with_two_rates_of_a_cell_is_named(tmp_path):
    run = run_with(tmp_path / "run", (11, 1, OLD), (11, 2, NOW), recipe=RecipeSpec(name="theirs"))
    (line,) = collect(run).changed_rules
    assert "recipe 'theirs': 1 of 1 cells have several learning rates" in line


def test_changed_code_of_a_recipe_and_changed_images_are_named(tmp_path):
    theirs = RecipeSpec(name="theirs")
    write_records(
        tmp_path,
        "worker",
        make_record(seed=1, recipe=theirs, recipe_code="a", data_digest="c"),
        make_record(seed=2, recipe=theirs, recipe_code="b", data_digest="c"),
        make_record(seed=3, recipe=theirs, data_digest="d"),
        make_record(seed=4, trial={"split": "valid"}, recipe_code="a", data_digest="e"),
    )
    code, images = collect(tmp_path).changed_rules
    assert code.startswith("recipe 'theirs': the code of its package changed during the run (2 v")
    assert images.startswith("data set digits (split full): its images changed during the run (2 v")


@pytest.mark.parametrize(
    ("recipe", "trained"),
    [
        ("fixed", [(11, 1, NOW), (11, 2, NOW * (1 + 1e-9)), (12, 1, NOW)]),
        ("fixed", [(11, 1, OLD), (12, 1, OLD)]),  # the rule changed after the run
        ("one-step", [(11, 1, OLD), (11, 2, NOW)]),  # measured
        ("theirs", [(11, 1, OLD), (12, 1, NOW)]),
    ],
)
def test_run_of_one_rule_gives_no_warning(tmp_path, recipe, trained):
    run = run_with(tmp_path / "run", *trained, recipe=RecipeSpec(name=recipe))
    assert collect(run).changed_rules == ()
