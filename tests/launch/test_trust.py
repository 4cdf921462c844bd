"""Files that would run as the user: refused if others could have written them."""

import json
import os
import pwd

import pytest
from cluster import Sweep

from rebench.cli import main
from rebench.errors import UnsafeFileError
from rebench.launch.files import kept_from_others, open_own

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
    assert os.umask(0o002) == 0o002


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
