"""``rebench recipe`` and the text form of recipes."""

import json

import pytest

from cells import Cell
from rebench.cli import main
from rebench.errors import InputError
from rebench.recipes import make_recipe, parse_recipe, recipe_names


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("nb201", {}),
        ("topology", {"degree": "target", "base_lr": 0.3}),
        ("topology-exact", {"degree": "source"}),
        ("am-mup", {"residual_blocks": 3}),
    ],
)
def test_label_is_read_back(name, parameters):
    recipe = make_recipe(name, **parameters)
    assert parse_recipe(recipe.spec.label) == recipe
    assert parse_recipe(f" {recipe.spec.label} ") == recipe


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("topolgy", "unknown recipe 'topolgy'; valid: topology"),
        ("topology(", "a recipe is NAME or NAME"),
        ("topology(degree)", "expected FIELD=VALUE, got 'degree'"),
        ("topology(base_lr=fast)", "base_lr must be a number, got 'fast'"),
        ("topology(base_lr=NaN)", "finite number"),
        ("topology(base_lr=1e999)", "finite number"),
        ("topology(base_lr=[1])", "recipe 'topology': a parameter must be a finite number"),
        pytest.param(f"fixed(lr={'[' * 100_000}", r"got 'fixed.{100,120}\.\.\.$", id="[[["),
        pytest.param(f"fixed(lr={'[' * 100_000})", r"a number, got '.{10,40}'$", id="([[[)"),
    ],
)
def test_bad_text_says_what_was_expected(text: str, message: str):
    with pytest.raises(InputError, match=message):
        parse_recipe(text)


def test_list_names_every_recipe(capsys):
    assert main(["recipe", "list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["recipe"] for row in rows] == recipe_names()
    assert all(row["paper"] and row["rule"] for row in rows)


def test_show_says_where_the_rate_comes_from(capsys):
    assert main(["recipe", "show", "topology(degree=target)", "3_33_333", "--json"]) == 0
    page = json.loads(capsys.readouterr().out)
    assert page["learning_rate"] == pytest.approx(0.46 / 126**0.5)  # 2, 3, 3, 4 cubed
    assert page["learning_rate"] / 6 < page["effective_learning_rate"] < page["learning_rate"] / 2
    assert page["numbers"]["depths_of_the_paths"] == "2, 3 (2 times), 4"
    assert page["numbers"]["sum_of_cubed_depths"] == 126
    assert len(page["layers"]) == 1 + 15 * 6 + 2 * 3 + 1
    into_last = next(row for row in page["layers"] if row["layer"] == "cells.0.layers.5.op.1")
    assert into_last["shape"] == "16x16x3x3"
    assert into_last["degree"] == 3
    assert into_last["std"] == pytest.approx((2 / (3 * 144)) ** 0.5)


SIZE = ["--set", "skeleton.channels=4", "--set", "skeleton.cells_per_stage=1"]


@pytest.mark.parametrize("name", recipe_names())
def test_show_prints_a_page_for_every_recipe(name: str, capsys):
    size = [*SIZE, "--set", "protocol.batch_size=32"]
    assert main(["recipe", "show", name, "11", *size]) == 0
    page = capsys.readouterr().out
    assert "learning rate" in page
    assert "classifier" in page


# What each rule looks at besides the graph. There are 1,437 digits to train on.
LOOKED_AT = {
    "topology": None,
    "mup(base_width=2)": "from the graph and the network's width",
    "one-step": "measured on 1437 images of digits, seed 3",
}


@pytest.mark.parametrize("recipe", LOOKED_AT)
def test_show_says_what_was_looked_at(recipe: str, capsys):
    size = [*SIZE, "--set", "protocol.batch_size=2000", "--seed", "3"]
    assert main(["recipe", "show", recipe, "11", *size]) == 0
    page = capsys.readouterr().out
    said = [line.split(maxsplit=1)[1] for line in page.splitlines() if line.startswith("seen")]
    assert said == ([LOOKED_AT[recipe]] if LOOKED_AT[recipe] else [])


def test_show_of_a_cell_without_a_path_is_one_line(capsys):
    assert main(["recipe", "show", "topology", "3_30_000"]) == 2
    index = Cell.parse("3_30_000").index
    assert f"no learning rate for cell {index}: no path" in capsys.readouterr().err
