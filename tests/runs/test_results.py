"""Records of a run: valid, ignored and conflicting records, and the tables made from them."""

import importlib
import json
import subprocess
import zlib
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from made_records import make_record
from made_records import write_records as write
from support import run_here

from rebench.errors import ConflictError, StoreError
from rebench.runs import (
    Curve,
    FinishedTrials,
    RecipeSpec,
    collect_provenance,
    files,
    job_name,
    results,
)
from rebench.runs.record import code_digest, code_origin, source_commit
from rebench.tables.collecting import collect


def test_reading_without_curves_agrees_with_the_full_reading(tmp_path):
    diverged = make_record(seed=1, outcome={"status": "diverged", "diverged_epoch": 1})
    write(tmp_path, "a", make_record(), diverged)
    finished = FinishedTrials(tmp_path).refresh()
    trials, records = finished.trials, finished.records
    assert {name: (one.status, one.seconds) for name, one in trials.items()} == {
        name: (one["outcome"]["status"], one["cost"]["seconds"]) for name, one in records.items()
    }
    assert trials[diverged.trial_id].status == "diverged"


def test_only_some_trials_are_looked_for(tmp_path):
    records = [make_record(seed=seed) for seed in range(3)]
    write(tmp_path, "a", *records)
    own = FinishedTrials(tmp_path, {records[1].trial_id}).refresh()
    assert list(own.trials) == [records[1].trial_id]


def test_equal_records_of_one_trial_count_once(tmp_path):
    write(tmp_path, "a", make_record(host="n1"))
    write(tmp_path, "b", make_record(host="n2"))
    finished = FinishedTrials(tmp_path).refresh()
    finished.check()
    assert (len(finished.records), finished.duplicates) == (1, 1)


def test_unequal_records_of_one_trial_are_an_error_until_one_is_removed(tmp_path):
    write(tmp_path, "a", make_record(accuracy=50.0), make_record(seed=1))
    write(tmp_path, "b", make_record(accuracy=50.1))
    with pytest.raises(ConflictError, match=r"results/a\.0\.jsonl:1 and results/b\.0\.jsonl:1"):
        collect(tmp_path)
    (tmp_path / "results" / "b.0.jsonl").unlink()
    assert collect(tmp_path).trials == 2


def write_shard(run: Path, content: bytes) -> Path:
    shard = run / "results" / "a.0.jsonl"
    shard.parent.mkdir(exist_ok=True)
    shard.write_bytes(content)
    return shard


def test_shard_truncated_at_every_byte_of_its_last_record_keeps_the_others(tmp_path):
    first, last = make_record(), make_record(seed=1)
    whole = f"{first.to_line()}\n{last.to_line()}\n".encode()
    for size in range(len(first.to_line()) + 1, len(whole)):
        write_shard(tmp_path, whole[:size])
        finished = FinishedTrials(tmp_path).refresh()
        assert list(finished.trials) == [first.trial_id]
        torn = size > len(first.to_line()) + 1
        assert (
            finished.problems
            == ["results/a.0.jsonl ends with an unfinished line, which is ignored"] * torn
        )
        assert not finished.damaged
    write_shard(tmp_path, whole)
    assert len(FinishedTrials(tmp_path).refresh().trials) == 2


def with_checksum(body: str) -> bytes:
    return f'{body},"crc32":"{zlib.crc32(body.encode()):08x}"}}'.encode()


FORGED = ('{"a":1', '{"schema":"x"', '{"schema":1', '{"schema":1,"trial_id":[]', "[1")


@pytest.mark.parametrize(
    "damage",
    [
        lambda line: b"\0" * len(line),
        lambda line: line[:300] + b"\0" * 20 + line[320:],
        lambda line: line[:-40],
        lambda _: b"",
        lambda _: b'{"schema":1}',
        lambda _: b"[]",
        # Lines with a correct checksum that are no records.
        *(lambda _, body=body: with_checksum(body) for body in FORGED),
    ],
    ids=["zeros", "hole", "short", "empty", "hollow", "list", *FORGED],
)
def test_damaged_line_is_ignored_and_named(tmp_path, damage):
    good, bad = make_record(), make_record(seed=1)
    lines = [damage(bad.to_line().encode()), good.to_line().encode(), b""]
    write_shard(tmp_path, b"\n".join(lines))
    assert list(FinishedTrials(tmp_path).refresh().trials) == [good.trial_id]
    assert list(FinishedTrials(tmp_path).refresh().damaged) == ["results/a.0.jsonl:1"]
    assert collect(tmp_path).damaged == ("results/a.0.jsonl:1",)


def test_record_of_a_newer_schema_says_to_upgrade(tmp_path):
    body = make_record().to_line().replace('"schema":1', '"schema":99')[:-20]
    write_shard(tmp_path, with_checksum(body) + b"\n")
    with pytest.raises(StoreError, match=r"schema 99.*upgrade"):
        FinishedTrials(tmp_path).refresh()


def test_tables_of_varied_records_equal_what_python_reads_from_their_lines(tmp_path):
    """The expected rows are computed here from plain JSON, one value at a time."""
    short = Curve(accuracy=[1e-3, None], loss=[2.3025850929940455, None])
    records = [
        make_record(recipe=RecipeSpec(name="topology", parameters={"degree": "target", "x": 1})),
        make_record(recipe=RecipeSpec(name="fixed", parameters={"lr": 0.1 + 0.2, "x": "one"})),
        make_record(cell=6111, commit="0123456789abcdef", dirty=True, cuda="12.4"),
        make_record(cell=6111, seed=3, commit="0123456789abcdef", dirty=False, slurm_job="7_1"),
        make_record(seed=4, outcome={"curves": {"x-test": short, "train": short}}),
        make_record(seed=5, outcome={"layer_multipliers": {"stem": 0.5}, "curves": {}}),
        make_record(seed=6, outcome={"status": "diverged", "diverged_epoch": 2}),
    ]
    write(tmp_path, "a", *records)
    collect(tmp_path)
    table = pd.read_parquet(tmp_path / "results.parquet")
    curves = pd.read_parquet(tmp_path / "curves.parquet")
    expected, epochs = [], []
    for record in (json.loads(one.to_line()) for one in records):
        trial, origin = record["trial"], record["provenance"]
        for split, curve in record["outcome"]["curves"].items():
            known = RecipeSpec(**trial["recipe"]).label, origin["slurm_job"], trial["seed"]
            known += record["outcome"]["status"], record["outcome"]["diverged_epoch"]
            expected.append(
                (record["trial_id"], split, curve["accuracy"][-1], curve["loss"][-1], *known)
            )
            pairs = zip(curve["accuracy"], curve["loss"], strict=True)
            epochs += [
                (record["trial_id"], split, number, *pair) for number, pair in enumerate(pairs, 1)
            ]
    shown = ["trial_id", "split", "accuracy", "loss", "recipe", "slurm_job", "seed", "status"]
    shown += ["diverged_epoch"]
    assert _plain(table[shown]) == _sorted(expected)
    assert _plain(curves) == _sorted(epochs)
    assert set(table["environment"]) == {
        "rebench 0.1.0, torch 2",
        "rebench 0.1.0 (0123456789ab+), torch 2, CUDA 12.4",
        "rebench 0.1.0 (0123456789ab), torch 2",
    }
    assert list(table["trial_id"]) == sorted(table["trial_id"])


def _plain(table: pd.DataFrame) -> list[tuple]:
    rows = table.astype(object).where(table.notna(), None).itertuples(index=False, name=None)
    return _sorted(rows)


def _sorted(rows) -> list[tuple]:
    return sorted(rows, key=lambda row: tuple(map(str, row)))


def test_tables_do_not_depend_on_the_shards_of_their_records(tmp_path):
    rule = RecipeSpec(name="topology", parameters={"degree": "target"})
    records = [make_record(), make_record(seed=1, recipe=rule), make_record(seed=2)]
    for number, record in enumerate(reversed(records)):
        write(tmp_path / "one", f"w{number}", record)
    write(tmp_path / "other", "a", records[1])
    write(tmp_path / "other", "b", *records)
    one, other = collect(tmp_path / "one"), collect(tmp_path / "other")
    assert (one.duplicates, other.duplicates) == (0, 1)
    assert one.results.read_bytes() == other.results.read_bytes()
    assert one.curves.read_bytes() == other.curves.read_bytes()


def test_run_without_any_record_has_empty_tables(tmp_path):
    (tmp_path / "results").mkdir()
    assert (collect(tmp_path).trials, collect(tmp_path).rows) == (0, 0)
    assert pd.read_parquet(tmp_path / "curves.parquet").empty


def test_tables_are_equal_whatever_the_pieces_that_they_are_made_in(tmp_path, monkeypatch):
    for worker in "ab":
        records = [
            make_record(cell, seed, cell / 70) for cell in (11, 284, 6111) for seed in (0, 1)
        ]
        write(tmp_path, worker, *records)
    whole = collect(tmp_path)
    assert (whole.trials, whole.duplicates) == (6, 6)
    results_bytes, curves_rows = whole.results.read_bytes(), pd.read_parquet(whole.curves)
    monkeypatch.setattr(results, "_PIECE_BYTES", 1)
    monkeypatch.setattr(files, "_PIECE_BYTES", 100)
    (tmp_path / "collected.json").unlink()
    pieces = collect(tmp_path)
    assert pieces.results.read_bytes() == results_bytes
    assert pq.ParquetFile(pieces.curves).num_row_groups == 6
    pd.testing.assert_frame_equal(pd.read_parquet(pieces.curves), curves_rows)


def test_changed_environment_is_reported(tmp_path):
    write(tmp_path, "a", make_record(), make_record(seed=1, torch="2.99"))
    done = run_here("collect", tmp_path, "--json")
    assert json.loads(done.stdout)[0]["trials"] == 2
    assert "environment changed" in done.stderr
    assert "torch 2.99" in done.stderr


GIT = """case "$3" in
rev-parse) echo 0123abcd;;
ls-files) {tracked};;
status) {changed};;
esac"""


@pytest.mark.parametrize(
    ("git", "expected"),
    [
        (GIT.format(tracked="echo __init__.py", changed="true"), ("0123abcd", False)),
        (GIT.format(tracked="echo __init__.py", changed="echo ' M x'"), ("0123abcd", True)),
        # A package inside somebody else's repository.
        (GIT.format(tracked="true", changed="true"), (None, None)),
        ("exit 128", (None, None)),
        (None, (None, None)),
    ],
)
def test_record_names_the_commit_of_the_code_where_it_is_known(
    tmp_path, monkeypatch, git, expected
):
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, value in (("SLURM_RESTART_COUNT", "3"), ("SLURMD_NODENAME", "n7")):
        monkeypatch.setenv(name, value)
    if git is not None:
        (tmp_path / "git").write_text(f"#!/bin/sh\n{git}\n")
        (tmp_path / "git").chmod(0o755)
    code_origin.cache_clear()
    told = collect_provenance(
        torch="2", cuda=None, device="cpu", started="a", switches={}, data_digest="d"
    )
    code_origin.cache_clear()
    assert (told.commit, told.dirty) == expected
    assert (told.attempt, told.host, told.started, told.data_digest) == (3, "n7", "a", "d")


def test_file_of_a_recipe_counts_as_edited_until_it_is_committed(tmp_path, monkeypatch):
    commit, edited = source_commit()
    if commit is None:
        pytest.skip("rebench itself is in no repository here")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "rules_of_a_test").mkdir()
    (tmp_path / "rules_of_a_test/__init__.py").touch()
    importlib.import_module("rules_of_a_test")
    assert source_commit("rules_of_a_test")[1] is True  # in no repository

    def git(*words):
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-C", tmp_path)
        subprocess.run(["git", *who, *words], check=True)

    git("init", "--quiet")
    assert source_commit("rules_of_a_test")[1] is True
    git("add", ".")
    git("commit", "--quiet", "--message=x")
    assert source_commit("rules_of_a_test")[1] is edited
    before = code_digest("rules_of_a_test")
    (tmp_path / "rules_of_a_test/rates.toml").write_text("a = 1\n")
    assert source_commit("rules_of_a_test")[1] is True
    assert code_digest("rules_of_a_test") != before


@pytest.mark.parametrize(
    ("told", "job"),
    [
        ({}, None),
        ({"SLURM_JOB_ID": "9"}, "9"),
        ({"SLURM_JOB_ID": "9", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "0"}, "7_0"),
    ],
)
def test_job_of_a_record_is_the_one_that_the_queue_shows(monkeypatch, told, job):
    for name in ("SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("SLURM_RESTART_COUNT", raising=False)
    assert job_name() == job
    told = collect_provenance(torch="2", cuda=None, device="cpu", started="a", switches={})
    assert (told.slurm_job, told.attempt) == (job, 0)


def test_curve_has_a_loss_for_each_accuracy_and_at_least_one():
    assert Curve(accuracy=[None], loss=[None]).accuracy == [None]
    for accuracy, loss in (([1.0, 2.0], [1.0]), ([1.0], [1.0, 2.0]), ([], [])):
        with pytest.raises(ValueError, match=r"accuracies and|at least 1 item"):
            Curve(accuracy=accuracy, loss=loss)
