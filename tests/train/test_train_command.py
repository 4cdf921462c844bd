"""The command ``rebench train``."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from rebench.cli import main
from rebench.cli.train import _print_record, _stop_on_signal
from rebench.machine import processor
from rebench.runs import Record

SIZE = ["--set", "skeleton.channels=2", "--set", "skeleton.cells_per_stage=1"]
SMALL = ["--dataset", "digits", *SIZE, "--epochs", "1"]


def test_records_are_printed_as_lines_of_json(capsys):
    assert main(["train", "284", *SMALL, "--seed", "1", "--seed", "2", "--json"]) == 0
    printed = capsys.readouterr()
    records = [Record.model_validate_json(line) for line in printed.out.splitlines()]
    assert [record.trial.seed for record in records] == [1, 2]
    assert "epoch 1/1" in printed.err


@pytest.mark.parametrize(("asked", "threads"), [([], 1), (["--set", "slurm.cpus_per_task=2"], 2)])
def test_command_computes_with_one_thread_unless_told_otherwise(asked, threads, capsys):
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        assert main(["train", "284", *SMALL, "--device", "cpu", *asked, "--json"]) == 0
    finally:
        torch.set_num_threads(before)
    record = Record.model_validate_json(capsys.readouterr().out)
    assert record.provenance.device == f"cpu ({processor()}, {threads} threads)"


def test_record_is_shown_as_a_table(capsys):
    wanted = ["train", "284", *SMALL, "--epochs", "3", "--recipe", "fixed(lr=0.05)"]
    assert main([*wanted, "--json"]) == 0
    record = Record.model_validate_json(capsys.readouterr().out)
    assert main(wanted) == 0
    table, end = capsys.readouterr().out.split("done; ")
    title, heading, *rows = table.splitlines()
    assert title == f"{record.trial.describe()}  {record.trial_id}"
    assert heading.split() == ["split", "accuracy", "loss"]
    shown = {split: [float(value) for value in values] for split, *values in map(str.split, rows)}
    assert shown == {
        split: pytest.approx([curve.accuracy[-1], curve.loss[-1]], rel=1e-3)
        for split, curve in record.outcome.curves.items()
    }
    said = r"learning rate 0\.05; \d+ s, \d+ images/s in a stack of 1 on cpu.*"
    assert re.fullmatch(said, " ".join(end.split()))
    diverged = record.outcome.model_copy(update={"diverged_epoch": 2})
    _print_record(record.model_copy(update={"outcome": diverged}))
    assert "\ndiverged in epoch 2; learning rate 0.05;" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["99999"], 2, "index"),
        (["0", "--recipe", "nonsense"], 2, "nb201"),
        (["0", "--set", "stack=some"], 2, "stack"),
        (["0", "--dataset", "cifar"], 2, "cifar10"),
        (["0", *SMALL, "--split", "halved"], 2, "valid"),
        (["0", *SMALL, "--device", "cuda:9"], 1, "GPU"),
        (["0", *SMALL, "--set", "slurm.cuda_graphs=true", "--device", "cpu"], 2, "CUDA graphs"),
        (["0", "--data-root", "/nowhere"], 1, "rebench data fetch cifar10"),
        (["0", "--data-root", "~nobody-of-that-name/x"], 2, "home folder"),
        (["0", *SMALL, "--recipe", "fixed(lr=1e308)"], 2, "to 3.4e+38"),
    ],
)
def test_wrong_usage_is_one_line(capsys, arguments: list[str], code: int, message: str):
    assert main(["train", *arguments]) == code
    complaint = capsys.readouterr().err
    assert message in complaint
    assert complaint.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_first_signal_asks_to_stop_and_the_second_acts_as_usual(number: int):
    class Usual(Exception):  # noqa: N818 - what a signal does
        pass

    def act(*_: object) -> None:
        raise Usual

    before = signal.signal(number, act)
    try:
        with _stop_on_signal() as stop:
            assert not stop()
            signal.raise_signal(number)
            assert stop()
            with pytest.raises(Usual):
                signal.raise_signal(number)
        with _stop_on_signal():
            signal.raise_signal(number)
        assert signal.getsignal(number) is act
    finally:
        signal.signal(number, before)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_interrupted_command_goes_on_where_it_stopped(tmp_path: Path):
    command = [sys.executable, "-m", "rebench", "train", "284", *SMALL, "--json"]
    command[command.index("--epochs") + 1] = "30"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    kept = [*command, "--checkpoint-dir", str(tmp_path)]
    process = subprocess.Popen(kept, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    line = process.stderr.readline()  # the first epoch is over
    assert "epoch 1/30" in line
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "checkpointed" in rest
    outcomes = []
    for arguments in (kept, command):
        done = subprocess.run(
            arguments, capture_output=True, text=True, check=True, env=environment
        )
        outcomes.append(json.loads(done.stdout)["outcome"])
    assert outcomes[0] == outcomes[1]
    assert not list(tmp_path.glob("*/*.ckpt"))


def test_trials_share_as_many_networks_as_are_asked_for(capsys):
    two = ["train", "284", *SMALL, "--seed", "1", "--seed", "2", "--json"]
    for stack in (1, 2):
        assert main([*two, "--set", f"stack={stack}"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [json.loads(line)["cost"]["stack"] for line in lines] == [stack, stack]
