"""Files that would run as the user: refused if others could have written them."""

import json
import os
import pwd
import signal

import pytest
from cluster import Sweep, signal_all

from rebench.cli import main
from rebench.errors import UnsafeFileError
from rebench.launch.processes import tree_of
from rebench.launch.trust import current_umask, kept_from_others, open_own

SETUP = ["--set", "slurm.setup=['true']"]


@pytest.fixture
def shared(tmp_path):
    """A folder whose new files its group may write, as one for several users is."""
    before = os.umask(0o002)
    yield tmp_path
    os.umask(before)


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o606])
def test_file_that_others_can_write_is_refused_and_not_opened(tmp_path, mode):
    path = tmp_path / "a.pkl"
    path.write_bytes(b"x")
    path.chmod(mode)
    refused = pytest.raises(UnsafeFileError, match="by others, and its setup would run as you")
    with refused, open_own(path, "its setup"):
        pytest.fail("it was opened")
    path.chmod(0o644)
    with open_own(path, "its setup") as file:
        assert file.read() == b"x"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_file_of_another_user_is_refused_by_name(tmp_path):
    path = tmp_path / "a.pkl"
    path.write_bytes(b"x")
    os.chown(path, pwd.getpwnam("nobody").pw_uid, -1)
    with pytest.raises(UnsafeFileError, match="belongs to nobody"), open_own(path, "it"):
        pytest.fail("it was opened")


def test_files_are_kept_from_others_and_the_umask_comes_back(shared):
    with kept_from_others():
        (shared / "own").touch()
    (shared / "open").touch()
    modes = [(shared / name).stat().st_mode & 0o777 for name in ("own", "open")]
    assert modes == [0o644, 0o664]
    assert current_umask() == 0o002


@pytest.mark.slow
def test_job_refuses_a_pickle_that_others_can_write_unless_the_folder_is_trusted(shared):
    sweep = Sweep(shared, cells=1, epochs=1)
    # The pickle is laid open before the worker that is to load it starts.
    opens = "chmod g+w submissions/*/submitit/*.pkl"
    late = ["--set", f"slurm.setup=['cd {sweep.run}', 'sleep 2', '{opens}']"]
    local = ["--cluster", "local", *late]
    sweep.submit(*local)
    assert sweep.wait_until_over()["lost"] == 6
    log = "".join(path.read_text() for path in sweep.run.glob("submissions/0001/submitit/*.err"))
    assert "can be written by others, and what it holds would run as you: refused" in log
    assert "_submitted.pkl" in log
    sweep.submit(*local, "--trust-folder")
    assert sweep.wait_until_over()["done"] == 6


@pytest.mark.slow
def test_what_jobs_begin_from_is_the_users_own_after_a_requeue_too_and_records_are_shared(shared):
    sweep = Sweep(shared, cells=1, epochs=12)
    sweep.submit("--cluster", "local", "--trials-per-job", "6")
    sweep.wait_for_records(1)
    sent = json.loads((sweep.run / "submissions/0001/sent.0.json").read_text())
    signal_all(tree_of(sent["process"]["pid"])[:-1], signal.SIGUSR2)
    assert sweep.wait_until_over()["done"] == 6
    shards = list(sweep.run.glob("results/*.jsonl"))
    assert len(shards) == 2, "it was requeued"
    assert {path.stat().st_mode & 0o777 for path in shards} == {0o664}
    (pickle,) = sweep.run.glob("submissions/0001/submitit/*_submitted.pkl")
    for path in (sweep.run / "spec.json", pickle):
        assert path.stat().st_mode & 0o022 == 0, path


def test_retry_refuses_a_setup_that_others_could_have_written(shared, capsys):
    sweep = Sweep(shared, cells=1, epochs=1)
    assert main(sweep.command("submit", "--cluster", "debug", *SETUP)[3:]) == 0
    stored = sweep.run / "spec.json"
    stored.chmod(0o664)
    capsys.readouterr()
    assert main(sweep.command("retry")[3:]) == 1
    said = capsys.readouterr().err
    assert f"{stored} can be written by others, and its setup would run as you: refused" in said
    assert said.count("\n") == 1
    assert main(sweep.command("retry", "--trust-folder")[3:]) == 0
    # Without an option that runs something it is data.
    stored.write_text(json.dumps(json.loads(stored.read_text()) | {"slurm": {"device": "cpu"}}))
    stored.chmod(0o664)
    assert main(sweep.command("retry")[3:]) == 0
