"""The sweep's TOML file: its valid contents, and the messages about mistakes."""

import math
import re

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
LONGER = "epochs = 300\n" + SMALL + "[start]\nrun = 'first'\nepochs = 200\n"


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
    assert parse_spec(f"{SMALL}[slurm]\n{given}").slurm.gpu_setting == said


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
        (SMALL + "top = { n = 3, percent = 5 }", "either n or percent"),
        (SMALL + "top = { percent = 0 }", "greater than 0, got 0"),
        (LONGER.replace("300", "200"), "start: the epochs of the sweep include"),
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


def test_recipes_that_the_example_shows_as_comments_are_valid_too():
    shown = [line for line in example().splitlines() if line.startswith("# recipes = [")]
    assert len(shown) == 1
    spec = parse_spec(SMALL.replace('recipes = ["nb201"]', shown[0].removeprefix("# ")))
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
    spec = parse_spec(SMALL + "top = { n = 3 }\n[slurm]\nqos = 'long'\nextra = { nice = 1 }")
    changed = with_settings(
        spec, {"seeds": [5], "slurm.mem_gb": 2.5, "slurm.extra.hold": True, "cells.random.n": 4}
    )
    assert changed.seeds == [5]
    assert changed.cells.random.n == 4
    slurm = spec.slurm.model_copy(update={"mem_gb": 2.5, "extra": {"nice": 1, "hold": True}})
    assert changed.slurm == slurm
    assert with_settings(spec, {}) == spec


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("slurm.partitoin", r"'partitoin' of \[slurm\] in the command line; valid: partition"),
        ("slrum.partition", "'slrum' of the command line; valid: slurm"),
        ("epochs.partition", "epochs: must be a whole number"),
        ("slurm.time_min", "slurm.time_min: a time is minutes or as in '1-00:00'"),
    ],
)
def test_setting_of_an_unknown_key_or_a_bad_value_says_so(key, message):
    with pytest.raises(InputError, match=message):
        with_settings(parse_spec(SMALL), {key: "gpu"})


def test_table_is_looked_for_beside_the_spec_and_that_of_a_setting_from_here(tmp_path, monkeypatch):
    path = tmp_path / "s.toml"
    path.write_text(SMALL + "top = { n = 3, table = 'nb.parquet' }")
    spec = read_spec(path)
    assert spec.cells.top.table == tmp_path / "nb.parquet"
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    changed = with_settings(spec, {"cells.top.table": "nb.parquet"})
    assert changed.cells.top.table == tmp_path / "here" / "nb.parquet"


def test_what_is_kept_changes_no_trials():
    plain = parse_spec(SMALL)
    kept = parse_spec(SMALL + "[train]\nkeep = 'weights'\nhalf = true")
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


def test_sweep_of_a_report_or_a_run_is_read_as_its_file(tmp_path):
    (tmp_path / "a.toml").write_text(SMALL + "[slurm]\ntime = '1-00:00'")
    spec = read_spec(tmp_path / "a.toml")
    (tmp_path / "again.json").write_text(spec.model_dump_json(indent=1))
    assert read_spec(tmp_path / "again.json") == spec


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
    assert with_settings(parse_spec(SMALL), expected).slurm.partition == "x"
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
    spec = with_settings(parse_spec(SMALL), before)
    assert len(spec.digest) == 16
    assert (with_settings(spec, changes).digest == spec.digest) is same


def test_what_a_small_sweep_does_not_say_is_this():
    """Defaults must not change, because they decide the ids of trials and the options of jobs."""
    nothing = dict.fromkeys(
        ("partition", "account", "qos", "constraint", "exclude", "nodelist", "clusters", "comment")
    )
    nothing |= dict.fromkeys(("gpus_per_task", "gres", "cpus_per_task", "mem_gb", "mem_per_cpu"))
    nothing |= dict.fromkeys(("container_image", "mail_user", "mail_type"))
    slurm = nothing | {
        "processes_per_job": 1,
        "time_min": 240,
        "signal_delay_s": 120,
        "max_requeues": 20,
        "array_parallelism": 64,
        "checkpoint_min": 10.0,
        "device": "auto",
        "setup": [],
        "compile_net": False,
        "cuda_graphs": False,
        "container_binds": [],
        "extra": {},
        "types": {},
    }
    cells = dict.fromkeys(("random", "stratified", "top"))
    cells |= {"indices": [11], "strings": [], "all": False, "classes": "as given"}
    protocol = {"batch_size": 256, "momentum": 0.9, "nesterov": True, "weight_decay": 5e-4}
    protocol |= {"schedule": "cosine", "warmup_epochs": 0, "augment": True, "label_smoothing": 0.0}
    assert parse_spec(SMALL).model_dump() == {
        "cells": cells,
        "datasets": ["digits"],
        "seeds": [1],
        "epochs": 200,
        "split": "full",
        "recipes": [{"name": "nb201", "parameters": {}}],
        "stack": 1,
        "network": "rebench",
        "skeleton": {"channels": 16, "cells_per_stage": 5},
        "protocol": protocol | {"precision": "float32"},
        "train": {"keep": "nothing", "half": False},
        "slurm": slurm,
    }
    drawn = {"cells.random": {"n": 1}, "cells.stratified": {"n": 1}, "cells.top": {"n": 1}}
    chosen = with_settings(parse_spec(SMALL), drawn).cells
    column = {"table": None, "dataset": "cifar10", "split": "ori-test", "epochs": 200}
    assert chosen.random.model_dump() == {"n": 1, "seed": 0}
    strata = {"n": 1, "seed": 0, "strata": 10, "by": "accuracy"}
    assert chosen.stratified.model_dump() == column | strata
    assert chosen.top.model_dump() == column | {"n": 1, "percent": None}


# A key, its last valid value, and the next value, which is invalid.
BOUNDS = [
    ("epochs", 1, 0),
    ("epochs", 100_000, 100_001),
    ("seeds", [0], [-1]),
    ("seeds", [2**31 - 1], [2**31]),
    ("stack", 1, 0),
    ("datasets", ["digits"], []),
    ("recipes", ["nb201"], []),
    ("seeds", [1], []),
    ("skeleton.channels", 1, 0),
    ("skeleton.channels", 1024, 1025),
    ("skeleton.cells_per_stage", 1, 0),
    ("skeleton.cells_per_stage", 100, 101),
    ("protocol.batch_size", 1, 0),
    ("protocol.batch_size", 65536, 65537),
    ("protocol.momentum", 0.0, -1e-6),
    ("protocol.momentum", 0.999, 1.0),
    ("protocol.weight_decay", 0.0, -1e-6),
    ("protocol.weight_decay", 5.0, math.inf),
    ("protocol.warmup_epochs", 0, -1),
    ("protocol.label_smoothing", 0.0, -1e-6),
    ("protocol.label_smoothing", 0.999, 1.0),
    ("cells.random", {"n": 1, "seed": 0}, {"n": 0}),
    ("cells.random", {"n": 1}, {"n": 1, "seed": -1}),
    ("cells.stratified", {"n": 1, "seed": 0}, {"n": 0}),
    ("cells.stratified", {"n": 1}, {"n": 1, "seed": -1}),
    ("cells.stratified", {"n": 1, "strata": 1}, {"n": 1, "strata": 0}),
    ("cells.top", {"n": 1}, {"n": 0}),
    ("cells.top", {"percent": 100}, {"percent": 100.1}),
    ("cells.top", {"percent": 1e-6}, {"percent": 0}),
    ("start", {"epochs": 199, "run": "a"}, {"epochs": 200, "run": "a"}),
    ("start", {"epochs": 1, "run": "a"}, {"epochs": 0, "run": "a"}),
    ("slurm.gpus_per_task", 0, -1),
    ("slurm.gpus_per_task", "a100:2", "a100"),
    ("slurm.cpus_per_task", 1, 0),
    ("slurm.processes_per_job", 1, 0),
    ("slurm.processes_per_job", 64, 65),
    ("slurm.mem_gb", 1e-6, 0),
    ("slurm.mem_per_cpu", "4G", "4P"),
    ("slurm.time_min", 1, 0),
    ("slurm.time_min", 2**31 - 1, 2**31),
    ("slurm.signal_delay_s", 1, 0),
    ("slurm.array_parallelism", 1, 0),
    ("slurm.max_requeues", 0, -1),
    ("slurm.checkpoint_min", 1e-6, 0),
    ("slurm.device", "cuda:1", "cuda:"),
    ("slurm.gres", "gpu:1", "gpu 1"),
    ("slurm.types.a", {"speed": 1e-6}, {"speed": 0}),
    ("slurm.types.a", {"share": 1e-6}, {"share": 0}),
    ("slurm.types", {"a-B_9": {}}, {"a b": {}}),
]


@pytest.mark.parametrize(("key", "inside", "outside"), BOUNDS)
def test_value_at_its_bound_is_taken_and_one_outside_is_refused_by_its_key(key, inside, outside):
    spec = parse_spec(SMALL)
    place = with_settings(spec, {key: inside})
    for step in key.split("."):
        place = place[step] if isinstance(place, dict) else getattr(place, step)
    if not isinstance(inside, dict):
        assert place == ([RecipeSpec(name="nb201")] if key == "recipes" else inside)
    with pytest.raises(InputError, match=re.escape(key)):
        with_settings(spec, {key: outside})
