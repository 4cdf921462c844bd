"""``rebench cells`` as a user types it."""

from __future__ import annotations

import pandas as pd
import pytest
from support import json_of

from cells import SPACE_SIZE, Cell
from rebench.cli import main
from rebench.spaces.statistics import cell_facts, space


def test_show_draws_the_cell_and_its_numbers(capsys):
    assert main(["cells", "show", "11"]) == 0
    shown = capsys.readouterr().out
    assert "1  0 ──nor_conv_3x3──>" in shown
    assert "path depths               2;2;3" in shown
    assert "113.951" in shown


def test_show_marks_dead_edges_and_takes_strings(capsys):
    assert main(["cells", "show", str(Cell.parse("3_33_130"))]) == 0
    assert capsys.readouterr().out.count("(dead)") == 2


def test_show_as_json_is_one_object():
    facts = json_of("cells", "show", "1_01_001")
    assert (facts["index"], facts["lr_multiplier"], facts["network_paths"]) == (25, 1.0, "4")
    assert facts["in_degree_source"] == "1;1;1;1;1"
    assert json_of("cells", "show", "0_00_000")["lr_multiplier"] is None


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_export_writes_every_cell(tmp_path, suffix):
    file = tmp_path / "new" / f"cells{suffix}"
    assert main(["cells", "export", "--out", str(file)]) == 0
    exact = {"network_paths": str, "network_sum_cubed_depths": str}
    table = pd.read_csv(file, dtype=exact) if suffix == ".csv" else pd.read_parquet(file)
    assert len(table) == SPACE_SIZE
    row = table.loc[11]
    assert row["arch"] == str(Cell.from_index(11))
    assert (row["path_depths"], row["sum_cubed_depths"]) == ("2;2;3", 43)
    assert (row["in_degree_source"], row["in_degree_target_live"]) == ("1;1;2;2;1", "1;2;2")
    assert (row["mflops"], row["params_m_imagenet16_120"]) == (113.95137, 0.809576)
    assert table["network_sum_cubed_depths"].map(int).max() == 172_314_087_915_520
    assert table["lr_multiplier"].isna().sum() == 341


def test_equal_cells_of_the_analyses_are_a_column():
    """As in `docs/explanation/cells.md`: networks, cells with an equal cell, with a path."""
    table = space()
    sizes = table["network_class"].map(table["network_class"].value_counts())
    equal = table[(sizes > 1) & (table["n_paths"] > 0)]
    assert (table["network_class"].nunique(), (sizes > 1).sum()) == (5_485, 11_553)
    assert (len(equal), equal["network_class"].nunique()) == (11_212, 1_404)
    assert table["functional_class"].nunique() == 6_466
    assert cell_facts(Cell.from_index(1696)) == table.loc[1696].to_dict()


@pytest.mark.parametrize("suffix", ["svg", "png", "pdf"])
def test_drawing_of_a_cell_is_saved(tmp_path, capsys, suffix):
    file = tmp_path / "new" / f"cell.{suffix}"
    assert main(["cells", "show", "11", "--figure", str(file)]) == 0
    assert capsys.readouterr().err == f"wrote {file}\n"
    if suffix == "svg":
        assert file.read_text() == Cell.from_index(11)._repr_svg_()
    else:
        assert file.read_bytes()[:4] in (b"\x89PNG", b"%PDF")
    assert main(["cells", "show", "11", "--figure", str(file)]) == 2
    assert "--force" in capsys.readouterr().err


def test_drawing_in_another_format_is_refused(capsys):
    assert main(["cells", "show", "11", "--figure", "cell.gif"]) == 2
    assert "FILE.svg, FILE.pdf or FILE.png, got cell.gif" in capsys.readouterr().err
