"""The commands around a sweep, as a user types them."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from generated_tables import synthetic_frame
from support import PROJECT, json_of, refusal_of, run_here

from cells import all_cells
from rebench.analysis.power import power
from rebench.cli import main
from rebench.cli.sweep import _noise_table
from rebench.launch.expansion import expand_spec
from rebench.runs import GUESS, example, read_spec
from rebench.tables import opening, write_table


def _spec(tmp_path, cells="indices = [11]", *, seeds="[1]", recipes='["nb201"]') -> Path:
    """Write a sweep on the digits; return its file."""
    path = tmp_path / "sweep.toml"
    path.write_text(
        f'datasets = ["digits"]\nseeds = {seeds}\nrecipes = {recipes}\n[cells]\n{cells}\n'
    )
    return path


def test_example_is_written_once_and_planned(tmp_path):
    spec = tmp_path / "sweep.toml"
    assert main(["sweep", "new", "--for", "slurm-gpu", "--out", str(spec)]) == 0
    assert "exists" in refusal_of("sweep", "new", "--out", spec)
    [plan] = json_of("sweep", "plan", spec)
    # 2 + 8 cells, 2 recipes, 3 seeds; cells without a path have no trial with `topology`.
    assert plan["trials"] + plan["skipped"] == 10 * 2 * 3
    assert plan["already_done"] == 0
    assert plan["device_hours"] > 0


@pytest.mark.parametrize(
    ("sinfo", "machine"),
    [
        ("echo gpu:a100:4; echo '(null)'", "slurm-gpu"),
        ("echo '(null)'", "slurm-cpu"),
        ("exit 1", "laptop"),
    ],
)
def test_example_is_for_slurm_where_slurm_answers(tmp_path, stand_in, sinfo, machine):
    stand_in("sinfo", sinfo)
    spec = tmp_path / "sweep.toml"
    assert f"is for: {machine} " in run_here("sweep", "new", "--out", spec).stdout
    assert spec.read_text() == example(machine)


def test_plan_without_slurm_is_of_this_machine_and_warns_of_gpus_that_it_lacks(
    tmp_path, stand_in, monkeypatch
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    stand_in("sinfo", "exit 1")
    spec = tmp_path / "sweep.toml"
    spec.write_text(example("laptop"))
    plan = ("sweep", "plan", str(spec), "--json")
    done = run_here(*plan)
    [row] = json.loads(done.stdout)
    assert "smallest trial on this machine" in row["times_from"]
    assert row["fewest_device_hours"] < row["device_hours"] < row["most_device_hours"]
    assert (row["trials"], row["jobs"]) == (24 * 2 * 3, 2)
    assert done.stderr == ""
    spec.write_text(example("slurm-gpu"))
    done = run_here(*plan)
    assert "a guess for a GPU" in json.loads(done.stdout)[0]["times_from"]
    asked = "needs a GPU (gpus_per_task = 1), and this machine has no GPU: "
    assert f"{asked}`rebench submit --cluster local` will fail here" in done.stderr
    refused = refusal_of("submit", spec, "--cluster", "local", code=1)
    assert "a GPU was asked for" in refused
    stand_in("sinfo", "echo gpu:1")
    assert asked not in run_here(*plan).stderr


def test_templates_for_a_cluster_are_written_once_and_whole(tmp_path):
    new = ["sweep", "new", "--out", str(tmp_path / "new" / "sweep.toml"), "--cluster-files"]
    said = run_here(*new).stdout
    for source in (PROJECT / "rebench" / "launch" / "cluster_files").iterdir():
        written = tmp_path / "new" / source.name
        assert str(written) in said
        assert written.read_bytes() == source.read_bytes()
    script = tmp_path / "new" / "one-job.sbatch"
    subprocess.run(["bash", "-n", script], check=True)
    script.write_text("adapted")
    (tmp_path / "new" / "sweep.toml").unlink()
    assert f"{script} exists" in refusal_of(*new)
    assert script.read_text() == "adapted"


@pytest.mark.parametrize("folder", ["file", "file/below", "n" * 300])
def test_a_sweep_into_a_folder_that_cannot_be_is_one_clear_line(tmp_path, capsys, folder):
    (tmp_path / "file").write_text("mine")
    out = tmp_path / folder / "sweep.toml"
    assert main(["sweep", "new", "--out", str(out), "--cluster-files"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("rebench: cannot read or write ")
    assert str(out.parent) in said
    assert said.count("\n") == 1
    assert (tmp_path / "file").read_text() == "mine"


def test_plan_says_what_is_skipped_and_at_most_20_reasons(tmp_path, capsys):
    """Without a path, `topology` has no learning rate for a cell; `nb201` has one."""
    without_path = [cell.index for cell in all_cells() if not cell.path_depths()][:21]
    spec = _spec(tmp_path, f"indices = {[11, *without_path]}", recipes='["nb201", "topology"]')
    assert main(["sweep", "plan", str(spec), "--json"]) == 0
    shown = capsys.readouterr()
    [row] = json.loads(shown.out)
    assert (row["trials"], row["skipped"]) == (22 + 1, 21)
    said = "skipped 1: recipe 'topology' has no learning rate"
    assert [line.startswith(said) for line in shown.err.splitlines()] == [True] * 20


@pytest.mark.parametrize(
    ("epochs", "table"),
    [
        (1, "mini@fixed"),
        (32, "mini@fixed"),
        (33, "mini-60ep@fixed"),
        (99, "mini-60ep@fixed"),
        (100, "nb201"),
    ],
)
def test_seed_tau_is_from_the_table_with_similar_epochs(epochs, table):
    assert _noise_table(epochs) == table


def test_plan_counts_what_is_trained_and_adds_up_what_it_costs(tmp_path, stand_in):
    """Seven equal trials make jobs of 3, 3 and 1 trials; two jobs run at once."""
    stand_in("sinfo", "echo gpu:1")  # without SLURM times are those of this machine, measured
    spec = _spec(
        tmp_path, "indices = [11]\n[slurm]\narray_parallelism = 2", seeds="[1, 2, 3, 4, 5, 6, 7]"
    )
    plan = ("sweep", "plan", str(spec), "--trials-per-job", "3", "--devices", "1,7")
    [row] = json_of(*plan)
    assert {name: row[name] for name in list(row)[:11]} == {
        "trials": 7, "already_done": 0, "cells": 1, "data_sets": 1, "recipes": 1, "seeds": 7,
        "duplicates": 0, "skipped": 0, "spec_hash": row["spec_hash"], "jobs": 3,
        "trials_per_job": 2.3,
    }  # fmt: skip
    [trial, *_] = expand_spec(read_spec(spec)).trials
    seconds = GUESS.seconds(trial)
    assert row["longest_job_min"] == round(3 * seconds / 60, 2)
    assert row["device_hours"] == round(7 * seconds / 3600, 3)
    assert row["wall_hours"] == round(4 * seconds / 3600, 3)
    assert row["days_on_1_devices"] == round(7 * seconds / 86400, 6)
    assert row["days_on_7_devices"] == round(seconds / 86400, 6)
    assert row["times_from"].startswith("a guess")
    for wrong in ("8,x", "0", "", "8;64", "-1"):
        said = refusal_of("sweep", "plan", spec, "--devices", wrong)
        assert (
            "--devices takes whole numbers above 0, separated by commas, such as 8,64,512, got"
            in said
        )


def test_plan_takes_other_values_for_the_keys_of_the_sweep(tmp_path, stand_in):
    stand_in("sinfo", "echo gpu:1")  # without SLURM times are those of this machine, measured
    spec = _spec(tmp_path, "indices = [11, 284]")
    seeds = ["--set", "seeds=[1, 2, 3]"]
    plan = ["sweep", "plan", str(spec), *seeds, "--trials-per-job", "1"]
    rows = [json_of(*plan, "--set", f"slurm.array_parallelism={count}")[0] for count in (1, 6)]
    assert [(row["trials"], row["jobs"]) for row in rows] == [(6, 6), (6, 6)]
    # Printed with three digits.
    assert rows[0]["wall_hours"] == pytest.approx(6 * rows[1]["wall_hours"], abs=0.004)
    refused = refusal_of("sweep", "plan", spec, "--set", "cells=3")
    assert "cells: must be a table, got 3" in refused


@pytest.fixture
def few_draws(monkeypatch):
    """Simulate 4 tables instead of 100, which take up to a minute."""
    monkeypatch.setitem(power.__kwdefaults__, "draws", 4)


@pytest.mark.usefixtures("few_draws")
def test_power_is_told_of_more_cells_where_ten_are_among_the_best(tmp_path, capsys):
    """The plan gives the power for 12 cells, and for 24, 48, 96 and 192; also with three seeds.

    Numbers with fewer than ten cells among the top K % are left out.
    """
    spec = _spec(tmp_path, "random = {n = 12}", seeds="[0, 1]")
    plan = ("sweep", "plan", str(spec), "--like", "mini@fixed", "--json", "--power")
    assert main([*plan, "0.1"]) == 0
    done = capsys.readouterr()
    sizes = {100: [12, 24, 48, 96, 192], 50: [24, 48, 96, 192], 20: [96, 192], 10: [192]}
    rows = json.loads(done.out)
    found = [(row["top_percent"], row["cells"], row["seeds"]) for row in rows]
    wanted = [(top, cells, k) for top, many in sizes.items() for cells in many for k in (2, 3)]
    assert sorted(found) == sorted(wanted)
    numbers = [row[name] for row in rows for name in ("power", "seed_tau")]
    assert numbers == [round(value, 2) for value in numbers]
    assert main([*plan, "2"]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.usefixtures("few_draws")
def test_power_takes_the_noise_of_the_published_table_for_long_trainings(
    tmp_path, monkeypatch, capsys
):
    """The test adds a generated table `nb201` to the released tables."""
    folder = tmp_path / "released"
    shutil.copytree(opening._RELEASED, folder)
    rows = synthetic_frame(0, cells=range(0, 15625, 150), datasets=["cifar10-valid", "cifar100"])
    rows = rows[rows["split"] == "x-valid"]
    write_table(folder / "nb201.parquet", rows, name="nb201", origin="published")
    monkeypatch.setattr(opening, "_RELEASED", folder)
    spec = _spec(tmp_path, "indices = [11, 284]", seeds="[0, 1]")
    assert main(["sweep", "plan", str(spec), "--power", "0.1", "--json"]) == 0
    told = capsys.readouterr()
    noise = {row["noise_of"] for row in json.loads(told.out)}
    assert noise == {"nb201, cifar10-valid, x-valid, 200 epochs"}
    assert "power can be very different" not in told.err


@pytest.mark.usefixtures("few_draws")
def test_power_says_that_the_noise_is_of_much_shorter_training_and_how_to_give_another(
    tmp_path, capsys
):
    spec = _spec(tmp_path, "indices = [11, 284]", seeds="[0, 1]")
    like = ["--like", "mini@fixed"]
    assert main(["sweep", "plan", str(spec), "--power", "0.1", *like]) == 0
    told = capsys.readouterr()
    shown = " ".join(told.out.split())  # lines break at the width of the terminal
    assert "with the noise of mini@fixed, cifar10-jpeg16, ori-test, 5 epochs" in shown
    assert "is from mini@fixed after 5 epochs, but the sweep trains 200" in told.err
    assert "--like TABLE takes the seed tau of another table" in told.err


def test_dry_run_needs_no_slurm_and_says_what_would_be_sent(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    spec = _spec(tmp_path, seeds="[1, 2, 3]")
    dry = ["submit", str(spec), "--dry-run", "--trials-per-job", "1"]
    dry += ["--set", "slurm.partition=gpu"]
    (row,) = json_of(*dry, "--data-root", "/data")
    assert (row["trials"], row["jobs"], row["arrays"], row["data_root"]) == (3, 3, 1, "/data")
    seconds = sum(map(GUESS.seconds, expand_spec(read_spec(spec)).trials))
    assert row["device_hours"] == round(seconds / 3600, 3)
    assert "#SBATCH --array=0-2%3\n" in row["script"]
    assert main(dry) == 0
    said = capsys.readouterr()
    assert said.out.strip() == row["script"].strip()
    assert said.err.splitlines()[-2].split()[:3] == ["trials", "jobs", "arrays"]
    assert said.err.splitlines()[-1].split()[:3] == ["3", "3", "1"]
    assert not (tmp_path / "runs").exists()


def test_container_sees_the_folders_that_it_is_to_see(tmp_path, capsys):
    """Only the script is checked; Apptainer is not run."""
    binds = 'container_binds = ["/scratch", "/my data:/data:ro"]'
    spec = _spec(tmp_path, f"indices = [11]\n[slurm]\ngpus_per_task = 1\n{binds}")
    assert main(["submit", str(spec), "--dry-run"]) == 2
    assert "container_binds need a container_image" in capsys.readouterr().err
    spec.write_text(spec.read_text() + 'container_image = "/my images/rebench.sif"\n')
    assert main(["submit", str(spec), "--dry-run"]) == 0
    command = next(one for one in capsys.readouterr().out.splitlines() if one.startswith("srun "))
    binds = "--bind /scratch --bind '/my data:/data:ro'"
    assert f"apptainer exec --nv {binds} '/my images/rebench.sif' python -u -m" in command
    assert main(["submit", str(spec), "--dry-run", "--set", "slurm.gpus_per_task=0"]) == 0
    assert f"apptainer exec {binds} " in capsys.readouterr().out
    for wrong in ("/a::ro", "/a,/b", "/a:/b:ro:rw"):
        chosen = ["--set", f"slurm.container_binds=['{wrong}']"]
        assert main(["sweep", "plan", str(spec), *chosen]) == 2
        assert "a bind is SOURCE[:TARGET[:OPTION]], got" in capsys.readouterr().err


def test_status_of_a_folder_that_is_no_run_is_bad_input(tmp_path):
    assert "is not a run" in refusal_of("status", tmp_path)
