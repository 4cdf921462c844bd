"""``rebench rank``: two tables, or the recipes or data sets of one table."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from pathlib import Path

import pandas as pd
import pytest
from report_tables import run_table
from support import json_of

import rebench.report
from rebench.analysis import Study, compare
from rebench.analysis.matrix import read_rankings, tau_matrix
from rebench.cli import main
from rebench.cli.rank import _print_matrix
from rebench.printable import probability
from rebench.report.write import Written
from rebench.tables.opening import read_rows


@pytest.fixture
def table(tmp_path: Path, monkeypatch) -> str:
    run_table(40).to_parquet(tmp_path / "table.parquet", index=False)
    monkeypatch.chdir(tmp_path)
    return "table.parquet"


def test_matrix_shows_tau_above_and_seed_tau_below_the_diagonal(table: str, capsys):
    words = ["rank", table, "--across", "recipes", "--draws", "20", "--out", "tau"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    [rankings] = read_rankings(pd.read_parquet(table), "recipes")[0].values()
    tau = tau_matrix(rankings, draws=20)[0].set_index(["first", "second"])["tau"]
    first = next(line.split() for line in shown.splitlines() if line.lstrip().startswith("1 "))
    assert first[1:3] == ["fixed(lr=0.3)", "-"]
    assert float(first[3].rstrip("*")) == pytest.approx(tau["fixed(lr=0.3)", "nb201"], abs=0.006)
    assert len(pd.read_csv("tau.csv")) == 3
    for suffix in ("pdf", "svg", "png"):
        assert Path(f"tau.{suffix}").stat().st_size > 1000
    for suffix in ("pdf", "svg", "csv"):
        Path(f"tau.{suffix}").unlink()
    assert main(words) == 2
    assert "tau.png exists" in capsys.readouterr().err


@pytest.mark.parametrize("asked", [[], ["table.parquet"], ["--across", "recipes"]])
def test_memory_that_samples_free_is_kept(table: str, monkeypatch, asked: list[str]):
    """Without this, a comparison of two tables of all cells takes 40 % more CPU time."""
    kept = []
    monkeypatch.setattr("rebench.cli.rank.keep_freed_memory", lambda: kept.append(True))
    main(["rank", table, *asked, "--draws", "0"])
    assert kept


def _words(capsys) -> list[str]:
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_matrix_of_pairs_is_printed_with_its_cells_and_stars(capsys):
    pairs = pd.DataFrame(
        [("a", "b", 0.504, 0.8, 0.05, 12), ("a", "c", 0.25, float("nan"), 0.0501, 15)],
        columns=["first", "second", "tau", "seed_tau", "p_adjusted", "n_cells"],
    )
    _print_matrix(pairs, ["a", "b", "c"], "digits", 100.0)
    title, *rows = _words(capsys)[:5]
    assert title == "digits, top 100 %, 12 to 15 cells"
    assert rows == ["no ranking 1 2 3", "1 a - 0.50* 0.25", "2 b 0.80 - -", "3 c - - -"]
    _print_matrix(pairs[:1], ["a", "b"], "digits", 12.5)
    assert _words(capsys)[0] == "digits, top 12.5 %, 12 cells"


def test_matrix_is_printed_at_every_requested_k(table: str, capsys):
    words = ["rank", table, "--across", "recipes", "--draws", "0"]
    titles = []
    for more in ([], ["--top", "50,10,100"]):
        assert main([*words, *more]) == 0
        titles.append([line for line in capsys.readouterr().out.splitlines() if "top " in line])
    assert titles == [
        ["cifar10, top 100 %, 40 cells"],
        ["cifar10, top 50 %, 20 cells", "cifar10, top 10 %: no pair has 10 cells in common",
         "cifar10, top 100 %, 40 cells"],
    ]  # fmt: skip


def test_two_tables_are_printed_row_by_row_with_the_verdict(table: str, monkeypatch, capsys):
    monkeypatch.delenv("COLUMNS", raising=False)
    both = [f"{table}@nb201", f"{table}@topology"]
    assert main(["rank", *both, "--draws", "20", "--top", "100,50,10"]) == 0
    found = compare(*both, draws=20, top_percent=(100, 50, 10))
    lines = _words(capsys)
    title, head, *rows, legend, _, verdict = lines[:7]
    assert title == found.name
    assert head == "K cells tau seed tau drop 95 % CI corrected tau p"
    assert [row.split()[:2] for row in rows] == [["100", "40"], ["50", "20"]]
    assert legend.endswith("No tau at K = 10: fewer than 10 cells, or all tied.")
    assert verdict == found.sentence
    _, head, *rows, _, legend, _ = lines[7:]
    assert head == "K overlap 95 % CI seed overlap its 95 % CI weighted tau"
    frame = found.frame()
    frame = frame[frame["top_percent"] < 100]
    for row, overlap, weighted in zip(rows, frame["overlap"], frame["weighted_tau"], strict=False):
        assert row.split()[1] == f"{overlap:.2f}"
        assert row.split()[-1] == f"{weighted:.2f}"
    assert f"loses {frame['regret'].iloc[0]:.2f} points under {found.other.name}" in legend
    shown = pd.DataFrame(json_of("rank", *both, "--draws", "20", "--top", "100,50,10"))
    names = ["top_percent", "tau", "seed_tau", "drop", "p_value", "overlap", "seed_regret"]
    expected = found.frame()[names].round(4)
    pd.testing.assert_frame_equal(shown[names], expected, check_dtype=False)


def test_several_recipes_have_a_row_each_within_80_columns(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["rank", "mini", "--draws", "19"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) < 40
    rows = [line.split() for line in lines if line.startswith("topology-lr(base_lr=0.09)")]
    assert [row[1:3] for row in rows] == [["100", "60"], ["50", "30"]]
    assert "In 14 of 14 comparisons with fixed no difference was detected" in " ".join(lines)


def test_formats_hold_the_same_comparisons(table: str, capsys):
    words = ["rank", table, "--draws", "20", "--top", "100,50"]
    shown = {}
    for name in ("json", "csv", "md", "latex"):
        assert main([*words, "--format", name]) == 0
        shown[name] = capsys.readouterr().out
    rows = json.loads(shown["json"])
    assert json_of(*words) == rows
    read = pd.read_csv(io.StringIO(shown["csv"]))
    pd.testing.assert_frame_equal(read, pd.DataFrame(rows), check_dtype=False)
    first = [f"{rows[0][name]:.2f}" for name in ("tau", "seed_tau", "drop")]
    assert f"| fixed(lr=0.3) | 100 | 40 | {' | '.join(first)} |" in shown["md"]
    assert f"fixed(lr=0.3) & 100 & 40 & {' & '.join(first)} &" in shown["latex"]
    printed = [line.split(" | ")[-1].rstrip(" |") for line in shown["md"].splitlines()[2:] if line]
    assert printed == [probability(row["p_adjusted"]) for row in rows]
    assert "\\label{tab:rank}" in shown["latex"]
    matrix = ["rank", table, "--across", "recipes", "--draws", "0", "--top", "100"]
    assert main([*matrix, "--format", "csv"]) == 0
    assert len(pd.read_csv(io.StringIO(capsys.readouterr().out))) == 3
    assert main([*matrix, "--format", "md"]) == 2
    assert "--across prints table, csv or json, got --format md" in capsys.readouterr().err


HOSTILE = ("=1+1", "+cmd", "-x", "@sum")


def test_names_of_recipes_are_no_formulas_in_any_csv(tmp_path: Path, monkeypatch, capsys):
    """A spreadsheet runs a text of a CSV file that begins with =, +, - or @."""
    monkeypatch.chdir(tmp_path)
    run_table(40, recipes=HOSTILE).to_parquet("table.parquet", index=False)
    words = ["rank", "table.parquet", "--draws", "0", "--top", "100", "--format", "csv"]
    assert main([*words, "--against", "=1+1"]) == 0
    Path("against.csv").write_text(capsys.readouterr().out)
    assert main([*words, "--across", "recipes", "--figure", "matrix.png"]) == 0
    Path("across.csv").write_text(capsys.readouterr().out)
    assert main(["search", "compare", "table.parquet@=1+1", "--algorithm", "random",
                 "--repeats", "2", "--evaluations", "5", "--format", "csv"]) == 0  # fmt: skip
    Path("search.csv").write_text(capsys.readouterr().out)
    assert main(["export", "table", "table.parquet", "--out", "rows.csv"]) == 0
    for name in ("against.csv", "across.csv", "matrix.csv", "rows.csv", "search.csv"):
        values = itertools.chain(*csv.reader(Path(name).read_text().splitlines()))
        assert not [value for value in values if re.match(r"[=+@]|-[a-z]", value)], name
    assert set(read_rows("rows.csv")["recipe"]) == set(HOSTILE)


def test_figure_of_tau_over_k_is_saved_in_the_format_of_its_name(table: str, capsys):
    both = ["rank", f"{table}@nb201", f"{table}@topology", "--draws", "20", "--figure"]
    assert main([*both, "curve.svg"]) == 0
    assert {path.name for path in Path().iterdir()} == {table, "curve.svg", "curve.csv"}
    assert set(pd.read_csv("curve.csv")["series"]) == {"tau", "seed tau"}
    capsys.readouterr()
    assert main([*both, "curve.svg"]) == 2
    assert "--force" in capsys.readouterr().err
    assert main([*both, "curve"]) == 2
    assert "--figure takes FILE.pdf, FILE.svg or FILE.png, got curve" in capsys.readouterr().err
    assert main(["rank", table, "--draws", "0", "--figure", "x.png"]) == 2
    assert "draws one comparison, got 2: choose one with --recipe" in capsys.readouterr().err
    assert main(["rank", table, "--across", "recipes", "--draws", "0", "--figure", "x.png"]) == 0
    assert Path("x.png").stat().st_size > 1000


def test_different_data_sets_are_compared_on_request(table: str, capsys):
    other = run_table(40, "cifar100", ("nb201",)).drop(columns="recipe")
    other.to_csv("other.csv", index=False)
    both = ["rank", f"{table}@topology", "other.csv", "--draws", "20", "--top", "100"]
    assert main(both) == 2
    message = capsys.readouterr().err
    assert "cifar10; other" in message
    assert "cifar100" in message
    assert "--against-dataset" in message
    [row] = json_of(*both, "--against-dataset", "cifar100")
    assert row["dataset"] == "cifar100 against cifar10"
    assert main(["rank", table, "--against-dataset", "cifar100"]) == 2
    assert "name BASELINE and OTHER" in capsys.readouterr().err


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
    assert "cifar10: fewer than 10 cells in common with every other: mup" in shown.err
    assert "cifar100: fewer" not in shown.err
    for path in set(Path().glob("tau-*")) - {Path("tau-2.svg")}:
        path.unlink()
    assert main(words) == 2
    assert "tau-2.svg exists" in capsys.readouterr().err
    assert [path.name for path in Path().glob("tau-*")] == ["tau-2.svg"]


def test_json_has_every_pair_at_every_k(table: str, capsys):
    words = ["rank", table, "--across", "recipes", "--draws", "20", "--top", "100,50", "--json"]
    assert main([*words, "--seed", "7"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row.pop("dataset") for row in rows} == {"cifar10"}
    assert all(row["tau"] < row["seed_tau"] for row in rows)
    [rankings] = read_rankings(pd.read_parquet(table), "recipes")[0].values()
    expected, _ = tau_matrix(rankings, (100, 50), draws=20, seed=7)
    pd.testing.assert_frame_equal(pd.DataFrame(rows), expected, check_dtype=False)


def test_report_is_written_into_its_run_or_next_to_its_table(table: str, monkeypatch, capsys):
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


@pytest.mark.parametrize(
    "words",
    ["mini@fixed mini@topology", "mini@fixed", "mini --across recipes"],
)
def test_a_k_that_leaves_too_few_cells_is_refused(words: str, capsys):
    assert main(["rank", *words.split(), "--top", "1", "--draws", "0"]) == 2
    shown = capsys.readouterr()
    assert "of the 60 cells, but the top 1 % are 1 cell: give a K of 16 or more" in shown.err
    assert not shown.out
