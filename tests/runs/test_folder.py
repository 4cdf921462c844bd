"""Folders of runs: identity, copies, and damaged files."""

import json
import os
import shutil
from pathlib import Path

from rebench.runs import Run
from rebench.runs.folder import Identity, listed_trials, read_kept, write_once

FAILURE = {
    "trial_id": "0123456789abcdef",
    "submission": 1,
    "kind": "MissingDataError",
    "message": "no data",
    "job": "7_0",
    "worker": "0001-7_0",
    "node": "n1",
    "log": "",
    "time": "2026-01-01T00:00:00",
}


def _failed(folder: Path, *lines: str) -> Run:
    run = Run.create(folder)
    (folder / "failures").mkdir()
    (folder / "failures" / "w.0.jsonl").write_text("\n".join(lines))
    return run


def test_failure_is_read_and_a_torn_line_is_told(tmp_path):
    run, told = _failed(tmp_path, json.dumps(FAILURE), "{"), []
    (failure,) = run.failures(told.append).values()
    assert (failure.trial_id, failure.kind) == ("0123456789abcdef", "MissingDataError")
    assert failure.job == "7_0"
    assert told == ["failures/w.0.jsonl ends with an unfinished line, which is ignored"]


def test_files_that_killed_processes_left_behind_are_removed_and_no_others(tmp_path):
    run = Run.create(tmp_path)
    settled, open_ = "a" * 16, "b" * 16
    unfinished = f".{settled}.2.0123456789ab"
    for trial in (settled, open_):
        (tmp_path / f"checkpoints/{trial}").mkdir(parents=True)
        (tmp_path / f"checkpoints/{trial}/000001-000000.ckpt").touch()
        (tmp_path / f"checkpoints/{trial}/.000002-000000.ckpt.77.3fa2").touch()
    (tmp_path / "claims").mkdir()
    for name in (f"{settled}.1", f"{settled}.12", f"{open_}.1", unfinished, f".{open_}"):
        (tmp_path / "claims" / name).touch()
    for name in (".results.parquet.77.3fa2", ".curves.parquet.78.3fa2", ".nfs0000.7", ".git"):
        (tmp_path / name).touch()
    for path in tmp_path.rglob(".*"):
        if not path.name.startswith(".curves"):
            os.utime(path, (0, 0))
    run.remove_leftovers({settled})
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")} == {
        *("run.json", "claims", "checkpoints", ".curves.parquet.78.3fa2", ".nfs0000.7", ".git"),
        *(f"claims/{open_}.1", f"claims/.{open_}"),
        *(f"checkpoints/{open_}", f"checkpoints/{open_}/000001-000000.ckpt"),
    }


def test_failures_after_damaged_lines_count_and_the_last_submission_has_the_last_word(tmp_path):
    order = [(2, "01"), (1, "09"), (2, "05"), (2, "03"), (2, "05")]
    lines = [
        json.dumps(FAILURE | {"submission": number, "time": time, "kind": f"{at}"})
        for at, (number, time) in enumerate(order)
    ]
    lines[1:1] = ["{", "[3]"]
    other = json.dumps(FAILURE | {"trial_id": "f" * 16})
    run, told = _failed(tmp_path, *lines, other, ""), []
    found = run.failures(told.append)
    assert {key: one.kind for key, one in found.items()} == {
        "0123456789abcdef": "4",
        "f" * 16: "MissingDataError",
    }
    assert told == [f"failures/w.0.jsonl:{at} is damaged: ignored" for at in (2, 3)]


def test_of_two_who_make_a_file_one_does_and_whoever_made_it_may_ask_again(tmp_path):
    path, mine = tmp_path / "x", Identity(name="mine")
    assert write_once(path, mine)
    assert not write_once(path, Identity(name="theirs"))
    # The second call of the same process succeeds, too: a network file system can make the file,
    # but lose its answer.
    assert write_once(path, mine)
    assert read_kept(Identity, path) == mine
    assert [one.name for one in tmp_path.iterdir()] == ["x"]


def test_a_run_under_another_path_is_itself_and_its_copy_is_not(tmp_path):
    """A hard link simulates a folder that is mounted twice: one file under two paths."""
    there, again, copy = (tmp_path / name for name in ("there", "again", "copy"))
    Run.create(there)
    again.mkdir()
    os.link(there / "run.json", again / "run.json")
    shutil.copytree(there, copy)
    assert [Run.open(folder).original for folder in (there, again, copy)] == [None, None, there]
    other = Run.open(Path(shutil.copytree(there, tmp_path / "settled"))).settled()
    assert (other.original, other.name == Run.open(there).name) == (None, False)
    shutil.rmtree(there)
    assert Run.open(copy).original is None
    Run.create(there)
    assert Run.open(copy).original is None, "another run is there now"


def test_a_moved_run_keeps_its_name_and_learns_its_path(tmp_path):
    run, moved, link = Run.create(tmp_path / "a").settled(), tmp_path / "moved", tmp_path / "link"
    run.folder.rename(moved)
    link.symlink_to(moved)
    assert Run.open(link).original is None
    assert (Run.open(moved).settled().name, Run.open(moved).original) == (run.name, None)
    assert json.loads((moved / "run.json").read_text())["path"] == str(moved)


def test_run_whose_name_a_user_has_written_again_opens(tmp_path):
    (tmp_path / "run.json").write_text('{"name": "0123abcd"}')
    assert Run.open(str(tmp_path)).original is None
    assert Run.open(tmp_path).settled().original is None
    shutil.copytree(tmp_path, tmp_path / "copy")
    assert Run.open(tmp_path / "copy").original == tmp_path


def test_line_of_more_than_a_megabyte_is_damaged(tmp_path):
    def line(size: int) -> str:
        head, tail = '{"trial_id":"0123456789abcdef","trial":{"a":"', '"}}'
        return head + "x" * (size - len(head) - len(tail)) + tail + "\n"

    longest = 2**20  # without its end
    (tmp_path / "trials.jsonl").write_text(line(longest) + line(longest + 1) + line(100))
    told: list[str] = []
    assert [len(text) > 100 for _, text in listed_trials(tmp_path, told.append)] == [True, False]
    assert len(told) == 1
