"""The sweep's TOML file: what it may say, and how a mistake is answered."""

import pytest

from cells import Cell
from rebench.errors import InputError, UnknownNameError
from rebench.runs import (
    RecipeSpec,
    Start,
    example,
    parse_setting,
    parse_spec,
    read_settings,
    read_spec,
    with_settings,
)

SMALL = """
datasets = ["digits"]
recipes = ["nb201"]
seeds = [1]
[cells]
indices = [11]
"""


def test_example_is_a_valid_spec():
    spec = parse_spec(example())
    assert [recipe.label for recipe in spec.recipes] == ["nb201", "topology"]
    assert spec.slurm.gpus_per_task == 1


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("sedes = [1]\n" + SMALL, "seeds"),
        (SMALL + "tpo = { n = 3 }", "top"),
        (SMALL + "[slurm]\npartitoin = 'x'", "partition"),
        (SMALL + "[skeleton]\nchanels = 3", "channels"),
        (SMALL + "random = { num = 4 }", "n"),
    ],
)
def test_unknown_key_names_the_nearest_first(text, nearest):
    with pytest.raises(UnknownNameError) as caught:
        parse_spec(text)
    assert str(caught.value).partition("valid: ")[2].startswith(nearest)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SMALL.replace("[11]", "[99999]"), r"0\.\.15624, got 99999"),
        (SMALL.replace("[11]", "[]"), "no cells: give"),
        (SMALL + "top = { n = 3, percent = 5 }", "one of n and percent"),
        (SMALL + "top = { percent = 0 }", "greater than 0, got 0"),
        ("seeds = 1", "cells: is missing"),
        ("x = = 3", "not TOML"),
    ],
)
def test_bad_value_says_the_rule(text, message):
    with pytest.raises(InputError, match=message):
        parse_spec(text)


def test_missing_file_is_bad_input(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        read_spec(tmp_path / "nothing.toml")


def test_digest_is_of_the_work_and_not_of_its_scheduling():
    plain = parse_spec(SMALL)
    assert parse_spec(SMALL + "[slurm]\ntime_min = 3").digest == plain.digest
    assert parse_spec(SMALL.replace("[1]", "[2]")).digest != plain.digest


def test_table_is_looked_for_beside_the_spec(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(SMALL + "top = { n = 3, table = 'nb.parquet' }")
    assert read_spec(path).cells.top.table == tmp_path / "nb.parquet"


def test_recipes_that_the_example_shows_as_comments_are_valid_too():
    shown = [line for line in example().splitlines() if line.startswith("# recipes = [")]
    assert len(shown) == 1
    spec = parse_spec(SMALL.replace('recipes = ["nb201"]', shown[0].removeprefix("# ")))
    assert [one.label for one in spec.recipes] == ["topology(degree=target)", "fixed(lr=0.46)"]


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("slurm.partition=gpu", "slurm.partition", "gpu"),
        ("slurm.partition='123'", "slurm.partition", "123"),
        ("seeds = [1, 2]", "seeds", [1, 2]),
        ("slurm.cuda_graphs=true", "slurm.cuda_graphs", True),
        ("slurm.setup=['a=1']", "slurm.setup", ["a=1"]),
        ("slurm.comment=a=b", "slurm.comment", "a=b"),
    ],
)
def test_setting_is_a_toml_value_or_a_bare_word(text, key, value):
    assert parse_setting(text) == (key, value)


@pytest.mark.parametrize("text", ["slurm.partition", "=gpu", ""])
def test_setting_without_a_key_or_a_value_is_refused(text):
    with pytest.raises(InputError, match="a setting is KEY=VALUE"):
        parse_setting(text)


def test_settings_change_what_the_file_says_and_nothing_else():
    spec = parse_spec(SMALL + "top = { n = 3 }\n[slurm]\nqos = 'long'\nextra = { nice = 1 }")
    changed = with_settings(
        spec,
        {"seeds": [5], "slurm.mem_gb": 2.5, "slurm.extra.hold": True, "cells.random.n": 4},
    )
    assert changed.seeds == [5]
    assert changed.cells.random.n == 4
    slurm = spec.slurm.model_copy(update={"mem_gb": 2.5, "extra": {"nice": 1, "hold": True}})
    assert changed.slurm == slurm
    assert with_settings(spec, {}) == spec


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("slurm.partitoin", r"of \[slurm\] in the command line: 'partitoin'; valid: partition"),
        ("slrum.partition", "of the command line: 'slrum'; valid: slurm"),
        ("epochs.partition", "epochs: must be a whole number"),
        ("slurm.time_min", "slurm.time_min: a time is minutes or as in '1-00:00'"),
    ],
)
def test_setting_of_an_unknown_key_or_a_bad_value_says_so(key, message):
    with pytest.raises(InputError, match=message):
        with_settings(parse_spec(SMALL), {key: "gpu"})


def test_table_of_a_setting_is_looked_for_from_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = parse_spec(SMALL + "top = { n = 3 }")
    changed = with_settings(spec, {"cells.top.table": "nb.parquet"})
    assert changed.cells.top.table == tmp_path / "nb.parquet"


LONGER = "epochs = 300\n" + SMALL + "[start]\nrun = 'first'\nepochs = 200\n"


def test_what_is_kept_changes_neither_digest_nor_trials():
    plain = parse_spec(SMALL)
    kept = parse_spec(SMALL + "[train]\nkeep = 'weights'\nhalf = true")
    assert kept.digest == plain.digest
    assert list(kept.families([Cell.from_index(11)])) == list(plain.families([Cell.from_index(11)]))


def test_longer_sweep_says_with_what_it_begins_and_not_where_that_lies(tmp_path):
    file = tmp_path / "sweep.toml"
    file.write_text(LONGER)
    spec = read_spec(file)
    assert spec.start.run == tmp_path / "first"
    [[trial]] = spec.families([Cell.from_index(11)])
    assert trial.start == Start(epochs=200)
    assert (trial.epochs, trial.source.epochs, trial.source.start) == (300, 200, None)
    [[source]] = parse_spec(SMALL).families([Cell.from_index(11)])
    assert trial.source.trial_id == source.trial_id
    elsewhere = with_settings(spec, {"start.run": "/other"})
    assert elsewhere.digest == spec.digest != parse_spec("epochs = 300\n" + SMALL).digest
    assert with_settings(spec, {"start.what": "state"}).digest != spec.digest


def test_sweep_that_has_no_epochs_left_to_train_is_refused():
    with pytest.raises(InputError, match="spec: start: epochs of the sweep count those of start"):
        parse_spec(LONGER.replace("300", "200"))


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("fixed(lr=1", "NAME or NAME"),
        ("fixed(lr)", "expected FIELD=VALUE, got 'lr'"),
        ("fixed(lr=[1])", "a parameter must be"),
        ("fixed(lr=1e999)", "a parameter must be"),
    ],
)
def test_label_that_is_no_recipe_says_what_one_is(label, message):
    with pytest.raises(InputError, match=message):
        RecipeSpec.parse(label)


def test_label_may_have_spaces_and_its_values_are_numbers_switches_or_words():
    parsed = RecipeSpec.parse(" a-b ( x = 1.5 , y=True,z=word,, ) ")
    assert parsed == RecipeSpec(name="a-b", parameters={"x": 1.5, "y": True, "z": "word"})


def test_settings_of_a_file_are_those_of_its_tables(tmp_path):
    path = tmp_path / "part.toml"
    path.write_text("epochs = 3\n[slurm]\npartition = 'x'\n[cells.random]\nn = 2\n")
    expected = {"epochs": 3, "slurm.partition": "x", "cells.random": {"n": 2}}
    assert read_settings(path) == expected
    assert with_settings(parse_spec(SMALL), expected).slurm.partition == "x"
    path.write_text("epochs = = 3")
    with pytest.raises(InputError, match="is not TOML"):
        read_settings(path)


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("a.b = [1, 2]", ("a.b", [1, 2])),
        ("x=gpu=1", ("x", "gpu=1")),
        ("x=", ("x", "")),
        ("=1", None),
        ("x", None),
    ],
)
def test_setting_is_a_key_and_a_value(text, setting):
    if setting is None:
        with pytest.raises(InputError, match="a setting is KEY=VALUE"):
            parse_setting(text)
    else:
        assert parse_setting(text) == setting


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"epochs": 3}, False),
        ({"seeds": [2]}, False),
        ({"start": {"epochs": 1, "run": "a"}}, False),
        ({"slurm.partition": "x"}, True),
        ({"train.keep": "weights"}, True),
    ],
)
def test_digest_is_of_what_is_trained(changes, same):
    spec = parse_spec(SMALL)
    assert len(spec.digest) == 16
    assert (with_settings(spec, changes).digest == spec.digest) is same


def test_digest_knows_what_a_sweep_begins_with_and_not_where_that_lies():
    start = {"epochs": 1, "what": "state"}
    both = [with_settings(parse_spec(SMALL), {"start": start | {"run": run}}) for run in "ab"]
    assert both[0].digest == both[1].digest
    weights = with_settings(both[0], {"start": {"epochs": 1, "run": "a"}})
    assert weights.digest != both[0].digest
    longer = with_settings(both[0], {"start.epochs": 2})
    assert longer.digest != both[0].digest
