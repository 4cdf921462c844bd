"""The check of a GPU, run whole on the CPU at small size: resumable, and without our packages."""

from __future__ import annotations

import json
import os
import site
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from support import PROJECT

from rebench.cli import main
from rebench.errors import InputError
from rebench.gpu import check
from rebench.gpu.correctness import compare_with_cpu, resumes
from rebench.gpu.report_text import report_text
from rebench.gpu.runs import Run, Setup
from rebench.gpu.traffic import bytes_moved
from rebench.gpu.tuned import tuned_lines
from rebench.sweep import SlurmOptions
from rebench.sweep.spec import parse_spec, read_settings
from rebench.train.optimizer import StackedSGD

CPU = torch.device("cpu")
SMALL = Setup(cell=11, channels=2, cells_per_stage=1, batch_size=8, n_images=32, dataset="digits")
# What the check must do without, and what these packages bring.
ABSENT = (
    *("pydantic", "submitit", "nats_bench", "typer", "rich", "pandas", "pyarrow", "scipy"),
    *("sklearn", "pil", "pillow", "xautodl", "matplotlib", "pooch", "rebench", "nas_rebench"),
    "__editable__",
)


@pytest.mark.parametrize("stack", [1, 3])
def test_evaluation_leaves_training_as_it_was_and_is_of_all_images(stack: int):
    setup = SMALL.but(stack=stack, eval_batch_size=12)  # two whole batches and a smaller one
    run, undisturbed = Run(setup, CPU), Run(setup.but(eval_batch_size=32), CPU)
    found, judged = [], []
    for _ in range(3):
        judged.append(run.judged())
        found += run.losses(2)
    assert found == undisturbed.losses(6)
    assert len({one for epoch in judged for one in epoch}) == 3 * stack
    assert run.judged() == pytest.approx(undisturbed.judged(), rel=1e-6)
    alone = Run(SMALL, CPU)
    assert judged[0][0] == pytest.approx(alone.judged()[0], rel=1e-6)


def test_check_runs_without_our_packages_and_goes_on_where_it_stopped(tmp_path: Path):
    lean = tmp_path / "site"
    lean.mkdir()
    for folder in site.getsitepackages():
        for entry in Path(folder).iterdir():
            if not entry.name.lower().startswith(ABSENT) and entry.suffix != ".pth":
                (lean / entry.name).symlink_to(entry)
    out = tmp_path / "found"

    def run(minutes: float) -> subprocess.CompletedProcess[str]:
        # -S leaves out the machine's own packages.
        return subprocess.run(
            [
                *(sys.executable, "-S", "-m", "rebench.gpu", "--device", "cpu", "--small"),
                *("--out", str(out), "--minutes", str(minutes)),
            ],
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": f"{PROJECT}{os.pathsep}{lean}",
                "OMP_NUM_THREADS": "1",
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    short = run(0)
    assert short.returncode == 0, short.stderr
    assert "no time for speed-11" in short.stdout
    assert "pydantic: " in short.stdout
    assert "PIL: the reference loop is not timed" in short.stdout
    assert "xautodl is not installed" in short.stdout
    first = (out / "cpu.json").stat().st_mtime_ns
    whole = run(9)
    assert whole.returncode == 0, whole.stderr
    assert (out / "cpu.json").stat().st_mtime_ns == first
    assert whole.stdout.endswith("passed\n")
    speeds = json.loads((out / "speed-11.json").read_text())["rows"]
    assert {row["way"] for row in speeds} >= {"default", "bf16", "stack 2"}
    assert all(row["images_per_s"] > 0 and row["bound_images_per_s"] > 0 for row in speeds)
    assert json.loads((out / "sharing.json").read_text())["rows"][1]["processes"] == 2
    streams = json.loads((out / "streams.json").read_text())["rows"]
    assert [(len(row["cells"].split()), row["streams"]) for row in streams] == [
        *((1, 1), (2, 1), (2, 2), (4, 1), (4, 4)),
    ]
    assert all(row["images_per_s"] > 0 for row in streams)
    tuned = (out / "tuned.toml").read_text()
    assert "[slurm]" in tuned


def test_folder_of_another_machine_is_refused(tmp_path: Path):
    (tmp_path / "about.json").write_text('{"device": "another"}')
    with pytest.raises(InputError, match="give another folder"):
        check(tmp_path, device="cpu", small=True)


def test_wrong_arithmetic_is_seen(monkeypatch: pytest.MonkeyPatch):
    # The device is the CPU, so the second of each pair is made to compute something else.
    real, calls = torch.nn.functional.cross_entropy, iter(range(10**6))

    def wrong(*arguments, **options):
        return real(*arguments, **options) * (1 + 1e-3 * (next(calls) % 20 >= 10))

    monkeypatch.setattr("rebench.train.step.F.cross_entropy", wrong)
    rows = [row for row in compare_with_cpu(SMALL, CPU) if "float32" in row["what"]]
    assert rows
    assert not any(row["passed"] for row in rows)


def test_lost_momentum_is_seen(monkeypatch: pytest.MonkeyPatch):
    assert all(row["passed"] for row in resumes(SMALL, CPU))
    monkeypatch.setattr(StackedSGD, "load_momenta", lambda _self, _momenta: None)
    assert not any(row["passed"] for row in resumes(SMALL, CPU))


def test_part_that_fails_leaves_the_others_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def broken(*_: object) -> None:
        raise RuntimeError("no such kernel")

    monkeypatch.setattr("rebench.gpu.parts.compare_with_cpu", broken)
    report = check(tmp_path, device="cpu", small=True, minutes=0)
    assert report.errors == {"cpu": "RuntimeError: no such kernel"}
    assert not report.passed
    assert "resume" in report.parts
    assert "cpu failed: RuntimeError: no such kernel" in report_text(report)
    monkeypatch.undo()
    assert check(tmp_path, device="cpu", small=True, minutes=0).passed


def test_bytes_of_operations_are_counted_and_views_are_free():
    a, b = torch.ones(10, 10), torch.ones(10)
    assert bytes_moved(lambda: a.t().reshape(10, 10)[1]) == 0
    assert bytes_moved(lambda: a + a) == 2 * 400  # the same tensor is read once
    assert bytes_moved(lambda: a + b) == 400 + 40 + 400
    assert bytes_moved(lambda: a.add_(1)) == 400 + 400


def test_steps_go_on_from_epoch_to_epoch_with_whole_batches():
    setup = SMALL.but(n_images=20)  # two batches of 8, and 4 images that are left out
    run, again = Run(setup, CPU), Run(setup, CPU)
    losses = run.losses(5)
    assert run.taken == 5
    first = again.losses(3)
    later = Run(setup, CPU)
    later.load(again.state())
    assert first + later.losses(2) == losses


def test_tuned_lines_take_the_fastest_way_that_keeps_the_bits_and_are_a_sweeps():
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
        {"processes": 1, "mps": False, "images_per_s": 300.0},
        {"processes": 2, "mps": False, "images_per_s": 330.0},
    ]
    parts = {
        "cpu": [{"what": "x", "passed": True}],
        "speed-11": speeds,
        "speed-284": speeds,
        "compile-11": rows(graphs=(1, 300.0), compile_and_graphs=(1, 400.0)),
        "sharing": sharing,
    }
    text = tuned_lines(parts, "a GPU", "2.11")
    spec = parse_spec(
        'datasets = ["digits"]\nrecipes = ["nb201"]\nseeds = [777]\n'
        + text
        + "[cells]\nindices=[0]"
    )
    assert spec.stack == 3  # 6 is not worth its memory
    assert spec.slurm == SlurmOptions(
        gpus_per_task=1, cuda_graphs=True, compile_net=True, processes_per_job=1
    )
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
        asked = ["sweep", "plan", str(spec), "--tuned", str(tuned), "--trials-per-job", "1"]
        assert main([*asked, *more, "--json"]) == 0
        (row,) = json.loads(capsys.readouterr().out)
        shown.append(row["jobs"])
    assert shown == [1, 2]
