"""Files that would run as the user: refused if others could have written them."""

import json
import os
import pwd

import pytest
from cluster import Sweep

from rebench.cli import main
from rebench.errors import UnsafeFileError
from rebench.runs import parse_spec
from rebench.runs.folder import Run, read_own

SETUP = ["--set", "slurm.setup=['true']"]


@pytest.fixture
def shared(tmp_path):
    """A folder whose new files its group may write, as one for several users is."""
    before = os.umask(0o002)
    yield tmp_path
    os.umask(before)


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o606])
def test_file_that_others_can_write_is_refused(tmp_path, mode):
    path = tmp_path / "a.pkl"
    path.write_bytes(b"x")
    path.chmod(mode)
    with pytest.raises(UnsafeFileError, match="by others, and its setup would run as you"):
        read_own(path, "its setup")
    path.chmod(0o644)
    assert read_own(path, "its setup") == b"x"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_file_of_another_user_is_refused(tmp_path):
    path = tmp_path / "a.pkl"
    path.write_bytes(b"x")
    os.chown(path, pwd.getpwnam("nobody").pw_uid, -1)
    with pytest.raises(UnsafeFileError, match="belongs to another user"):
        read_own(path, "it")


def test_sweep_is_kept_from_others_and_its_list_of_trials_is_shared(shared):
    spec = 'datasets = ["digits"]\nseeds = [1]\nrecipes = ["nb201"]\n[cells]\nindices = [11]'
    Run.create(shared).write_sweep(parse_spec(spec), ())
    modes = [(shared / name).stat().st_mode & 0o777 for name in ("spec.json", "trials.jsonl")]
    assert modes == [0o644, 0o664]


@pytest.mark.slow
def test_no_program_lies_in_the_folder_and_records_are_shared(shared):
    sweep = Sweep(shared, cells=1, epochs=1)
    sweep.submit("--cluster", "local", "--trials-per-job", "6")
    assert sweep.wait_until_over()["done"] == 6
    assert {path.stat().st_mode & 0o777 for path in sweep.run.glob("results/*.jsonl")} == {0o664}
    assert (sweep.run / "spec.json").stat().st_mode & 0o022 == 0
    assert not list(sweep.run.rglob("*.pkl"))


def test_retry_refuses_a_setup_that_others_could_have_written(shared, capsys):
    sweep = Sweep(shared, cells=1, epochs=1)
    assert main(sweep.command("submit", "--cluster", "debug", *SETUP)[3:]) == 0
    stored = sweep.run / "spec.json"
    stored.chmod(0o664)
    capsys.readouterr()
    assert main(sweep.command("submit RUN")[3:]) == 1
    said = capsys.readouterr().err
    assert f"{stored} can be written by others, and its setup would run as you: refused" in said
    assert said.count("\n") == 1
    assert main(sweep.command("submit RUN", "--trust-folder")[3:]) == 0
    # Without an option that runs something it is data.
    stored.write_text(json.dumps(json.loads(stored.read_text()) | {"slurm": {"device": "cpu"}}))
    stored.chmod(0o664)
    assert main(sweep.command("submit RUN")[3:]) == 0
