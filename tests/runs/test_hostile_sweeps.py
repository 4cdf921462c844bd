"""Sweeps with extreme values: each is refused with one line."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support import PROJECT

from rebench.cli import main
from rebench.errors import InputError
from rebench.launch.expansion import expand_spec
from rebench.runs import parse_setting, parse_spec
from rebench.runs.record import slurm_number

SPEC = 'datasets = ["digits"]\nseeds = [1]\nrecipes = ["nb201"]\n[cells]\nindices = [11]\n'
DIGITS, MORE_DIGITS = "1" * 400, "1" * 5000
DEEP = "[" * 100_000 + "]" * 100_000


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text(SPEC)
    return path


def _refused(capsys, *arguments) -> str:
    assert main(list(map(str, arguments))) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert len(said) < 1000
    return said


@pytest.mark.parametrize(
    "key",
    [
        *("epochs", "slurm.time_min", "slurm.mem_gb", "slurm.cpus_per_task", "slurm.max_requeues"),
        *("slurm.gpus_per_task", "slurm.signal_delay_s", "slurm.array_parallelism"),
        *("slurm.checkpoint_min", "slurm.types.a.speed", "slurm.types.a.share"),
        *("protocol.warmup_epochs", "protocol.weight_decay", "cells.random.n"),
    ],
)
def test_number_of_400_digits_is_refused(spec, capsys, key):
    said = _refused(capsys, "sweep", "plan", spec, "--set", f"{key}={DIGITS}")
    assert key.rpartition(".")[2] in said


@pytest.mark.parametrize(
    "setting",
    [
        f"slurm.mem_per_cpu={DIGITS}G",
        f"slurm.time={DIGITS}-00:00",
        f"seeds=[{DIGITS}]",
        f"cells.indices=[{DIGITS}]",
        "slurm.types.a.speed=1e-320",
        "slurm.mem_gb=1e308",
    ],
    ids=lambda setting: setting[:24],
)
def test_number_in_a_text_or_beyond_sense_is_refused(spec, capsys, setting):
    _refused(capsys, "sweep", "plan", spec, "--set", setting)


def test_largest_numbers_that_make_sense_are_planned(spec, capsys):
    keys = ("time_min", "array_parallelism", "cpus_per_task", "max_requeues")
    settings = [word for key in keys for word in ("--set", f"slurm.{key}={2**31 - 1}")]
    assert main(["sweep", "plan", str(spec), *settings]) == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"seeds = {DEEP}\n", "nested too deeply"),
        (f"epochs = {MORE_DIGITS}\n", "is not TOML: Exceeds the limit"),
        ("a = \0", "is not TOML"),
    ],
    ids=["deep", "digits", "NUL"],
)
def test_file_that_no_reader_can_hold_is_one_line(spec, capsys, text, message):
    spec.write_text(text)
    assert message in _refused(capsys, "sweep", "plan", spec)
    # A file of settings is refused in the same way.
    other = spec.with_name("other.toml")
    other.write_text(SPEC)
    assert message in _refused(capsys, "sweep", "plan", other, "--set", spec)


def test_setting_that_no_reader_can_hold_is_one_line():
    with pytest.raises(InputError, match="seeds has arrays that are nested too deeply"):
        parse_setting(f"seeds={DEEP}")
    with pytest.raises(InputError, match="epochs is not TOML"):
        parse_setting(f"epochs={MORE_DIGITS}")
    assert parse_setting("slurm.partition=gpu") == ("slurm.partition", "gpu")


def test_value_that_is_wrong_is_shortened_in_its_message(capsys, spec):
    value = "[" * 50 + "1" + "]" * 50
    assert len(_refused(capsys, "sweep", "plan", spec, "--set", f"datasets={value}")) < 300
    assert len(_refused(capsys, "sweep", "plan", spec, "--set", f"epochs={'x' * 10_000}")) < 400


@pytest.mark.parametrize("strata", [15626, 999_999_999_999])
def test_more_strata_than_cells_are_refused(spec, capsys, strata):
    choice = f"cells.stratified={{n = 10, strata = {strata}, by = 'multiplier'}}"
    said = _refused(capsys, "sweep", "plan", spec, "--set", choice)
    assert "cells.stratified.strata: must be at most 15625" in said


def test_device_without_end_is_one_line(capsys):
    said = _refused(capsys, "sweep", "plan", "/dev/zero")
    assert said == ("rebench: cannot read the sweep /dev/zero: it has more than 67108864 bytes\n")


def test_sweep_comes_through_a_pipe_as_well(tmp_path, capsys):
    """A shell makes such a pipe for ``rebench sweep plan <(sed ...)``."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(SPEC,))
    writer.start()
    assert main(["sweep", "plan", str(pipe)]) == 0
    writer.join()


def test_sweep_of_more_trials_than_can_be_listed_is_refused_before_it_is():
    text = SPEC.replace("indices = [11]", "all = true")
    seeds = f"seeds = {list(range(102_400))}"
    spec = parse_spec(text.replace("seeds = [1]", seeds))
    message = r"1,600,000,000 trials \(15,625 cells, 1 datasets, 1 recipes, 102,400 seeds\)"
    with pytest.raises(InputError, match=message):
        expand_spec(spec)


@pytest.mark.parametrize(
    "text",
    [
        SPEC.replace("[cells]\nindices = [11]", '[cells.top]\nn = 1\ntable = "~nouser/x"'),
        f'{SPEC}[start]\nrun = "~nouser/x"\nepochs = 1\n',
    ],
)
def test_home_of_nobody_in_a_sweep_is_one_line(spec, capsys, text):
    spec.write_text(text)
    assert "no home folder of ~nouser" in _refused(capsys, "sweep", "plan", spec)


def test_home_in_the_folder_of_data_is_that_of_who_submits(spec, capsys, monkeypatch):
    monkeypatch.setenv("REBENCH_DATA", "~/x")
    assert main(["submit", str(spec), "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["data_root"] == str(Path.home() / "x")
    monkeypatch.setenv("REBENCH_DATA", "~nouser/x")
    for command in (("submit", spec, "--dry-run"), ("data", "list")):
        assert "no home folder of ~nouser" in _refused(capsys, *command)


@pytest.mark.parametrize(
    ("text", "number"), [("2", 2), ("", 7), ("two", 7), ("-1", 7), ("²", 7), ("1.5", 7)]
)
def test_number_of_slurm_s_is_whole_or_not_there(monkeypatch, text, number):
    monkeypatch.setenv("SLURM_RESTART_COUNT", text)
    assert slurm_number("SLURM_RESTART_COUNT", 7) == number


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_stop_no_command(tmp_path, closed):
    (tmp_path / "sweep.toml").write_text(SPEC)
    command = f"{sys.executable} -m rebench sweep plan {tmp_path}/sweep.toml {closed}"
    done = subprocess.run(
        ["/bin/sh", "-c", command], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
