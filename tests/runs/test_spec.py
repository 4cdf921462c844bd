"""The sweep's TOML file: its valid contents, and the messages about mistakes."""

import math
import re
from pathlib import Path

import pytest
from made_records import SWEEP

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

LONGER = "epochs = 300\n" + SWEEP + "[start]\nrun = 'first'\nepochs = 200\n"


@pytest.mark.parametrize(
    ("machine", "gpus", "device", "workers"),
    [("laptop", 0, "cpu", 1), ("slurm-gpu", 1, "auto", 1), ("slurm-cpu", 0, "cpu", 8)],
)
def test_example_is_a_valid_spec_for_every_machine(machine, gpus, device, workers):
    spec = parse_spec(example(machine))
    assert [recipe.label for recipe in spec.recipes] == ["nb201", "topology"]
    options = spec.slurm
    assert (options.gpus, options.device, options.processes_per_job) == (gpus, device, workers)
    assert not [line for line in example(machine).splitlines() if len(line) > 100]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", ""),
        ("gpus_per_task = 0", ""),
        ("device = 'cpu'", ""),
        ("gpus_per_task = 'a100:2'", "gpus_per_task = a100:2"),
        ("cuda_graphs = true", "cuda_graphs = true"),
        ("device = 'cuda:1'", "device = 'cuda:1'"),
    ],
)
def test_setting_that_needs_a_gpu_is_named(given, said):
    assert parse_spec(f"{SWEEP}[slurm]\n{given}").slurm.gpu_setting == said


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("sedes = [1]\n" + SWEEP, "seeds"),
        (SWEEP + "tpo = { n = 3 }", "top"),
        (SWEEP + "[slurm]\npartitoin = 'x'", "partition"),
        (SWEEP + "[skeleton]\nchanels = 3", "channels"),
        (SWEEP + "random = { num = 4 }", "n"),
    ],
)
def test_unknown_key_names_the_nearest_first(text, nearest):
    with pytest.raises(UnknownNameError) as caught:
        parse_spec(text)
    assert str(caught.value).partition("valid: ")[2].startswith(nearest)


# Values that Python takes for a switch or for a number.
OTHER_KINDS = [
    ("[protocol]\naugment = 'no'", "protocol.augment: must be true or false, got 'no'"),
    ("[protocol]\nnesterov = 0", "protocol.nesterov: must be true or false, got 0"),
    ("all = 'off'", "cells.all: must be true or false, got 'off'"),
    ("[train]\nhalf = 'yes'", "train.half: must be true or false, got 'yes'"),
    ("[slurm]\ncompile_net = 'on'", "slurm.compile_net: must be true or false, got 'on'"),
    ("[slurm]\ncuda_graphs = 1", "slurm.cuda_graphs: must be true or false, got 1"),
    ("random = { n = true }", "cells.random.n: must be a whole number, got True"),
    ("top = { percent = '5' }", "cells.top.percent: must be a number, got '5'"),
    ("[skeleton]\nchannels = true", "skeleton.channels: must be a whole number, got True"),
    ("[slurm]\ntime_min = true", "slurm.time_min: must be a whole number, got True"),
]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SWEEP.replace("[11]", "[true]"), r"cells.indices.0: must be a whole number, got True$"),
        (SWEEP.replace("[11]", "[99999]"), r"0\.\.15624, got 99999"),
        (SWEEP.replace("[11]", "[]"), "no cells: give"),
        (SWEEP + "top = { n = 3, percent = 5 }", "either n or percent"),
        (SWEEP + "top = { percent = 0 }", "greater than 0, got 0"),
        (
            LONGER.replace("300", "200"),
            r"start: the epochs of the sweep \(200\) include those of start \(200\)",
        ),
        *((SWEEP + text, f"{said}$") for text, said in OTHER_KINDS),
        ("seeds = 1", "cells: is missing"),
        ("x = = 3", "not TOML"),
    ],
)
def test_bad_value_says_the_rule(text, message):
    with pytest.raises(InputError, match=message):
        parse_spec(text)


def test_missing_file_is_bad_input_and_a_path_may_be_a_text(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        read_spec(str(tmp_path / "nothing.toml"))
    (tmp_path / "sweep.toml").write_text(SWEEP)
    assert read_spec(str(tmp_path / "sweep.toml")) == parse_spec(SWEEP)


def test_recipes_that_the_example_shows_as_comments_are_valid_too():
    shown = [line for line in example().splitlines() if line.startswith("# recipes = [")]
    assert len(shown) == 1
    spec = parse_spec(SWEEP.replace('recipes = ["nb201"]', shown[0].removeprefix("# ")))
    assert [one.label for one in spec.recipes] == ["topology(degree=target)", "fixed(lr=0.46)"]


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("slurm.partition=gpu", ("slurm.partition", "gpu")),
        ("slurm.partition='123'", ("slurm.partition", "123")),
        ("seeds = [1, 2]", ("seeds", [1, 2])),
        ("slurm.cuda_graphs=true", ("slurm.cuda_graphs", True)),
        ("slurm.setup=['a=1']", ("slurm.setup", ["a=1"])),
        ("slurm.comment=a=b", ("slurm.comment", "a=b")),
        ("x=", ("x", "")),
        *(("slurm.partition", None), ("=gpu", None), ("", None)),
    ],
)
def test_setting_is_a_toml_value_or_a_bare_word(text, setting):
    if setting is not None:
        assert parse_setting(text) == setting
        return
    with pytest.raises(InputError, match="KEY=VALUE"):
        parse_setting(text)


def test_settings_change_what_the_file_says_and_nothing_else():
    spec = parse_spec(SWEEP + "top = { n = 3 }\n[slurm]\nqos = 'long'\nextra = { nice = 1 }")
    changed = with_settings(
        spec, {"seeds": [5], "slurm.mem_gb": 2.5, "slurm.extra.hold": True, "cells.random.n": 4}
    )
    assert changed.seeds == [5]
    assert changed.cells.random.n == 4
    slurm = spec.slurm.model_copy(update={"mem_gb": 2.5, "extra": {"nice": 1, "hold": True}})
    assert changed.slurm == slurm
    assert with_settings(spec, {}) == spec


def test_other_settings_keep_a_table_that_has_the_name_of_a_folder(tmp_path, monkeypatch):
    """Only a typed name of a table can be a file in the current folder."""
    spec = parse_spec(SWEEP + "top = { n = 3, table = 'nb201' }")
    for name in ("nb201", "mine"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    kept = with_settings(spec, {"slurm.partition": "gpu"})
    assert kept.cells.top.table == spec.cells.top.table == Path("nb201")
    typed = with_settings(spec, {"cells.top.table": "mine"})
    assert typed.cells.top.table == tmp_path / "mine"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("slurm.partitoin", "x", "'partitoin' of [slurm] in the command line; valid: partition"),
        ("slrum.partition", "x", "'slrum' of the command line; valid: slurm"),
        ("epochs.partition", "x", "epochs: must be a whole number"),
        ("seeds", ["7"], "seeds.0: must be a whole number, got '7'"),
        ("seeds", [7.0], "seeds.0: must be a whole number, got 7.0"),
        ("seeds", [], "seeds: must have at least 1 item, got []"),
        ("slurm.time_min", "x", "slurm.time_min: a time is minutes or as in '1-00:00'"),
        (
            "slurm.gpus_per_task",
            "x",
            "slurm.gpus_per_task: must be a whole number or a type and a number, such as a100:2",
        ),
        ("slurm.device", "gpu", "slurm.device: must be auto, cpu, cuda or cuda:N"),
        ("slurm.mem_gb", 0, "the command line: slurm.mem_gb: must be greater than 0, got 0"),
        ("slurm.partitoin", "x", "'partitoin' of [slurm] in the command line; val"),
        ("slurm.comment", "x\ny", "comment: must be one line without control characters"),
    ],
)
def test_setting_of_an_unknown_key_or_a_bad_value_says_so(key, value, message):
    with pytest.raises(InputError, match=re.escape(message)):
        with_settings(parse_spec(SWEEP), {key: value})


def test_table_is_looked_for_beside_the_spec_and_that_of_a_setting_from_here(tmp_path, monkeypatch):
    path = tmp_path / "s.toml"
    path.write_text(SWEEP + "top = { n = 3, table = 'nb.parquet' }")
    spec = read_spec(path)
    assert spec.cells.top.table == tmp_path / "nb.parquet"
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    changed = with_settings(spec, {"cells.top.table": "nb.parquet"})
    assert changed.cells.top.table == tmp_path / "here" / "nb.parquet"


@pytest.mark.parametrize(
    ("table", "file", "is_path"),
    [
        ("nb201", None, False),
        ("mini@fixed(lr=0.2)", None, False),
        ("nb201", "nb201", True),
        ("mini@fixed(lr=0.2)", "mini.parquet", True),
        ("runs/mine", None, True),
    ],
)
def test_name_of_a_table_stays_a_name_unless_a_path_is_there(tmp_path, table, file, is_path):
    if file is not None:
        (tmp_path / file).touch()
    path = tmp_path / "s.toml"
    path.write_text(SWEEP + f"stratified = {{ n = 3, table = '{table}' }}")
    expected = tmp_path / table if is_path else Path(table)
    assert read_spec(path).cells.stratified.table == expected


def test_longer_sweep_says_with_what_it_begins_and_not_where_that_lies(tmp_path):
    file = tmp_path / "sweep.toml"
    file.write_text(LONGER)
    spec = read_spec(file)
    assert spec.start.run == tmp_path / "first"
    [[trial]] = spec.families([Cell.from_index(11)])
    assert trial.start == Start(epochs=200)
    assert (trial.epochs, trial.source.epochs, trial.source.start) == (300, 200, None)
    [[source]] = parse_spec(SWEEP).families([Cell.from_index(11)])
    assert trial.source.trial_id == source.trial_id


def test_sweep_of_a_report_or_a_run_is_read_as_its_file(tmp_path):
    (tmp_path / "a.toml").write_text(SWEEP + "[slurm]\ntime = '1-00:00'")
    spec = read_spec(tmp_path / "a.toml")
    (tmp_path / "again.json").write_text(spec.model_dump_json(indent=1))
    assert read_spec(tmp_path / "again.json") == spec


@pytest.mark.timeout(20)
def test_label_of_many_spaces_is_refused_at_once():
    with pytest.raises(InputError, match="NAME or NAME"):
        RecipeSpec.parse("fixed" + " " * 100_000 + "!")


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("fixed(lr=1", "NAME or NAME"),
        ("fixed(lr)", "expected FIELD=VALUE, got 'lr'$"),
        ("fixed(lr=0,5)", "expected FIELD=VALUE, got '5'; decimals have a point"),
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
    assert with_settings(parse_spec(SWEEP), expected).slurm.partition == "x"
    path.write_text("epochs = = 3")
    with pytest.raises(InputError, match="is not TOML"):
        read_settings(path)


A_START = {"epochs": 1, "run": "a", "what": "state"}


@pytest.mark.parametrize(
    ("before", "changes", "same"),
    [
        ({}, {"epochs": 3}, False),
        ({}, {"seeds": [2]}, False),
        ({}, {"start": {"epochs": 1, "run": "a"}}, False),
        ({}, {"slurm.partition": "x"}, True),
        ({}, {"slurm.time_min": 3}, True),
        ({}, {"train.keep": "weights", "train.half": True}, True),
        # The ids depend on the source of the weights (`what`, `epochs`), but not on its folder.
        ({"start": A_START}, {"start.run": "b"}, True),
        ({"start": A_START}, {"start.what": "weights"}, False),
        ({"start": A_START}, {"start.epochs": 2}, False),
    ],
)
def test_digest_is_of_what_is_trained(before, changes, same):
    spec = with_settings(parse_spec(SWEEP), before)
    assert len(spec.digest) == 16
    assert (with_settings(spec, changes).digest == spec.digest) is same


# A key, its last valid value, and the next value, which is invalid. The page sweep-file.md lists
# bounds, patterns and defaults of all keys; tests/test_docs.py compares them with the code.
BOUNDS = [
    ("epochs", 100_000, 100_001),
    ("datasets", ["digits"], []),
    ("recipes", ["nb201"], []),
    ("protocol.momentum", 0.999, 1.0),
    ("protocol.weight_decay", 5.0, math.inf),
    ("cells.stratified", {"n": 1, "strata": 15625}, {"n": 1, "strata": 15626}),
    ("start", {"epochs": 199, "run": "a"}, {"epochs": 200, "run": "a"}),
    ("slurm.time_min", 2**31 - 1, 2**31),
]


@pytest.mark.parametrize(("key", "inside", "outside"), BOUNDS)
def test_value_at_its_bound_is_taken_and_one_outside_is_refused_by_its_key(key, inside, outside):
    spec = parse_spec(SWEEP)
    place = with_settings(spec, {key: inside})
    for step in key.split("."):
        place = place[step] if isinstance(place, dict) else getattr(place, step)
    if not isinstance(inside, dict):
        assert place == ([RecipeSpec(name="nb201")] if key == "recipes" else inside)
    with pytest.raises(InputError, match=re.escape(key)):
        with_settings(spec, {key: outside})
