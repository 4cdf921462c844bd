"""Files that decide which code runs: refused if others can write to them."""

import os
import pwd

import pytest
from cluster import Sweep

from rebench.errors import UnsafeFileError
from rebench.runs import parse_spec
from rebench.runs.folder import Run, read_own


@pytest.fixture
def shared(tmp_path):
    """A folder for several users: the group may write new files in it."""
    before = os.umask(0o002)
    yield tmp_path
    os.umask(before)


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o606])
def test_file_that_others_can_write_is_refused(tmp_path, mode):
    path = tmp_path / "a.pkl"
    path.write_bytes(b"x")
    path.chmod(mode)
    with pytest.raises(UnsafeFileError, match="by others"):
        read_own(path)
    path.chmod(0o644)
    assert read_own(path) == b"x"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_file_of_another_user_is_refused_unless_that_is_root(tmp_path, monkeypatch):
    path = tmp_path / "a.pkl"
    path.write_bytes(b"x")
    with monkeypatch.context() as other:
        other.setattr(os, "geteuid", lambda: 1000)
        assert read_own(path) == b"x"
    os.chown(path, pwd.getpwnam("nobody").pw_uid, -1)
    with pytest.raises(UnsafeFileError, match="belongs to another user"):
        read_own(path)


def test_sweep_is_kept_from_others_and_its_list_of_trials_is_shared(shared):
    spec = 'datasets = ["digits"]\nseeds = [1]\nrecipes = ["nb201"]\n[cells]\nindices = [11]'
    Run.create(shared).write_sweep(parse_spec(spec), ())
    modes = [(shared / name).stat().st_mode & 0o777 for name in ("spec.json", "trials.jsonl")]
    assert modes == [0o644, 0o664]


@pytest.mark.slow
def test_run_contains_no_program_and_its_records_are_shared(shared):
    sweep = Sweep(shared, cells=1, epochs=1)
    sweep.submit("--cluster", "local", "--trials-per-job", "6")
    assert sweep.wait_until_over()["done"] == 6
    assert {path.stat().st_mode & 0o777 for path in sweep.run.glob("results/*.jsonl")} == {0o664}
    assert (sweep.run / "spec.json").stat().st_mode & 0o022 == 0
    assert not list(sweep.run.rglob("*.pkl"))
    assert {path.stat().st_mode & 0o777 for path in sweep.run.glob("sub*/*/logs/*")} == {0o664}


def test_sweep_of_another_run_in_the_place_of_the_own_is_not_sent(shared):
    mine, other = (Sweep(shared / name, cells=1, epochs=1) for name in ("mine", "other"))
    for sweep in (mine, other):
        sweep.rebench("submit", "--cluster", "debug")
    stored = mine.run / "spec.json"
    stored.unlink()
    stored.symlink_to(other.run / "spec.json")
    said = mine.rebench("submit RUN", code=1).stderr
    assert f"{stored} is a symbolic link. Its jobs would run with your rights" in said
    assert said.count("\n") == 1
    mine.rebench("submit", "--cluster", "debug")
    assert not stored.is_symlink()


@pytest.mark.parametrize("options", [[], ["--set", "slurm.setup=['true']"]])
def test_sweep_that_others_could_have_written_is_sent_by_nobody(shared, options):
    """Every sweep file is refused that others can write, also one without shell commands."""
    sweep = Sweep(shared, cells=1, epochs=1)
    sweep.rebench("submit", "--cluster", "debug", *options)
    stored = sweep.run / "spec.json"
    stored.chmod(0o664)
    said = sweep.rebench("submit RUN", code=1).stderr
    assert f"{stored} can be written by others" in said
    assert "writes it again; or accept it with --trust-folder" in said
    assert said.count("\n") == 1
    sweep.rebench("submit RUN", "--trust-folder")
    sweep.rebench("submit", "--cluster", "debug")
    sweep.rebench("submit RUN")
