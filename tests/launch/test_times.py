"""Times of trials: from records of a run, or guessed for a CPU or a GPU."""

import json
import os
import subprocess
import sys

import pytest
import torch
from cluster import Sweep
from made_records import make_record, write_records

from rebench.cli import main
from rebench.errors import InputError
from rebench.launch import forecast
from rebench.launch.expansion import expand_spec
from rebench.launch.forecast import times_for
from rebench.runs import GUESS, measured_cpu, parse_spec

SPEC = """
datasets = ["digits"]
recipes = ["nb201"]
seeds = [1]
epochs = 2
[cells]
indices = [11]
[slurm]
device = "{device}"
"""


def _times(tmp_path, device="cpu", **where):
    spec = parse_spec(SPEC.format(device=device))
    return times_for(spec, expand_spec(spec).trials, run=tmp_path, **where)


def test_nothing_known_is_a_guess_of_the_device(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert _times(tmp_path, "auto") is GUESS
    assert "a CPU with one core" in _times(tmp_path).source
    assert _times(tmp_path).per_gflop_s == 3 / 30
    assert _times(tmp_path, 'cpu"\ncpus_per_task = 4\ncomment = "').per_gflop_s == 3 / 120
    for device in ("cpu", "auto"):
        here = _times(tmp_path, device, here=True)
        assert "smallest trial on this machine, with one core: " in here.source
        # A small network's layer takes no less than tens of microseconds on any CPU.
        assert 1e-5 < here.per_layer_s < 1.0
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert _times(tmp_path, "auto", here=True) is GUESS
    with pytest.raises(InputError, match="none contains no finished trial"):
        _times(tmp_path, past=tmp_path / "none")


def test_time_of_a_step_depends_little_on_other_processes_and_restores_the_threads(tmp_path):
    threads = torch.get_num_threads()
    quiet = _times(tmp_path, 'cpu"\ncpus_per_task = 2\ncomment = "', here=True)
    assert "on this machine, with 2 cores: " in quiet.source
    assert torch.get_num_threads() == threads
    quiet = _times(tmp_path, here=True)
    program = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(program) for _ in range(4 * (os.cpu_count() or 1))]
    try:
        busy = _times(tmp_path, here=True)
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert quiet.within == 2
    # Both ranges contain a common value.
    assert 1 / 4 < busy.per_gflop_s / quiet.per_gflop_s < 4


def test_measured_step_gives_the_time_of_a_trial():
    """50,000 images are trained in batches of 256; 10,000 are evaluated in a third of the time."""
    trial = make_record(trial={"dataset": "cifar10", "epochs": 12}).trial
    assert measured_cpu(trial, 0.5, "").seconds(trial) == pytest.approx(
        0.5 * 12 * (50_000 + 10_000 / 3) / 256
    )


def test_records_tell_of_this_run_or_of_a_past_one(tmp_path, monkeypatch):
    """Every trial took 1.5 s. Diverged trials are left out, because they end early.

    If there are many records, only a sample of them is used.
    """
    records = [make_record(seed=seed) for seed in range(5)]
    diverged = make_record(seed=5, outcome={"status": "diverged", "diverged_epoch": 1})
    write_records(tmp_path, "w", *records, diverged)
    own = _times(tmp_path)
    assert own.source == "5 records of this run"
    assert own.seconds(records[0].trial) == pytest.approx(1.5)
    assert _times(tmp_path / "none", past=tmp_path).source == f"5 records of {tmp_path}"
    monkeypatch.setattr(forecast, "_ENOUGH", 2)
    assert _times(tmp_path).source == "3 records of this run"


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A run of six trials; two of them are done."""
    sweep = Sweep(tmp_path_factory.mktemp("begun"), cells=1, epochs=1)
    one = ["--set", 'recipes=["nb201"]']
    sweep.rebench("submit", "--cluster", "debug", *one)
    return sweep


def test_dry_run_writes_nothing_and_is_what_would_be_sent(begun, capsys):
    before = sorted(begun.run.rglob("*"))
    dry = ["--dry-run", "--accept-change", "--json"]
    assert main(begun.command("submit", *dry, "--cluster", "local")[3:]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["trials"], row["times_from"]) == (4, "2 records of this run")
    assert row["jobs"] == row["arrays"]
    assert "REBENCH_JOB" in row["script"]
    assert sorted(begun.run.rglob("*")) == before
    # The real submission equals the preview.
    sent = begun.submit("--accept-change", "--cluster", "local")
    assert (sent["sent"], sent["jobs"]) == (row["trials"], row["jobs"])
    number = begun.run / "submissions" / "0002"
    assert str(number) in row["script"]
    assert len(list(number.glob("sent.*.json"))) == row["arrays"]
    begun.wait_until_over()
