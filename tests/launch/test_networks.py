"""Sweeps that keep their networks, and sweeps that start from kept networks."""

import json
import shutil

import pytest
from cluster import Sweep
from support import json_of

from rebench.cli import main
from rebench.runs import FinishedTrials, Record
from rebench.runs.record import read_record
from rebench.train import kept_networks

KEEP = ["--cluster", "debug", "--set", "train.keep=weights"]


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A sweep of six trials of one epoch with kept networks."""
    sweep = Sweep(tmp_path_factory.mktemp("kept"), cells=1, epochs=1)
    sweep.submit(*KEEP)
    return sweep


def test_every_record_of_a_run_has_its_network(kept):
    recorded = FinishedTrials(kept.run).refresh().records
    networks = {one.trial.trial_id: one for one in kept_networks(kept.run)}
    assert networks.keys() == recorded.keys()
    for trial_id, one in networks.items():
        assert one.record.outcome == Record.model_validate(recorded[trial_id]).outcome
    assert json_of("collect", str(kept.run))[0]["networks"] == 6


def test_networks_are_exported_by_cell_recipe_and_seed(kept, tmp_path, capsys):
    one = kept_networks(kept.run)[0].trial
    out = tmp_path / "part"
    table = f"{kept.run}@{one.recipe.label}"
    command = ["export", "weights", table, "--out", str(out), "--seed", str(one.seed), "--json"]
    assert main([*command, "--cell", str(one.cell.index)]) == 0
    assert json.loads(capsys.readouterr().out)[0]["networks"] == 1
    assert [exported.trial for exported in kept_networks(out)] == [one]
    command = ["export", "weights", str(kept.run), "--out", str(tmp_path / "none")]
    assert main([*command, "--seed", "1"]) == 2
    assert f"{kept.run} has stored no such network" in capsys.readouterr().err
    assert main(["export", "weights", "mini@fixed", *command[3:]]) == 1
    assert "mini has kept no networks" in capsys.readouterr().err


def test_network_of_another_training_than_the_record_is_not_exported(kept, tmp_path, capsys):
    """This can happen if a worker that was taken for dead writes its network after all."""
    run = tmp_path / "run"
    shutil.copytree(kept.run, run)
    (shard,) = (run / "results").glob("*.jsonl")
    line, *others = shard.read_bytes().splitlines(keepends=True)
    record = read_record(line)
    record["outcome"]["curves"]["ori-test"]["accuracy"][-1] += 1
    changed = Record.model_validate(record).to_line().encode() + b"\n"
    shard.write_bytes(b"".join([changed, *others]))
    assert main(["export", "weights", str(run), "--out", str(tmp_path / "out")]) == 1
    assert "is from another training" in capsys.readouterr().err


def test_longer_sweep_begins_with_what_another_run_has_kept(kept, tmp_path):
    sweep = Sweep(tmp_path, cells=1, epochs=2)
    begun = ["--set", f"start.run={kept.run}", "--set", "start.epochs=1"]
    assert sweep.submit("--cluster", "debug", *begun)["sent"] == 6
    for record in FinishedTrials(sweep.run).refresh().records.values():
        assert record["trial"]["start"] == {"epochs": 1, "what": "weights"}
        losses = record["outcome"]["curves"]["train"]["loss"]
        assert losses[0] is None
        assert losses[1] is not None


@pytest.mark.slow
def test_longer_trials_whose_networks_were_not_kept_fail_and_say_so(tmp_path):
    other = Sweep(tmp_path / "other", cells=1, epochs=1)
    other.submit("--cluster", "debug")
    sweep = Sweep(tmp_path / "longer", cells=1, epochs=2)
    begun = ["--set", f"start.run={other.run}", "--set", "start.epochs=1"]
    sweep.rebench("submit", "--cluster", "debug", *begun, "--json", code=1)
    reasons = [trial["reason"] for trial in sweep.trials("failed")]
    assert len(reasons) == 6
    assert all("has not kept" in reason for reason in reasons)
