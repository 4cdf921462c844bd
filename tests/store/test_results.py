"""Records of a run: what counts, what is ignored and said so, what is an error, what is a table."""

import json
import subprocess
import sys

import pandas as pd
import pytest
from support import PROJECT

from rebench.errors import ConflictError, StoreError
from rebench.store import (
    Cost,
    Curve,
    FinishedTrials,
    Outcome,
    Provenance,
    Record,
    RecordWriter,
    ShardWriter,
    load_records,
    quarantine,
    shards,
)
from rebench.store import results as results_module
from rebench.sweep import RecipeSpec, Trial
from rebench.tables import collecting
from rebench.tables.collecting import collect

NB201 = RecipeSpec(name="nb201")


def make_record(
    cell: int = 11, seed: int = 0, accuracy: float = 50.0, recipe: RecipeSpec = NB201, **changes
) -> Record:
    trial = Trial(cell=cell, dataset="digits", recipe=recipe, seed=seed, epochs=2)
    curve = Curve(accuracy=[10.0, accuracy], loss=[2.0, 1.5])
    outcome = {
        "status": "done",
        "learning_rate": 0.1,
        "curves": {"train": curve, "ori-test": curve},
    } | changes.pop("outcome", {})
    origin = {
        "rebench": "0.1.0",
        "python": "3.11",
        "torch": "2",
        "device": "cpu",
        "host": "h",
        "started": "a",
        "ended": "b",
    } | changes
    return Record(
        trial=trial,
        outcome=Outcome(**outcome),
        cost=Cost(seconds=1.5, images_per_s=100.0, params_m=0.1, mflops=10.0),
        provenance=Provenance(**origin),
    )


def write(run, worker: str, *records: Record) -> None:
    writer = ShardWriter(run / "results", worker)
    writer.append([record.to_line() for record in records])
    writer.close()


def test_glance_agrees_with_the_full_reading(tmp_path):
    diverged = make_record(seed=1, outcome={"status": "diverged", "diverged_epoch": 1})
    write(tmp_path, "a", make_record(), diverged)
    trials = FinishedTrials(tmp_path).refresh().trials
    records = load_records(tmp_path).records
    assert {name: (one.status, one.seconds) for name, one in trials.items()} == {
        name: (one["outcome"]["status"], one["cost"]["seconds"]) for name, one in records.items()
    }
    assert trials[diverged.trial_id].status == "diverged"


def write_indexed(run, *records: Record) -> None:
    writer = RecordWriter(run / "results", "w")
    for record in records:
        writer.append_record(record)
    writer.close()


def test_index_spares_the_reading_of_what_it_names(tmp_path, monkeypatch):
    records = [make_record(seed=seed) for seed in range(3)]
    write_indexed(tmp_path, *records)
    read = FinishedTrials(tmp_path)
    (shard,) = tmp_path.glob("results/*.jsonl")
    # Nobody looks: what stands there now would be no record.
    shard.write_bytes(b"x" * (shard.stat().st_size - 1) + b"\n")
    assert list(read.refresh().trials) == [one.trial_id for one in records]
    assert read.damaged == []
    own = FinishedTrials(tmp_path, {records[1].trial_id}).refresh()
    assert own.trials == {records[1].trial_id: ("done", 1.5)}


@pytest.mark.parametrize("index", ["gone", "torn", "with a gap", "not text", "too long"])
def test_index_that_does_not_fit_is_not_believed(tmp_path, index):
    records = [make_record(seed=seed) for seed in range(4)]
    write_indexed(tmp_path, *records)
    (path,) = tmp_path.glob("results/*.index")
    lines = path.read_bytes().splitlines(keepends=True)
    (shard,) = tmp_path.glob("results/*.jsonl")
    if index == "gone":
        path.unlink()
    if index == "torn":
        path.write_bytes(b"".join(lines[:3])[:-4])
    if index == "with a gap":
        path.write_bytes(lines[0] + lines[2] + lines[3])
    if index == "not text":
        path.write_bytes(lines[0] + b"\xff\n")
    if index == "too long":
        content = shard.read_bytes().splitlines(keepends=True)
        shard.write_bytes(b"".join(content[:2]))
        records = records[:2]
    read = FinishedTrials(tmp_path).refresh()
    assert list(read.trials) == [one.trial_id for one in records]
    # What is appended by a writer without an index counts as well, by its line.
    with shard.open("ab") as file:
        file.write(b"{}\n")
    assert read.refresh().damaged == [f"results/w.0.jsonl:{len(records) + 1}"]


def test_lines_that_were_set_aside_are_told_from_others_whatever_the_index_says(tmp_path):
    write_indexed(tmp_path, make_record(accuracy=50.0), make_record(accuracy=51.0))
    loaded = load_records(tmp_path)
    assert quarantine(tmp_path, loaded) == 2
    assert FinishedTrials(tmp_path).refresh().trials == {}


def test_equal_records_of_one_trial_count_once(tmp_path):
    write(tmp_path, "a", make_record(host="n1"))
    write(tmp_path, "b", make_record(host="n2"))
    loaded = load_records(tmp_path)
    loaded.check()
    assert (len(loaded.records), loaded.duplicates) == (1, 1)


def test_unequal_records_of_one_trial_are_an_error_until_set_aside(tmp_path):
    write(tmp_path, "a", make_record(accuracy=50.0), make_record(seed=1))
    write(tmp_path, "b", make_record(accuracy=50.1))
    with pytest.raises(ConflictError, match=r"results/a\.0\.jsonl:1 and results/b\.0\.jsonl:1"):
        collect(tmp_path)
    assert collect(tmp_path, set_aside=True).quarantined == 2
    assert collect(tmp_path).trials == 1
    assert list(FinishedTrials(tmp_path).refresh().trials) == [make_record(seed=1).trial_id]
    # The trial is pending again, and its new record counts.
    write(tmp_path, "c", make_record(accuracy=50.2))
    assert collect(tmp_path).trials == 2


def test_shard_truncated_at_every_byte_of_its_last_record_keeps_the_others(tmp_path):
    first, last = make_record(), make_record(seed=1)
    whole = f"{first.to_line()}\n{last.to_line()}\n".encode()
    shard = tmp_path / "results" / "a.0.jsonl"
    shard.parent.mkdir()
    for size in range(len(first.to_line()) + 1, len(whole)):
        shard.write_bytes(whole[:size])
        finished = FinishedTrials(tmp_path).refresh()
        loaded = load_records(tmp_path)
        assert list(finished.trials) == list(loaded.records) == [first.trial_id]
        torn = size > len(first.to_line()) + 1
        assert bool(finished.torn) == bool(loaded.torn) == torn
        assert not finished.damaged
    shard.write_bytes(whole)
    assert len(load_records(tmp_path).records) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda line: b"\0" * len(line),
        lambda line: line[:300] + b"\0" * 20 + line[320:],
        lambda line: line[:-40],
        lambda _: b"",
        lambda _: b'{"schema":1}',
        lambda _: b"[]",
    ],
    ids=["zeros", "hole", "short", "empty", "hollow", "list"],
)
def test_damaged_line_is_ignored_and_named(tmp_path, damage):
    good, bad = make_record(), make_record(seed=1)
    shard = tmp_path / "results" / "a.0.jsonl"
    shard.parent.mkdir()
    shard.write_bytes(damage(bad.to_line().encode()) + b"\n" + good.to_line().encode() + b"\n")
    assert list(FinishedTrials(tmp_path).refresh().trials) == [good.trial_id]
    assert FinishedTrials(tmp_path).refresh().damaged == ["results/a.0.jsonl:1"]
    assert collect(tmp_path).damaged == ("results/a.0.jsonl:1",)


def test_record_of_an_older_schema_is_upgraded(tmp_path, monkeypatch):
    current = json.loads(make_record().to_line())
    older = {**current, "schema": 0}
    older["result"] = older.pop("outcome")

    def rename_result(record):
        return {("outcome" if key == "result" else key): value for key, value in record.items()}

    monkeypatch.setitem(results_module.UPGRADES, 0, rename_result)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "a.0.jsonl").write_text(json.dumps(older) + "\n")
    assert load_records(tmp_path).records == {current["trial_id"]: current}
    assert list(FinishedTrials(tmp_path).refresh().trials) == [current["trial_id"]]


def test_record_of_a_newer_schema_says_to_upgrade(tmp_path):
    newer = json.loads(make_record().to_line()) | {"schema": 99}
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "a.0.jsonl").write_text(json.dumps(newer) + "\n")
    with pytest.raises(StoreError, match=r"schema 99.*upgrade"):
        load_records(tmp_path)


def test_tables_hold_what_the_records_say(tmp_path):
    diverged = make_record(
        cell=6111,
        outcome={
            "status": "diverged",
            "diverged_epoch": 2,
            "curves": {"ori-test": Curve(accuracy=[10.0, 10.0], loss=[2.0, None])},
        },
    )
    write(tmp_path, "a", make_record(), diverged)
    collect(tmp_path)
    table = pd.read_parquet(tmp_path / "results.parquet").set_index(["index", "split"])
    assert table.loc[(11, "ori-test"), "accuracy"] == 50.0
    assert table.loc[(11, "train"), "loss"] == 1.5
    assert table.loc[(6111, "ori-test"), "status"] == "diverged"
    assert table.loc[(6111, "ori-test"), "diverged_epoch"] == 2
    assert pd.isna(table.loc[(6111, "ori-test"), "loss"])
    assert set(table["recipe"]) == {"nb201"}
    curves = pd.read_parquet(tmp_path / "curves.parquet")
    assert len(curves) == 6
    last = curves[(curves.trial_id == make_record().trial_id) & (curves.epoch == 2)]
    assert list(last["accuracy"]) == [50.0, 50.0]


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
            expected.append(
                (record["trial_id"], split, curve["accuracy"][-1], curve["loss"][-1], *known)
            )
            pairs = zip(curve["accuracy"], curve["loss"], strict=True)
            epochs += [
                (record["trial_id"], split, number, *pair) for number, pair in enumerate(pairs, 1)
            ]
    shown = ["trial_id", "split", "accuracy", "loss", "recipe", "slurm_job", "seed"]
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


def test_tables_are_the_same_when_every_line_must_be_looked_into(tmp_path):
    """A second line of one trial is enough to leave the fast way."""
    rule = RecipeSpec(name="topology", parameters={"degree": "target"})
    records = [make_record(), make_record(seed=1, recipe=rule), make_record(seed=2)]
    write(tmp_path / "fast", "a", *records)
    write(tmp_path / "slow", "a", *records)
    write(tmp_path / "slow", "b", records[1])
    fast, slow = collect(tmp_path / "fast"), collect(tmp_path / "slow")
    assert (fast.duplicates, slow.duplicates) == (0, 1)
    assert fast.results.read_bytes() == slow.results.read_bytes()
    assert fast.curves.read_bytes() == slow.curves.read_bytes()


def test_value_that_no_column_can_hold_is_one_clear_error(tmp_path):
    line = make_record().to_line().replace('"seconds":1.5', '"seconds":"soon"')
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "a.0.jsonl").write_text(line + "\n")
    with pytest.raises(StoreError, match="do not fit into columns"):
        collect(tmp_path)


def test_run_without_any_record_has_empty_tables(tmp_path):
    (tmp_path / "results").mkdir()
    assert (collect(tmp_path).trials, collect(tmp_path).rows) == (0, 0)
    assert pd.read_parquet(tmp_path / "curves.parquet").empty


def test_tables_are_equal_whatever_the_pieces_that_they_are_made_in(tmp_path, monkeypatch):
    for worker in "ab":
        records = [make_record(cell, seed, cell / 7) for cell in (11, 284, 6111) for seed in (0, 1)]
        write(tmp_path, worker, *records)
    whole = collect(tmp_path)
    assert (whole.trials, whole.duplicates) == (6, 6)
    content = [path.read_bytes() for path in (whole.results, whole.curves)]
    monkeypatch.setattr(collecting, "_PIECE_BYTES", 1)
    monkeypatch.setattr(shards, "_PIECE_BYTES", 100)
    pieces = collect(tmp_path)
    assert [path.read_bytes() for path in (pieces.results, pieces.curves)] == content


def test_tables_are_equal_whatever_the_order_of_the_shards(tmp_path):
    records = [make_record(seed=seed) for seed in range(5)]
    write(tmp_path / "one", "a", *records)
    for number, record in enumerate(reversed(records)):
        write(tmp_path / "two", f"w{number}", record)
    first = collect(tmp_path / "one").results.read_bytes()
    assert collect(tmp_path / "two").results.read_bytes() == first


def test_changed_environment_is_reported(tmp_path):
    write(tmp_path, "a", make_record(), make_record(seed=1, torch="2.99"))
    command = [sys.executable, "-m", "rebench", "collect", str(tmp_path), "--json"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)[0]["trials"] == 2
    assert "environment changed" in done.stderr
    assert "torch 2.99" in done.stderr


def test_collect_of_a_folder_without_records_is_bad_input(tmp_path):
    command = [sys.executable, "-m", "rebench", "collect", str(tmp_path)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "holds no records" in done.stderr
