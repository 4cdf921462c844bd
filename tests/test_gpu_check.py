"""The check of a GPU, run completely on the CPU at small size: it resumes, and it can fail."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from support import PROJECT, python

from rebench.cli import main
from rebench.nets.channelwise import _AverageOfNeighbours
from rebench.runs import Skeleton, SlurmOptions
from rebench.runs.spec import parse_spec, read_settings
from rebench.train.optimizer import StackedSGD

SCRIPT = PROJECT / "scripts" / "gpu_check"
CPU = torch.device("cpu")


@pytest.fixture
def check(monkeypatch):
    """The script as a module."""
    loader = importlib.machinery.SourceFileLoader("gpu_check", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
    monkeypatch.setitem(sys.modules, "gpu_check", module)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader.exec_module(module)
    return module


@pytest.fixture
def small(check):
    tiny = Skeleton(channels=2, cells_per_stage=1)
    sizes = {"batch_size": 8, "n_images": 16, "dataset": "digits", "eval_batch_size": 12}
    return check.Setup(skeleton=tiny).but(epochs=3, rate=check.COMPARED_RATE, **sizes)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_check_goes_on_where_it_stopped(tmp_path: Path):
    out = tmp_path / "found"

    def run(minutes: float) -> subprocess.CompletedProcess[str]:
        options = ["--device", "cpu", "--small", "--out", out, "--minutes", minutes]
        return python(SCRIPT, *options, folder=tmp_path)

    short = run(0)
    assert short.returncode == 0, short.stderr
    assert "no time for speed-11" in short.stdout
    assert short.stdout.endswith("passed so far; parts are missing, as said above\n")
    first = (out / "cpu.json").stat().st_mtime_ns
    whole = run(9)
    assert whole.returncode == 0, whole.stderr
    assert (out / "cpu.json").stat().st_mtime_ns == first
    assert whole.stdout.endswith("passed\n")
    speeds = json.loads((out / "speed-11.json").read_text())["rows"]
    assert {row["way"] for row in speeds} >= {"default", "bf16", "stack 2"}
    assert all(row["images_per_s"] > 0 for row in speeds)
    sharing = json.loads((out / "sharing.json").read_text())["rows"]
    assert [row["processes"] for row in sharing if row["images_per_s"] > 0] == [1, 2]
    assert "[slurm]" in (out / "tuned.toml").read_text()


def test_folder_of_another_machine_is_refused(tmp_path: Path, check, capsys):
    (tmp_path / "about.json").write_text('{"device": "another"}')
    assert check.main(["--device", "cpu", "--small", "--out", str(tmp_path)]) == 2
    assert "give another folder" in capsys.readouterr().err


@pytest.mark.slow
def test_wrong_gradients_are_seen(check, small, monkeypatch: pytest.MonkeyPatch):
    device, real, right = torch.device("cpu", 0), check.run_of, _AverageOfNeighbours.backward

    def wrong(setup, on):
        moved = staticmethod(lambda ctx, gradient: right(ctx, gradient).roll(1, 3))
        with monkeypatch.context() as patch:
            if on == device:
                patch.setattr(_AverageOfNeighbours, "backward", moved)
            return real(setup, on)

    assert all(row["passed"] for row in check.compare_with_cpu(small, device))
    monkeypatch.setattr(check, "run_of", wrong)
    rows = check.compare_with_cpu(small, device)
    seen = {row["what"].split(":")[0]: not row["passed"] for row in rows}
    # On a CPU, a single contiguous network and xautodl's network use PyTorch's average.
    for stack, layout in itertools.product((1, 3), ("", ", contiguous", ", channels-last")):
        pooled = stack == 1 and layout == ", contiguous"
        assert seen[f"rebench, stack {stack}, float32{layout}"] == (not pooled)
    assert not any(wrong for what, wrong in seen.items() if what.startswith("xautodl"))


def test_graphs_that_train_otherwise_are_seen(check, small, monkeypatch: pytest.MonkeyPatch):
    # On a CPU the switch does nothing, or lets the run end an epoch earlier.
    for switch, seen in (({}, True), ({"epochs": 2}, False)):
        monkeypatch.setitem(check.SWITCHES, "graphs", switch)
        rows = check.graphs_equal_eager(small, CPU)
        assert [row["same_bits"] for row in rows] == [seen] * 4
        assert [row["passed"] for row in rows if "float32" in row["what"]] == [seen] * 2


def test_lost_momentum_is_seen(check, small, monkeypatch: pytest.MonkeyPatch):
    assert all(row["passed"] for row in check.resumes(small, CPU))
    monkeypatch.setattr(StackedSGD, "load_momenta", lambda _self, _momenta: None)
    assert not any(row["passed"] for row in check.resumes(small, CPU))


@pytest.mark.slow
def test_part_that_fails_leaves_the_others_and_is_tried_again(
    tmp_path: Path, check, capsys, monkeypatch: pytest.MonkeyPatch
):
    def broken(*_: object) -> None:
        raise RuntimeError("no such kernel")

    command = ["--device", "cpu", "--small", "--minutes", "0", "--out", str(tmp_path)]
    monkeypatch.setattr(check, "compare_with_cpu", broken)
    assert check.main(command) == 1
    assert "cpu failed: RuntimeError: no such kernel" in capsys.readouterr().out
    assert (tmp_path / "resume.json").is_file()
    monkeypatch.undo()
    assert check.main(command) == 0


def test_tuned_lines_take_the_fastest_way_that_keeps_the_bits_and_are_a_sweeps(check):
    def rows(**rates: float):
        return [
            {"way": way.replace("_", " ").replace(" and ", ", "), "images_per_s": rate, "stack": n}
            for way, (n, rate) in rates.items()
        ]

    speeds = rows(
        default=(1, 100.0),
        graphs=(1, 300.0),
        graphs_and_free_cuDNN=(1, 900.0),
        graphs_and_bf16=(1, 700.0),
        stack_3=(3, 250.0),
        stack_3_and_graphs=(3, 600.0),
        stack_3_and_graphs_and_bf16=(3, 900.0),
        stack_6_and_graphs=(6, 610.0),
    )
    sharing = [
        {"processes": 1, "images_per_s": 300.0},
        {"processes": 2, "images_per_s": 330.0},
    ]
    parts = {
        "cpu": [{"what": "x", "passed": True}],
        "speed-11": speeds,
        "speed-284": speeds,
        "compile-11": rows(graphs=(1, 300.0), compile_and_graphs=(1, 400.0)),
        "sharing": sharing,
    }
    text = check.tuned_lines(parts, {"device": "a GPU", "torch": "2.11"})
    spec = parse_spec(
        'datasets = ["digits"]\nrecipes = ["nb201"]\nseeds = [777]\n'
        + text
        + "[cells]\nindices=[0]"
    )
    assert spec.stack == 3  # 6 is not worth its memory
    assert spec.slurm == SlurmOptions(gpus_per_task=1, cuda_graphs=True, processes_per_job=1)
    assert "# torch.compile: 1.33 times as fast. It is not chosen" in text
    assert "# stack 3, graphs: 6.00 times" in text
    assert "'bf16': 9.00 times" in text


def test_sweep_takes_the_tuned_file_and_the_command_line_has_the_last_word(tmp_path: Path, capsys):
    spec, tuned = tmp_path / "sweep.toml", tmp_path / "tuned.toml"
    spec.write_text(
        'datasets = ["digits"]\nrecipes = ["nb201"]\nseeds = [0, 1, 2, 3]\nstack = 1\n'
        "[cells]\nindices = [11]\n"
    )
    tuned.write_text("stack = 4\n\n[slurm]\ntime_min = 7\n")
    assert read_settings(tuned) == {"stack": 4, "slurm.time_min": 7}
    shown = []
    for more in ([], ["--set", "stack=2"]):
        asked = ["sweep", "plan", str(spec), "--set", str(tuned), "--trials-per-job", "1"]
        assert main([*asked, *more, "--json"]) == 0
        (row,) = json.loads(capsys.readouterr().out)
        shown.append(row["jobs"])
    assert shown == [1, 2]


def test_graphs_are_chosen_for_a_stack_that_they_hardly_speed_up(check):
    rates = {"default": 100.0, "graphs": 300.0, "stack 12": 320.0, "stack 12, graphs": 330.0}
    stacks = {"default": 1, "graphs": 1}
    rows = [
        {"way": way, "images_per_s": rate, "stack": stacks.get(way, 12)}
        for way, rate in rates.items()
    ]
    text = check.tuned_lines({"speed-11": rows}, {"device": "a GPU", "torch": "2.11"})
    assert "stack = 12" in text
    assert "cuda_graphs = true" in text
