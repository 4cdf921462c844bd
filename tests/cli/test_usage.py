"""Wrong usage gives one helpful line; the shell completes names."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from report_tables import run_table
from support import PROJECT, refusal_of

from cells import CellError
from rebench.cli import main
from rebench.errors import InputError, MissingDataError
from rebench.version import version

SURFACE = "nas-hpo-bench-ii"


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("quary", "no such command 'quary'. Did you mean 'query'? (see rebench --help)"),
        ("cells shw 11", "no such command 'shw'. Did you mean 'show'? (see rebench cells --help)"),
        ("cells show 15625", "index is a whole number in 0..15624, got 15625"),
        ("cells show |nor_conv~0|", "not an architecture: got '|nor_conv~0|', expected as in |"),
        ("cells export --out x.txt", "--out must end in .parquet or .csv, got 'x.txt'"),
        ("cells export cells.csv", "missing option '--out'"),
        ("query mini 11 --recip x", "--recipe"),
        ("query mini", "name a CELL"),
        ("query 11", "name a table too, such as `rebench query nb201 11`"),
        ("query mini 99999", "index is a whole number in 0..15624, got 99999"),
        (
            "query mini -15",
            "no such option: -1. An index of a cell is a whole number from 0 to 15624",
        ),
        ("query mini x --all", "not a cell: got 'x', expected an index (0 to 15624), a code ("),
        ("query mini 11 --dataset cifar", "unknown data set 'cifar' of mini; valid: cifar10-jpeg"),
        ("query mini 11 --recipe fixd", "unknown recipe 'fixd' in mini; valid: fixed, fixed(lr="),
        ("query mini@fixd 11", "unknown recipe 'fixd' in mini; valid: fixed, fixed(lr="),
        ("rank mini --draws many", "'--draws': must be a whole number"),
        ("rank mini --draws -1", "'--draws': must be at least 0"),
        ("rank mini --by x", "by takes a table: unknown table 'x'"),
        ("rank mini --across x", "'--across': 'x' is not one of 'recipes'"),
        ("rank mini --out x", "--across"),
        ("rank mini --top 100,x", "--top takes percentages above 0 and at most 100, like 100,50"),
        ("rank mini --top 100,0", "like 100,50,10, got '100,0'"),
        ("rank mini --top 100.5", "like 100,50,10, got '100.5'"),
        ("rank mini mini --across recipes", "leave the second out"),
        (
            "rank mini --across recipes --published nb201",
            "--across does not use --published: leave it out",
        ),
        (
            "rank mini@fixed mini@topology --published nb201",
            "a comparison of two tables does not use --published: leave it out",
        ),
        (
            "query mini 11 --all --sql x",
            "--sql does not use CELL and --all: leave them out",
        ),
        (
            "export nats mini@fixed --out x --epochs 5 --seed 777",
            "the format nats does not use --epochs and --seed: leave them out",
        ),
        (
            "export weights mini --out x --published nb201 --epochs 5",
            "the format weights does not use --published and --epochs: leave them out",
        ),
        ("rank mini --across recipes --against nb201", "leave --against out"),
        ("rank mini --across datasets", "no two datasets to compare"),
        (
            "rank mini --across recipes --by nb201",
            "the first of each two rankings selects the best cells: leave --by out",
        ),
        ("rank mini@fixed mini@topology --recipe fixed", "write NAME@RECIPE"),
        ("rank mini@fixed mini@topology --against fixed", "write NAME@RECIPE"),
        ("rank mini@fixed --by nb201", "--by nb201 needs two rankings, but mini@fixed has"),
        ("rank mini@fixed --figure x.svg", "--figure needs two rankings, but mini@fixed has one"),
        ("rank mini@fixed --format md", "name a second table, or leave --format out"),
        ("rank mini --across recipes --against-dataset cifar10", "name BASELINE and OTHER"),
        ("status", "missing argument 'RUN'"),
        (
            "status nowhere",
            "nowhere is not a run folder: there is no such folder; `rebench submit`",
        ),
        (
            "status slurm/gpu.toml",
            "slurm/gpu.toml is not a run folder: it is a sweep file, and its run folder is slurm",
        ),
        ("watch docs", "docs is not a run folder: it contains no run.json; `rebench submit` prin"),
        ("submit x.toml --partition gpu", "no such option: --partition (see"),
        ("submit . --run x", ". is a run itself: leave --run out"),
        ("sweep plan x.toml --like mini", "add --power DROP"),
        ("search run rea", "missing argument 'TABLE'"),
        ("search run rae mini@fixed --evaluations 9", "unknown algorithm 'rae'; valid: rea"),
        ("search run rea mini@fixed --dataset svhn", "no data set 'svhn'"),
        ("search run rea mini@fixed --seconds 5 --evaluations 5", "exactly one"),
        ("search compare", "missing argument 'BASELINE [OTHER]'"),
        ("search compare mini@fixed mini@fixed mini@fixed", "one or two tables, got 3"),
        ("search proxies mini@fixed --proxy naswt", "unknown proxy 'naswt'; valid: naswot, "),
        ("table fetch analog-nasbench --url x", "no such option: --url"),
        ("table ingest a", "missing option '--out'"),
        ("table ingest b --surface nas --out c.parquet", "nas-hpo-bench-ii"),
        (
            f"table ingest b --surface {SURFACE} --out c.parquet --epochs 12",
            "are for a CSV or Parquet",
        ),
        (f"table ingest b --surface {SURFACE} --out c.parquet --no-curves", "are for NATS-Bench's"),
        ("export table mini --out x.txt", "must end in .csv or .parquet, got"),
        ("export curves mini --out x.parquet", "--out must end in .csv, got"),
        ("train 11 --longer 2", "--longer needs the folder of the stored networks"),
        ("train 11 --epochs 0", "'--epochs': must be at least 1"),
        ("train 11 --set skeleton.channels=0", "channels: must be at least 1, got 0"),
        (
            "train 11 --set stack",
            "a setting is KEY=VALUE, such as slurm.partition=gpu, got 'stack'",
        ),
        (
            "train 11 --set datasets=x.toml",
            "datasets: must be a list, got 'x.toml'; write --set \"datasets=['x.toml']\"",
        ),
        ("sweep plan docs", "sweep docs: Is a directory; give the TOML file of a sweep"),
        ("train 11 --set none.toml", "cannot read the settings none.toml: No such file"),
        ("train 11 --device gpu", "slurm.device: must be auto, cpu, cuda or cuda:N, got 'gpu'"),
        ("train 11 --dataset digits --split x", "unknown split 'x' of digits; valid: full, valid"),
        ("recipe show fixed(lr=x) 11", "lr must be a number"),
        ("recipe show fixed(rl=1) 11", "unknown parameter 'rl' of recipe 'fixed'; valid: "),
    ],
)
def test_wrong_usage_is_one_line_in_our_words_and_exit_code_2(typed, message, monkeypatch):
    monkeypatch.delenv("REBENCH_BENCHMARK", raising=False)
    monkeypatch.chdir(PROJECT)
    said = refusal_of(*typed.split())
    assert message in said
    assert said.startswith("rebench: ")
    assert not re.search("Input should|Value error|valid (integer|number|string)", said)


def test_version_is_printed(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"rebench {version()}\n"


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (typer.Abort(), 1, "stopped: nothing more was done"),
        (InputError("a\nb\x7f"), 2, "a\nb\x7f"),
        (MissingDataError("gone"), 1, "gone"),
        (CellError("no cell"), 2, "no cell"),
        (FileNotFoundError(2, "gone", "x"), 2, "cannot read or write x: gone"),
        (OSError("odd"), 1, "odd"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_error_of_a_command_is_its_lines_or_one_object_of_json(raised, code, said, capsys):
    def root(*_: object, **__: object) -> None:
        raise raised

    assert main(["rank"], root) == code
    lines = [f"rebench: {line}" for line in said.replace("\x7f", "\\x7f").split("\n")]
    assert capsys.readouterr() == ("", "\n".join([*lines, ""]))
    assert main(["rank", "--json"], root) == code
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n"), "\x7f" in shown.err) == ("", 1, False)
    assert json.loads(shown.err) == {"error": said, "exit_code": code}


@pytest.mark.parametrize(("asked", "code"), [(3, 3), ("text", 0)])
def test_code_of_an_exit_is_kept(asked: int | str, code: int, capsys):
    def root(*_: object, **__: object) -> None:
        raise SystemExit(asked)

    assert main(["rank"], root) == code
    assert capsys.readouterr() == ("", "")


def test_wrong_usage_with_json_is_an_object_too(capsys):
    assert main(["status", "--odd", "--json"]) == 2
    told = json.loads(capsys.readouterr().err)
    assert told == {"error": "no such option: --odd (see rebench status --help)", "exit_code": 2}


def test_other_value_errors_are_not_caught():
    def root(*_: object, **__: object) -> None:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        main(["rank"], root)


def test_a_closed_pipe_ends_a_command_in_silence(monkeypatch):
    def root(*_: object, **__: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert main(["rank"], root) == 0
    assert sys.stderr.closed


def test_help_is_wrapped_at_the_width_of_the_screen(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["search", "compare", "--help"]) == 0
    # In the source, a line ends after "see"; the help is wrapped again.
    assert "both contain.\n  Algorithms see validation accuracies" in capsys.readouterr().out


def test_a_table_of_half_the_test_set_is_queried_on_it(tmp_path: Path, capsys):
    rows = run_table(20, "cifar100").assign(split="x-test")
    rows.to_parquet(tmp_path / "half.parquet", index=False)
    cell = rows["index"].iloc[0]
    assert main(["query", str(tmp_path / "half.parquet"), str(cell)]) == 0
    assert f"cell {cell}, cifar100 x-test, 200 epochs" in capsys.readouterr().out
    assert main(["rank", str(tmp_path / "half.parquet"), "--draws", "20", "--top", "100"]) == 0


def test_recipe_is_found_in_any_spelling(tmp_path: Path, capsys):
    rows = run_table(20)
    rows.to_parquet(tmp_path / "table.parquet", index=False)
    name, cell = f"{tmp_path}/table.parquet@fixed( lr = 0.30 )", str(rows["index"].iloc[0])
    assert main(["query", name, cell, "--json"]) == 0
    mean = rows[(rows["recipe"] == "fixed(lr=0.3)") & (rows["index"] == int(cell))]["accuracy"]
    [row] = json.loads(capsys.readouterr().out)
    assert row["mean"] == pytest.approx(mean.mean())


def test_cell_may_come_before_the_table(capsys):
    assert main(["query", "mini", "1696"]) == 0
    said = capsys.readouterr().out
    assert main(["query", "1696", "mini"]) == 0
    assert capsys.readouterr().out == said


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("rebench que", {"query"}),
        ("rebench search com", {"compare"}),
        ("rebench query mini 1696 --rec", {"--recipe"}),
    ],
)
def test_shell_is_offered_names(line: str, expected: set[str]):
    path = os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH")]))
    asked = {
        "_REBENCH_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - 1),
        "PYTHONPATH": path,
    }
    program = "import sys; sys.argv = ['rebench']; from rebench.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | asked,
        capture_output=True,
        text=True,
        check=False,
    )
    assert set(done.stdout.split()) == expected


def test_two_mistakes_of_a_sweep_are_two_lines(tmp_path: Path, capsys):
    sweep = tmp_path / "sweep.toml"
    sweep.write_text(
        'datasets = ["digits"]\nseeds = [1]\nrecipes = ["nb201"]\nepochs = "ten"\n'
        '[cells]\nindices = [11]\n[slurm]\npartitoin = "gpu"\n'
    )
    assert main(["sweep", "plan", str(sweep)]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"rebench: {sweep}: epochs: must be a whole number, got 'ten'"
    assert second.startswith(f"rebench: unknown key 'partitoin' of [slurm] in {sweep}; valid: part")


def test_a_budget_beyond_the_table_is_reduced_with_a_warning(capsys):
    words = ["search", "run", "random", "mini@topology", "--evaluations", "1e18"]
    assert main([*words, "--repeats", "1", "--json"]) == 0
    shown = capsys.readouterr()
    assert "A budget of 1e+18 evaluations is more than the cost of all 60 cells" in shown.err
    assert json.loads(shown.out)["answers"][0]["evaluations"] < 1_000_000


def test_characters_that_a_terminal_cannot_write_are_replaced(tmp_path: Path):
    table = tmp_path / "table.csv"
    rows = "index,dataset,split,epochs,seed,accuracy\n11,imâges,ori-test,200,777,90.5\n"
    table.write_text(rows, encoding="utf-8")
    path = os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH")]))
    shown = {}
    for encoding in ("ascii", "utf-8"):
        done = subprocess.run(
            [sys.executable, "-m", "rebench", "query", str(table), "11", "--all", "--json"],
            env=os.environ | {"PYTHONPATH": path, "PYTHONIOENCODING": encoding},
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        shown[encoding] = done.stdout.decode(encoding)
    assert "imâges" in shown["utf-8"]
    assert json.loads(shown["ascii"]) == json.loads(shown["utf-8"])


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("query mini 9 --all", "mini has no accuracy of cell 9"),
        ("export weights mini --out w", "mini has kept no networks"),
        ("data fetch digits", "digits needs no files: there is nothing to fetch"),
    ],
)
def test_missing_data_is_one_line_and_exit_code_1(typed: str, message: str):
    assert refusal_of(*typed.split(), code=1).startswith(f"rebench: {message}")
