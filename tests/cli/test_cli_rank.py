"""``rebench rank``: two tables, or recipes or data sets of one with each other."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from report_tables import run_table

import rebench.report
from rebench.analysis import Study, compare
from rebench.analysis.matrix import read_rankings, tau_matrix
from rebench.cli import main
from rebench.cli.rank import _CURVE, _print_curve, _print_matrix
from rebench.report.write import Written


@pytest.fixture
def table(tmp_path: Path, monkeypatch) -> str:
    run_table(40).to_parquet(tmp_path / "table.parquet", index=False)
    monkeypatch.chdir(tmp_path)
    return "table.parquet"


def test_matrix_shows_tau_above_and_noise_below_the_diagonal(table: str, capsys):
    words = ["rank", table, "--across", "recipes", "--draws", "20", "--out", "tau"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    [rankings] = read_rankings(pd.read_parquet(table), "recipes").values()
    tau = tau_matrix(rankings, draws=20)[0].set_index(["first", "second"])["tau"]
    first = next(line.split() for line in shown.splitlines() if line.lstrip().startswith("1 "))
    assert first[1:3] == ["fixed(lr=0.3)", "-"]
    assert float(first[3].rstrip("*")) == pytest.approx(tau["fixed(lr=0.3)", "nb201"], abs=0.006)
    assert len(pd.read_csv("tau.csv")) == 3
    for suffix in ("pdf", "svg", "png"):
        assert Path(f"tau.{suffix}").stat().st_size > 1000
    assert main(words) == 2
    assert "--force" in capsys.readouterr().err


def _words(capsys) -> list[str]:
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_matrix_of_pairs_is_printed_with_its_cells_and_stars(capsys):
    pairs = pd.DataFrame(
        [("a", "b", 0.504, 0.8, 0.049, 12), ("a", "c", 0.25, float("nan"), 0.05, 15)],
        columns=["first", "second", "tau", "seed_tau", "p_adjusted", "n_cells"],
    )
    _print_matrix(pairs, ["a", "b", "c"], "digits")
    title, *rows = _words(capsys)[:5]
    assert title == "digits, 12 to 15 cells"
    assert rows == ["no ranking 1 2 3", "1 a - 0.50* 0.25", "2 b 0.80 - -", "3 c - - -"]
    _print_matrix(pairs[:1], ["a", "b"], "digits")
    assert _words(capsys)[0] == "digits, 12 cells"


def test_curve_is_printed_where_there_is_a_tau(monkeypatch, capsys):
    monkeypatch.delenv("COLUMNS", raising=False)
    curve = pd.DataFrame({name: [100.0, 50.0, 10.0] for name in _CURVE})
    curve["tau"] = [0.12345, -0.0001, float("nan")]
    curve["tau_low"], curve["tau_high"] = -0.5, 0.5
    curve["drop_low"], curve["drop_high"] = 0.0, 1.0
    _print_curve(curve, "a against b")
    assert _words(capsys) == [
        "a against b",
        "top % cells tau 95 % seed tau drop its 95 % ratio p p, all K",
        "100 100 0.123 -0.50 to 0.50 100 100 0.00 to 1.00 100 100 100",
        "50 50 0.000 -0.50 to 0.50 50 50 0.00 to 1.00 50 50 50",
        "Without tau (too few cells): top 10 %",
    ]


def test_figures_of_several_data_sets_are_numbered(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    two = [run_table(12, name, ("nb201", "topology")) for name in ("cifar10", "cifar100")]
    few = run_table(12, "cifar10", ("mup",))[:15]  # five cells
    pd.concat([*two, few]).to_parquet("two.parquet", index=False)
    words = ["rank", "two.parquet", "--across", "recipes", "--draws", "0", "--out", "tau"]
    assert main(words) == 0
    shown = capsys.readouterr()
    for number in (1, 2):
        assert len(pd.read_csv(f"tau-{number}.csv")) == 1
        assert f"wrote tau-{number}.pdf" in shown.err
    assert "cifar10: too few cells in common with any other: mup" in shown.err
    assert "cifar100: too few" not in shown.err


def test_json_has_every_pair_at_every_k(table: str, capsys):
    words = ["rank", table, "--across", "recipes", "--draws", "20", "--top", "100,50", "--json"]
    assert main([*words, "--seed", "7", "--by", "either"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row.pop("dataset") for row in rows} == {"cifar10"}
    assert all(row["tau"] < row["seed_tau"] for row in rows)
    [rankings] = read_rankings(pd.read_parquet(table), "recipes").values()
    expected, _ = tau_matrix(rankings, (100, 50), by="either", draws=20, seed=7)
    pd.testing.assert_frame_equal(pd.DataFrame(rows), expected, check_dtype=False)


def test_report_lies_in_its_run_or_beside_its_table(table: str, monkeypatch, capsys):
    def write(found: Study, folder: Path) -> Written:
        assert (found.choices.draws, len(found.rerankings)) == (0, 2)
        return Written(html=folder / "report.html", markdown=folder / "x.md", figures=folder / "f")

    monkeypatch.setattr(rebench.report, "write_report", write)
    Path("run").mkdir()
    Path(table).rename("run/results.parquet")
    run_table(40).to_parquet(table, index=False)
    for name, folder in (("run", "run/report"), (table, "table-report")):
        assert main(["report", name, "--draws", "0", "--json"]) == 0
        expected = {"html": f"{folder}/report.html", "markdown": f"{folder}/x.md"}
        assert json.loads(capsys.readouterr().out) == [expected | {"figures": f"{folder}/f"}]
    Path("table-report").mkdir()
    Path("table-report/report.html").touch()
    assert main(["report", table, "--draws", "0"]) == 2
    assert main(["report", table, "--draws", "0", "--force"]) == 0


def test_what_there_is_one_of_is_refused_in_one_line(table: str, capsys):
    assert main(["rank", table, "--across", "datasets"]) == 2
    assert "no two datasets to compare" in capsys.readouterr().err


def test_two_tables_are_compared_as_in_python(table: str, capsys):
    both = [f"{table}@nb201", f"{table}@topology"]
    assert main(["rank", *both, "--draws", "20", "--top", "100", "--json"]) == 0
    [row] = json.loads(capsys.readouterr().out)
    [known] = compare(*both, draws=20, top_percent=[100]).frame().to_dict("records")
    assert {name: row[name] for name in ("tau", "seed_tau", "drop", "p_value")} == pytest.approx(
        {name: known[name] for name in ("tau", "seed_tau", "drop", "p_value")}, abs=1e-4
    )
    assert main(["rank", *both, "--draws", "20", "--top", "100"]) == 0
    assert "over all K" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--recipe", "nb201"], ["--against", "nb201"]])
def test_of_two_tables_no_recipes_are_chosen(words, table: str, capsys):
    assert main(["rank", f"{table}@nb201", f"{table}@topology", *words]) == 2
    assert "NAME@RECIPE" in capsys.readouterr().err
