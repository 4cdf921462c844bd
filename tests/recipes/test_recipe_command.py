"""``rebench recipe`` and the text form of recipes."""

import json

import pytest

from cells import Cell
from rebench.cli import main
from rebench.errors import InputError
from rebench.recipes import make_recipe, parse_recipe, recipe_names


@pytest.mark.parametrize(("name", "parameters"), [
    ("nb201", {}),
    ("topology", {"degree": "target", "base_lr": 0.3}),
    ("topology-exact", {"degree": "source"}),
    ("am-mup", {"residual_blocks": 3}),
])  # fmt: skip
def test_label_is_read_back(name, parameters):
    recipe = make_recipe(name, **parameters)
    assert parse_recipe(recipe.spec.label) == recipe
    assert parse_recipe(f" {recipe.spec.label} ") == recipe


@pytest.mark.parametrize(("text", "message"), [
    ("topolgy", "unknown recipe 'topolgy'; valid: topology"),
    ("topology(", "a recipe is NAME or NAME"),
    ("topology(degree)", "expected FIELD=VALUE, got 'degree'"),
    ("topology(base_lr=fast)", "base_lr must be a number, got 'fast'"),
    ("topology(base_lr=NaN)", "finite number"),
    ("topology(base_lr=1e999)", "finite number"),
    ("topology(base_lr=[1])", "recipe 'topology': a parameter must be a finite number"),
    pytest.param(f"fixed(lr={'[' * 100_000}", r"got 'fixed.{100,120}\.\.\.$", id="[[["),
    pytest.param(f"fixed(lr={'[' * 100_000})", r"a number, got '.{10,40}'$", id="([[[)"),
])  # fmt: skip
def test_error_for_bad_text_names_the_accepted_form(text: str, message: str):
    with pytest.raises(InputError, match=message):
        parse_recipe(text)


def test_list_names_every_recipe(capsys):
    assert main(["recipe", "list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["recipe"] for row in rows] == recipe_names()
    assert all(row["paper"] and row["rule"] for row in rows)


def test_show_explains_the_rate(capsys):
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


def _layers(capsys, *words: str) -> list[list[str]]:
    """Return the words of each row below the headings."""
    assert main(["recipe", "show", *words]) == 0
    page = capsys.readouterr().out.partition("\nlayers\n")[2].partition("\n\n")[0]
    lines = [line.split() for line in page.splitlines()]
    heading = next(at for at, words in enumerate(lines) if words[0] in ("layer", "layers"))
    return lines[heading + 1 :]


def test_show_prints_one_row_for_each_kind_of_layer(capsys):
    # 15 cells of 3 edges with a convolution, and the layers of 2 residual blocks.
    words = ["topology", "11", "--set", "skeleton.channels=4"]
    assert [row[:5] for row in _layers(capsys, *words)] == [
        ["1", "stem.0", "4x3x3x3", "27", "1"],
        ["15", "cells.0.layers.0.op.1", "4x4x3x3", "36", "1"],
        ["1", "cells.5.conv_a.op.1", "8x4x3x3", "36", "2"],
        ["16", "cells.5.conv_b.op.1", "8x8x3x3", "72", "1"],
        ["1", "cells.5.downsample.1", "8x4x1x1", "4", "2"],
        ["1", "cells.11.conv_a.op.1", "16x8x3x3", "72", "2"],
        ["16", "cells.11.conv_b.op.1", "16x16x3x3", "144", "1"],
        ["1", "cells.11.downsample.1", "16x8x1x1", "8", "2"],
        ["1", "classifier", "10x16", "16", "-"],
    ]
    every = _layers(capsys, *words, "--all")
    assert len(every) == 1 + 15 * 3 + 2 * 3 + 1


def test_show_prints_the_range_of_different_multipliers(capsys):
    sizes = "skeleton.channels=2 skeleton.cells_per_stage=2 protocol.batch_size=8"
    words = ["fsc", "1696", *(word for size in sizes.split() for word in ("--set", size))]
    every = {row[0]: float(row[-1]) for row in _layers(capsys, *words, "--all")}
    [row] = [row for row in _layers(capsys, *words) if row[1] == "cells.0.layers.1.op.1"]
    both = sorted(every[f"cells.{cell}.layers.1.op.1"] for cell in (0, 1))
    assert (row[0], row[-2]) == ("2", "to")
    assert [float(row[-3]), float(row[-1])] == pytest.approx(both, abs=0.05)


# Inputs of each rule in addition to the graph. There are 1,437 digits to train on.
LOOKED_AT = {
    "topology": None,
    "mup(base_width=2)": "the graph and the network's width",
    "one-step": "the graph and 1437 images of digits, seed 3",
}


@pytest.mark.parametrize("recipe", LOOKED_AT)
def test_show_names_the_images_of_a_measured_rule(recipe: str, capsys):
    size = [*SIZE, "--set", "protocol.batch_size=2000", "--seed", "3"]
    assert main(["recipe", "show", recipe, "11", *size]) == 0
    page = capsys.readouterr().out
    said = [line[13:].strip() for line in page.splitlines() if line.startswith("computed from")]
    assert said == ([LOOKED_AT[recipe]] if LOOKED_AT[recipe] else [])


def test_show_of_a_cell_without_a_path_is_one_line(capsys):
    assert main(["recipe", "show", "topology", "3_30_000"]) == 2
    index = Cell.parse("3_30_000").index
    assert f"no learning rate for cell {index}: no path" in capsys.readouterr().err
