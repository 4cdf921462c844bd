"""Sweeps with extreme values: each is refused with one line."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from made_records import SWEEP
from support import PROJECT, json_of, refusal_of

from rebench.cli import main
from rebench.errors import InputError
from rebench.launch.expansion import expand_spec
from rebench.runs import parse_setting, parse_spec
from rebench.runs.record import slurm_number

DIGITS, MORE_DIGITS = "1" * 400, "1" * 5000
DEEP = "[" * 100_000 + "]" * 100_000


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text(SWEEP)
    return path


# Keys of numbers.
NUMBERS = (
    *("epochs", "slurm.time_min", "slurm.mem_gb", "slurm.cpus_per_task", "slurm.max_requeues"),
    *("slurm.gpus_per_task", "slurm.signal_delay_s", "slurm.array_parallelism"),
    *("slurm.checkpoint_min",),
    *("protocol.warmup_epochs", "protocol.weight_decay", "cells.random.n"),
)


@pytest.mark.parametrize(
    "setting",
    [
        *(f"{key}={DIGITS}" for key in NUMBERS),
        f"slurm.mem_per_cpu={DIGITS}G",
        f"slurm.time={DIGITS}-00:00",
        f"seeds=[{DIGITS}]",
        f"cells.indices=[{DIGITS}]",
        "slurm.mem_gb=1e308",
    ],
    ids=lambda setting: setting[:24],
)
def test_number_of_400_digits_or_beyond_sense_is_refused(spec, setting):
    said = refusal_of("sweep", "plan", spec, "--set", setting)
    assert len(said) < 1000
    assert setting.partition("=")[0].rpartition(".")[2] in said


def test_largest_numbers_that_make_sense_are_planned(spec):
    keys = ("time_min", "array_parallelism", "cpus_per_task", "max_requeues")
    settings = [word for key in keys for word in ("--set", f"slurm.{key}={2**31 - 1}")]
    assert main(["sweep", "plan", str(spec), *settings]) == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"seeds = {DEEP}\n", "nested too deeply"),
        (f"epochs = {MORE_DIGITS}\n", "is not TOML: Exceeds the limit"),
        ("a = \0", "is not TOML"),
        ("seeds = [1]  # \udce9\n", "is not text in UTF-8"),
    ],
    ids=["deep", "digits", "NUL", "encoding"],
)
def test_file_that_no_reader_can_hold_is_one_line(spec, text, message):
    spec.write_text(text, errors="surrogateescape")
    assert message in refusal_of("sweep", "plan", spec)
    # A file of settings is refused in the same way.
    other = spec.with_name("other.toml")
    other.write_text(SWEEP)
    assert message in refusal_of("sweep", "plan", other, "--set", spec)


def test_setting_that_no_reader_can_hold_is_one_line():
    with pytest.raises(InputError, match="seeds has arrays that are nested too deeply"):
        parse_setting(f"seeds={DEEP}")
    with pytest.raises(InputError, match="epochs is not TOML"):
        parse_setting(f"epochs={MORE_DIGITS}")
    assert parse_setting("slurm.partition=gpu") == ("slurm.partition", "gpu")


def test_value_that_is_wrong_is_shortened_in_its_message(spec):
    value = "[" * 50 + "1" + "]" * 50
    assert len(refusal_of("sweep", "plan", spec, "--set", f"datasets={value}")) < 300
    assert len(refusal_of("sweep", "plan", spec, "--set", f"epochs={'x' * 10_000}")) < 400


def test_device_without_end_is_one_line():
    said = refusal_of("sweep", "plan", "/dev/zero")
    assert said == (
        "rebench: cannot read the sweep /dev/zero: it has more than 67108864 bytes; "
        "give the TOML file of a sweep (`rebench sweep new` writes an example)\n"
    )


def test_sweep_comes_through_a_pipe_as_well(tmp_path):
    """A shell makes such a pipe for ``rebench sweep plan <(sed ...)``."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(SWEEP,))
    writer.start()
    assert main(["sweep", "plan", str(pipe)]) == 0
    writer.join()


def test_sweep_of_more_trials_than_can_be_listed_is_refused_before_it_is():
    text = SWEEP.replace("indices = [11]", "all = true")
    seeds = f"seeds = {list(range(102_400))}"
    spec = parse_spec(text.replace("seeds = [1]", seeds))
    message = r"1,600,000,000 trials \(15,625 cells, 1 datasets, 1 recipes, 102,400 seeds\)"
    with pytest.raises(InputError, match=message):
        expand_spec(spec)


@pytest.mark.parametrize(
    "text",
    [
        SWEEP.replace("[cells]\nindices = [11]", '[cells.top]\nn = 1\ntable = "~nouser/x"'),
        f'{SWEEP}[start]\nrun = "~nouser/x"\nepochs = 1\n',
    ],
)
def test_home_of_nobody_in_a_sweep_is_one_line(spec, text):
    spec.write_text(text)
    assert "no home folder of ~nouser" in refusal_of("sweep", "plan", spec)


def test_home_in_the_folder_of_data_is_that_of_who_submits(spec, monkeypatch):
    monkeypatch.setenv("REBENCH_DATA", "~/x")
    assert json_of("submit", str(spec), "--dry-run")[0]["data_root"] == str(Path.home() / "x")
    monkeypatch.setenv("REBENCH_DATA", "~nouser/x")
    for command in (("submit", spec, "--dry-run"), ("data", "list")):
        assert "no home folder of ~nouser" in refusal_of(*command)


@pytest.mark.parametrize(
    ("text", "number"), [("2", 2), ("", 7), ("two", 7), ("-1", 7), ("²", 7), ("1.5", 7)]
)
def test_number_of_slurm_s_is_whole_or_not_there(monkeypatch, text, number):
    monkeypatch.setenv("SLURM_RESTART_COUNT", text)
    assert slurm_number("SLURM_RESTART_COUNT", 7) == number


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_stop_no_command(tmp_path, closed):
    (tmp_path / "sweep.toml").write_text(SWEEP)
    command = f"{sys.executable} -m rebench sweep plan {tmp_path}/sweep.toml {closed}"
    done = subprocess.run(
        ["/bin/sh", "-c", command], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
