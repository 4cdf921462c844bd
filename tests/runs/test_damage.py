"""Damaged shards and unexpected files: a trial is done only with an intact record."""

import os
import random
import shutil
from pathlib import Path

import pandas as pd
import pytest
from made_records import make_record, make_run

from rebench.cli import main
from rebench.launch.status import status
from rebench.runs import FinishedTrials
from rebench.tables.collected import current
from rebench.tables.collecting import collect

DAMAGES, COLLECTED = 500, 9
TRIALS = 8
SHARD = "0001-7_0.0.jsonl"
MARK = b"\xef\xbb\xbf"
RECORDS = [make_record(seed=seed, accuracy=50.0 + seed) for seed in range(TRIALS)]
LINES = [record.to_line().encode() for record in RECORDS]


def _flip(data: bytes, draw: random.Random) -> bytes:
    at, bit = draw.randrange(len(data)), 1 << draw.randrange(8)
    return data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]


def _zero(data: bytes, draw: random.Random) -> bytes:
    start, size = draw.randrange(len(data)), draw.randrange(1, 3000)
    return data[:start] + b"\0" * len(data[start : start + size]) + data[start + size :]


def _cut(data: bytes, draw: random.Random) -> bytes:
    start = draw.randrange(len(data))
    return data[:start] + data[start + draw.randrange(1, 3000) :]


def _join(data: bytes, draw: random.Random) -> bytes:
    *ends, _ = (at for at, byte in enumerate(data) if byte == ord("\n"))
    at = draw.choice(ends)
    return data[:at] + data[at + 1 :]


def _duplicate(data: bytes, draw: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    lines.insert(draw.randrange(len(lines)), draw.choice(lines))
    return b"".join(lines)


def _insert(data: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(data))
    return data[:at] + draw.choice([b"\n", b"7", b"{}\n", draw.randbytes(20)]) + data[at:]


def _crlf(data: bytes, _draw: random.Random) -> bytes:
    return data.replace(b"\n", b"\r\n")


def _bom(data: bytes, _draw: random.Random) -> bytes:
    return MARK + data


ALL = (_flip, _zero, _cut, _join, _duplicate, _insert, _crlf, _bom)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of eight trials that are done, in one shard."""
    run = make_run(tmp_path / "run", RECORDS)
    (run.folder / "results").mkdir()
    (run.folder / "results" / SHARD).write_bytes(b"".join(line + b"\n" for line in LINES))
    return run.folder


def _done(run: Path) -> set[str]:
    """Return the trials that are not pending."""
    found = status(run)
    assert found.warnings == tuple(FinishedTrials(run).refresh().problems)
    return {trial_id for trial_id, one in found.trials.items() if one.state != "pending"}


def _checked(run: Path) -> set[str]:
    """Check that all readers of the run agree; return the finished trials."""
    finished, done = FinishedTrials(run).refresh(), _done(run)
    made = collect(run)
    table = pd.read_parquet(made.results)
    assert done == set(finished.trials) == set(table["trial_id"])
    assert (made.trials, made.asked, made.missing) == (len(done), TRIALS, TRIALS - len(done))
    assert made.damaged == tuple(finished.damaged)
    assert made.problems == tuple(finished.problems)
    return done


def test_random_damage_is_pending_and_named_and_what_is_intact_is_done(run):
    """A shard is damaged 500 times, in one or two ways. Lines with the old bytes are intact."""
    draw = random.Random(0)
    names = dict(zip(LINES, (record.trial_id for record in RECORDS), strict=True))
    whole = (run / "results" / SHARD).read_bytes()
    accuracies = {record.trial_id: 50.0 + seed for seed, record in enumerate(RECORDS)}
    for number in range(DAMAGES):
        damages = [ALL[number % len(ALL)], *draw.sample(ALL, number % 2)]
        data = whole
        for damage in damages:
            data = damage(data, draw)
        (run / "results" / SHARD).write_bytes(data)
        *lines, rest = data.split(b"\n")
        texts = [line.removeprefix(MARK).strip() for line in lines]
        told = f"damage {number}: {[damage.__name__ for damage in damages]}"
        intact = {names[text] for text in texts if text in names}
        assert _done(run) == intact, told
        finished = FinishedTrials(run).refresh()
        assert finished.damaged == [
            f"results/{SHARD}:{at}" for at, text in enumerate(texts, 1) if text not in names
        ], told
        assert any("unfinished line" in line for line in finished.problems) == bool(rest), told
        if number % COLLECTED == 0:
            assert _checked(run) == intact, told
            table = pd.read_parquet(run / "results.parquet")
            assert all(table["accuracy"] == table["trial_id"].map(accuracies)), told


def test_a_line_without_a_checksum_is_damaged(run):
    record = RECORDS[0].model_dump_json(by_alias=True)
    (run / "results" / SHARD).write_text(f"{record}\n")
    assert _done(run) == set()
    assert FinishedTrials(run).refresh().damaged == [f"results/{SHARD}:1"]


def test_command_says_how_many_trials_have_a_record(run, capsys):
    shard = run / "results" / SHARD
    assert main(["collect", str(run)]) == 0
    assert "trials have a record" not in capsys.readouterr().err
    shard.write_bytes(shard.read_bytes()[:200] + b"\0" * 200 + shard.read_bytes()[400:])
    assert main(["collect", str(run)]) == 1
    said = capsys.readouterr().err
    assert f"results/{SHARD}:1 is damaged" in said
    assert "7 of 8 trials have a record; `rebench submit` trains the others" in said
    assert main(["collect", str(run), "--partial"]) == 0
    assert "7 of 8 trials have a record" in capsys.readouterr().err


def test_odd_entries_are_named_and_the_rest_is_read(run):
    results = run / "results"
    (results / "a.jsonl").symlink_to(run / "nowhere")
    (results / "b.jsonl").mkdir()
    os.mkfifo(results / "c.jsonl")
    assert len(_checked(run)) == TRIALS
    problems = FinishedTrials(run).refresh().problems
    assert [line.partition(" ")[0] for line in problems] == [
        f"results/{name}.jsonl" for name in "abc"
    ]
    assert all("move it away" in line for line in problems)


def test_odd_entry_beside_shards_that_have_been_collected_is_named(run):
    """Collected tables are current only while no file is added."""
    assert collect(run).problems == ()
    assert current(run) is not None
    (run / "results" / "a.jsonl").mkdir()
    assert current(run) is None
    (problem,) = collect(run).problems
    assert problem.startswith("results/a.jsonl is not a file")
    assert problem in status(run).warnings


def test_file_in_the_place_of_the_shards_is_named(run, capsys):
    shutil.rmtree(run / "results")
    (run / "results").write_text("")
    assert main(["status", str(run)]) == 0
    assert "results cannot be read (Not a directory)" in capsys.readouterr().err
    assert main(["collect", str(run)]) == 2
    assert f"the folder {run / 'results'} is missing" in capsys.readouterr().err


def test_list_of_trials_that_is_gone_is_named(run, capsys):
    (run / "trials.jsonl").unlink()
    (run / "spec.json").write_text("{}")
    for command in ("status", "collect"):
        assert main([command, str(run)]) == 0
        assert "trials.jsonl is missing: `rebench submit`" in capsys.readouterr().err
