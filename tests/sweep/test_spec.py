"""The sweep's TOML file: what it may say, and how a mistake is answered."""

import pytest

from rebench.errors import InputError, UnknownNameError
from rebench.sweep import parse_spec, read_spec
from rebench.sweep.spec import EXAMPLE

SMALL = """
datasets = ["digits"]
recipes = ["nb201"]
seeds = [1]
[cells]
indices = [11]
"""


def test_example_is_a_valid_spec():
    spec = parse_spec(EXAMPLE)
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
        ("seeds = 1", "cells: Field required"),
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
