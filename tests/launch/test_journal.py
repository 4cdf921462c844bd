"""The journal: one submitter at a time; a dead submitter blocks nobody."""

import subprocess
import sys
import time

import pytest
from support import PROJECT

from rebench.errors import ClusterError, StoreError
from rebench.launch.journal import Journal

HOLD = """
import sys, time
from pathlib import Path
from rebench.launch.journal import Journal
one = Journal(Path(sys.argv[1])).begin()
print("mine", flush=True)
time.sleep(float(sys.argv[2]))
one.close()
"""


def _hold(folder, seconds: float):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder), str(seconds)],
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "mine\n"
    return process


def test_second_submitter_waits_and_says_for_whom(tmp_path):
    with _hold(tmp_path, 1.0) as other:
        said = []
        started = time.monotonic()
        mine = Journal(tmp_path).begin(said.append)
        assert time.monotonic() - started > 0.5
    assert mine.number == 2
    assert f"process {other.pid}) is submitting into this run" in said[0]


def test_killed_submitter_blocks_nobody(tmp_path):
    with _hold(tmp_path, 100) as other:
        other.kill()
        other.wait()
        said = []
        assert Journal(tmp_path).begin(said.append).number == 2
        assert said == []
    assert Journal(tmp_path).submissions()[0].is_closed


def test_waiting_has_an_end(tmp_path):
    with _hold(tmp_path, 100) as other:
        with pytest.raises(ClusterError, match="is still submitting into this run after 0 s"):
            Journal(tmp_path).begin(patience_s=0.3)
        other.kill()


def test_interrupted_wait_keeps_nobody_waiting(tmp_path):
    def interrupt(_):
        raise KeyboardInterrupt

    with _hold(tmp_path, 100) as other:
        with pytest.raises(KeyboardInterrupt):
            Journal(tmp_path).begin(interrupt)
        other.kill()
        other.wait()
    # This process lives on, so only the file tells that its first submission is over.
    assert Journal(tmp_path).begin(patience_s=0.3).number == 3


def test_submitter_that_was_taken_for_dead_sends_nothing_more(tmp_path):
    mine = Journal(tmp_path).begin()
    mine.touch()
    mine.close()
    with pytest.raises(ClusterError, match="another submitter closed submission 1"):
        mine.touch()


def test_number_after_9999_comes_after_it(tmp_path):
    for number in ("9998", "9999"):
        (tmp_path / "submissions" / number).mkdir(parents=True)
        (tmp_path / "submissions" / number / "closed").touch()
    journal = Journal(tmp_path)
    for number in (10_000, 10_001):
        mine = journal.begin()
        mine.close()
        assert (mine.number, mine.folder.name) == (number, str(number))
    assert [one.number for one in journal.submissions()] == [9998, 9999, 10_000, 10_001]


def test_folder_that_cannot_be_written_is_one_clear_error(tmp_path):
    (tmp_path / "submissions").write_text("")
    with pytest.raises(StoreError, match="cannot write to"):
        Journal(tmp_path).begin()
