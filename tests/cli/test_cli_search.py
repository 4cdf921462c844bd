"""The commands as a user types them."""

import contextlib
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from generated_tables import synthetic_frame
from support import json_of, run_here

import rebench.cli.search
from rebench.search import Budget, replay, search_table
from rebench.tables import open_table, write_table


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A generated table of 400 cells on CIFAR-10 in the benchmark's format."""
    path = tmp_path_factory.mktemp("tables") / "published.parquet"
    frame = synthetic_frame(0, cells=range(400), datasets=["cifar10", "cifar10-valid"])
    write_table(path, frame, name="published", origin="generated")
    return path


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a collected run: 120 of these cells under two recipes."""
    folder = tmp_path_factory.mktemp("runs") / "myrun"
    folder.mkdir()
    frame = synthetic_frame(1, cells=range(120), datasets=["cifar10"], epochs=[200])
    rows = frame[frame["split"] == "ori-test"]
    rows = rows[["index", "dataset", "split", "epochs", "seed", "accuracy", "loss"]]
    both = [rows.assign(recipe="nb201"), rows.assign(recipe="topology")]
    pd.concat(both).to_parquet(folder / "results.parquet", index=False)
    return folder


def test_list_names_every_algorithm():
    names = {"random", "rea", "local", "reinforce", "hyperband", "bohb", "predictor"}
    assert names <= {row["algorithm"] for row in json_of("search", "list")}


def test_table_of_one_data_set_is_searched_on_it(tmp_path: Path):
    frame = synthetic_frame(0, cells=range(60), datasets=["cifar100"])
    write_table(tmp_path / "own.parquet", frame, name="own", origin="generated")
    printed = json_of("search", "run", "random", tmp_path / "own.parquet", "--evaluations", 5)
    assert printed["notes"][0].startswith("cifar100, 60 cells")


def test_compare_of_two_tables_prints_how_they_rank_the_algorithms(
    published: Path, run_folder: Path, tmp_path: Path
):
    printed = json_of(
        "search", "compare", published, f"{run_folder}@topology", "--algorithm", "random",
        "--algorithm", "rea", "--algorithm", "local", "--repeats", 20,
        "--out", tmp_path / "figure",
    )  # fmt: skip
    assert len(printed["ranking_of_the_algorithms"]) == 3
    assert {row["table"] for row in printed["final_test_accuracy"]} == {
        "published",
        "myrun@topology",
    }
    assert any(
        "120 cells" in note and "test accuracy, so optimistic" in note for note in printed["notes"]
    )
    assert "order significantly" in printed["notes"][0]
    [agreed] = printed["agreement_of_the_rankings"]
    assert (agreed["first"], agreed["second"]) == ("published", "myrun@topology")
    assert agreed["low"] <= agreed["tau"] <= agreed["high"]
    assert printed["notes"][2].startswith("No seed baseline: published has neither")
    for name in ("anytime", "ranks", "rerank"):
        assert (tmp_path / f"figure-{name}.pdf").stat().st_size > 1000
        assert len(pd.read_csv(tmp_path / f"figure-{name}.csv")) > 2


def test_compare_searches_a_retrained_sample_on_the_published_signal(
    published: Path, run_folder: Path
):
    [_, _, note, *_] = json_of(
        "search", "compare", f"{run_folder}@nb201", "--signal", published, "--epochs", 12,
        "--algorithm", "rea", "--repeats", 5,
    )["notes"]  # fmt: skip
    assert "x-valid after 12 epochs of published" in note
    assert "simulated GPU-seconds" in note


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "cifar10-valid x-valid after 12 epochs;"),
        (("--epochs", 200), "cifar10-valid x-valid after 200 epochs;"),
        (("--on-test",), "cifar10 ori-test after 12 epochs (test accuracy, so optimistic);"),
        (("--dataset", "cifar10"), "cifar10, 400 cells;"),
    ],
)
def test_search_uses_the_requested_signal(words: tuple[object, ...], said: str, published: Path):
    printed = json_of("search", "run", "random", published, "--evaluations", 5, *words)
    assert said in printed["notes"][0]


def test_times_of_another_table_are_the_clock(published: Path, run_folder: Path):
    words = ("search", "run", "random", f"{run_folder}@nb201")
    clocks = [
        json_of(*words, *more)["notes"][0].rpartition("budgets: ")[2]
        for more in ((), ("--times", published))
    ]
    assert clocks == ["evaluations (no training times)", "simulated GPU-seconds or evaluations"]
    missing = run_here("search", "run", "random", published, "--fidelity", "curve")
    assert "no file of curves" in missing.stderr


def test_answers_are_those_of_the_replayed_runs(published: Path):
    words = ("run", "rea", published, "--repeats", 2, "--seconds", 5000, "--seed", 3)
    printed = json_of("search", *words)
    table = search_table(open_table(published), "cifar10")
    expected = []
    for number in (0, 1):
        found = replay("rea", table, Budget(seconds=5000), seed=3, run=number)
        accuracy = float(table.final[found.answers[-1]])
        expected.append(
            {
                "run": number,
                "cell": table.space.indices[found.answers[-1]],
                "accuracy": round(accuracy, 4),
                "regret": round(table.best - accuracy, 4),
                "evaluations": len(found.positions),
                "spent": round(float(found.clock[-1]), 3),
            }
        )
    assert printed["answers"] == expected
    mean = np.mean([row["accuracy"] for row in printed["answers"]])
    assert printed["summary"][0]["mean"] == pytest.approx(mean, abs=1e-3)
    assert printed["notes"][1] == "budget: 5,000 simulated seconds"


@pytest.mark.parametrize(
    ("words", "searches"),
    [
        (("run", "random", "TABLE", "--repeats", 3), 3),
        (("compare", "RUN@nb201", "RUN@topology", "--repeats", 2,
          "--algorithm", "random", "--algorithm", "rea"), 2 * 2 * (2 + 3)),
    ],
)  # fmt: skip
def test_progress_counts_every_search(
    words: tuple[object, ...], searches: int, published: Path, run_folder: Path, monkeypatch
):
    told, moves = [], []

    @contextlib.contextmanager
    def progress(what: str, total: float):
        told.append((what, total))
        yield lambda **moved: moves.append(moved)

    monkeypatch.setattr(rebench.cli.search, "progress", progress)
    typed = [str(word).replace("TABLE", str(published)) for word in words]
    typed = [word.replace("RUN", str(run_folder)) for word in typed]
    assert run_here("search", *typed, "--evaluations", 5).returncode == 0
    assert told == [("searches", searches)]
    assert moves == [{"advance": 1}] * searches


def test_compare_prints_tables_and_the_budget(published: Path):
    done = run_here("search", "compare", published, "--algorithm", "random", "--repeats", 5)
    assert done.returncode == 0, done.stderr
    assert "Final test accuracy" in done.stdout
    assert "1 runs of each algorithm" not in done.stdout
    assert "with 20,000 simulated seconds each" in " ".join(done.stdout.split())
    assert done.stdout.startswith("random ends best on published")
    assert "Average ranks" not in done.stdout
    assert "Reported elsewhere" not in done.stdout


def test_compare_writes_a_table_for_a_paper_and_the_verdict_apart():
    words = ("search", "compare", "mini@fixed", "mini@topology")
    words += ("--algorithm", "random", "--repeats", 2)
    for name, begin in (("latex", "\\begin{table}"), ("md", "| table |"), ("csv", "table,")):
        done = run_here(*words, "--evaluations", 5, "--format", name)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(begin)
        assert "budget: 5 evaluations" in done.stderr


def test_proxies_of_a_table(published: Path):
    rows = {row["proxy"]: row for row in json_of("search", "proxies", published)["proxies"]}
    assert rows["params"]["n"] == 400
    assert rows["params"]["low"] < rows["params"]["spearman"] < rows["params"]["high"]


def test_proxies_of_networks_follow_the_baselines(published: Path):
    """Real networks, small, on the embedded images."""
    printed = json_of(
        "search", "proxies", published, "--proxy", "all", "--cells", 6, "--images", 8,
        "--images-of", "digits", "--set", "skeleton.channels=4",
        "--set", "skeleton.cells_per_stage=1",
    )  # fmt: skip
    found = {row["proxy"]: row for row in printed["proxies"]}
    assert {"naswot", "synflow", "grad-norm", "snip", "params", "flops"} <= set(found)
    assert all(row["n"] == 6 for row in found.values())
    assert "4 channels, 1 cells a stage" in printed["notes"][1]


def test_example_of_proxies_needs_no_data_of_others(tmp_path: Path, monkeypatch):
    """The example of the help, on fewer cells, in a home that is empty."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("REBENCH_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    shown = run_here("search", "proxies", "--help").stdout
    [example] = re.findall(r"Example: rebench (.+)", shown)
    rows = json_of(*example.split(), "--cells", 5)["proxies"]
    assert {"naswot", "params"} <= {row["proxy"] for row in rows}


def test_every_interval_has_its_own_heading(
    published: Path, run_folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "250")
    done = run_here(
        "search", "compare", published, f"{run_folder}@topology", "--algorithm", "random",
        "--algorithm", "rea", "--repeats", 3, "--details",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    headings = re.split("  +", lines[lines.index("Ranking of the algorithms") + 1])
    assert headings[-2:] == ["places gained", "95 % CI"]
    headings = re.split("  +", lines[lines.index("Agreement of the rankings") + 1].strip())
    assert headings == [
        "first",
        "second",
        "tau",
        "95 % CI",
        "pairs in opposite order",
        "significantly",
    ]
