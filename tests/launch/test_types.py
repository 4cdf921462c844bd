"""Several types of device in one sweep, from the dry run to the records."""

from collections import Counter

import pytest
from cluster import Sweep
from support import json_of

from rebench.cli import main
from rebench.runs import Run, read_spec

TYPES = """
[slurm.types.quick]
partition = "urgent"
time_min = 3
[slurm.types.long]
comment = "patient"
"""


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text(
        'datasets = ["digits", "cifar10"]\nseeds = [1, 2, 3]\nrecipes = ["nb201", "topology"]\n'
        f"[cells]\nindices = [11, 284, 6111, 765]\n[slurm]\ntime_min = 50\n{TYPES}"
    )
    return path


def test_dry_run_shows_what_each_type_would_get(spec, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    rows = {row["type"]: row for row in json_of("submit", spec, "--dry-run", "--no-preflight")}
    assert rows.keys() == {"quick", "long"}
    assert sum(row["trials"] for row in rows.values()) == 48
    assert "--partition=urgent" in rows["quick"]["script"]
    assert "--time=3\n" in rows["quick"]["script"]
    assert "--comment=patient" in rows["long"]["script"]
    assert "--partition" not in rows["long"]["script"]
    assert "--time=50\n" in rows["long"]["script"]
    assert main(["submit", str(spec), "--dry-run", "--no-preflight"]) == 0
    head, *lines = capsys.readouterr().err.splitlines()[-3:]
    assert head.split()[:2] == ["type", "trials"]
    shown = {name: trials for name, trials, *_ in map(str.split, lines)}
    assert shown == {name: str(row["trials"]) for name, row in rows.items()}


def test_a_setting_that_every_type_overrides_is_told(spec, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    spec.write_text(f'{spec.read_text()}partition = "slow"\n')
    command = ["submit", str(spec), "--dry-run", "--no-preflight", "--set", "slurm.partition=gpu"]
    assert main([*command, "--set", "slurm.time=9"]) == 0
    line = "--set slurm.partition changes nothing: every type of [slurm.types] has its own value"
    told = capsys.readouterr().err
    assert f"{line}; set slurm.types.NAME.partition" in told
    assert "slurm.time" not in told
    assert main([*command, "--cluster", "local"]) == 0
    assert "changes nothing" not in capsys.readouterr().err


def test_plan_names_the_type_of_every_trial(spec):
    trials = json_of("sweep", "plan", spec, "--trials")
    homes: dict[tuple[int, str], set[str]] = {}
    for row in trials:
        homes.setdefault((row["index"], row["dataset"]), set()).add(row["type"])
    assert [len(types) for types in homes.values()] == [1] * 8
    (total,) = json_of("sweep", "plan", spec)
    assert total["trials"] == len(trials)


def test_elsewhere_than_on_slurm_there_are_no_types(spec):
    (row,) = json_of("submit", spec, "--dry-run", "--no-preflight", "--cluster", "local")
    assert "type" not in row
    assert row["trials"] == 48


@pytest.mark.slurm
@pytest.mark.xdist_group("slurm")
def test_cell_stays_on_its_type_until_all_is_recorded(cluster, tmp_path, undisturbed):
    sweep = Sweep(tmp_path, cluster, cells=2)
    sweep.spec.write_text(sweep.spec.read_text() + TYPES)
    hold = ["--trials-per-job", "6", "--set", "slurm.extra.hold=true"]
    assert sweep.submit(*hold)["sent"] == 12
    drawn = read_spec(sweep.spec).slurm.type_of
    wanted = {one: drawn(trial) for one, trial in Run.open(sweep.run).trials().items()}
    assert {row["trial"]: row["type"] for row in sweep.trials("queued")} == wanted
    shown = cluster.ask("squeue", "-h", "-r", "-o", "%P %l %k").splitlines()
    jobs = {
        "quick": sum(type_name == "quick" for type_name in wanted.values()) // 6,
        "long": sum(type_name == "long" for type_name in wanted.values()) // 6,
    }
    assert min(jobs.values()) > 0
    expected = ["urgent 3:00 (null)"] * jobs["quick"] + ["main 5:00 patient"] * jobs["long"]
    assert sorted(shown) == sorted(expected)
    for job in sweep.jobs("PENDING"):
        cluster.ask("scontrol", "release", job)
    # An urgent job may preempt jobs of the main partition; these are submitted again.
    counts = sweep.finish("--trials-per-job", "6")
    assert counts["done"] == 12
    assert Counter(row["type"] for row in sweep.trials("done")) == Counter(wanted.values())
    assert sweep.outcomes().items() <= undisturbed.items()
