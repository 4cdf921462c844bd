"""Sweeps that keep their networks, and sweeps that begin with them."""

import json
import shutil

import pytest
from cluster import Sweep

from rebench.cli import main
from rebench.launch.expansion import expand_spec
from rebench.launch.forecast import forecast
from rebench.recipes import HyperParameters
from rebench.runs import GUESS, Curve, FinishedTrials, Record, now, parse_spec, with_settings
from rebench.runs.record import read_record
from rebench.train import Checkpoint, kept_networks, save_network
from rebench.train.record import Progress
from rebench.train.stack import initial_net

KEEP = ["--cluster", "debug", "--set", "train.keep=weights"]


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A sweep of six trials of one epoch whose networks were kept."""
    sweep = Sweep(tmp_path_factory.mktemp("kept"), cells=1, epochs=1)
    sweep.submit(*KEEP)
    return sweep


def test_every_record_of_a_run_has_its_network(kept, capsys):
    recorded = FinishedTrials(kept.run).refresh().records
    networks = {one.trial.trial_id: one for one in kept_networks(kept.run)}
    assert networks.keys() == recorded.keys()
    for trial_id, one in networks.items():
        assert one.record.outcome == Record.model_validate(recorded[trial_id]).outcome
    assert main(["collect", str(kept.run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["networks"] == 6


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
    assert f"{kept.run} has saved no such network" in capsys.readouterr().err
    assert main(["export", "weights", "mini@fixed", *command[3:]]) == 1
    assert "mini has kept no networks" in capsys.readouterr().err


def test_network_of_another_training_than_the_record_is_not_exported(kept, tmp_path, capsys):
    """As where a worker that was taken for dead wrote after the one that recorded."""
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


@pytest.mark.parametrize(
    ("keep", "half"), [("weights", False), ("weights", True), ("state", False)]
)
def test_room_for_networks_is_foreseen(kept, tmp_path, keep, half):
    spec = parse_spec(
        'datasets = ["cifar10"]\nrecipes = ["nb201"]\nseeds = [1]\n'
        "[cells]\nindices = [0, 11, 6111]\n"
        f'[train]\nkeep = "{keep}"\nhalf = {str(half).lower()}\n'
    )
    trials = expand_spec(spec).trials
    told = forecast(spec, trials, GUESS, ())
    bare = forecast(with_settings(spec, {"train.keep": "nothing"}), trials, GUESS, ())
    other = kept_networks(kept.run)[0].record
    accuracies = [100 * n / 50_000 for n in range(200)]
    losses = [1 / (3 + n) for n in range(200)]
    curves = dict.fromkeys(("train", "ori-test"), Curve(accuracy=accuracies, loss=losses))
    for trial in trials:
        net = initial_net(trial, 10)
        outcome = other.outcome.model_copy(update={"curves": curves})
        own = {"trial": trial, "trial_id": trial.trial_id, "outcome": outcome}
        record = other.model_copy(update=own)
        final = Checkpoint(
            trial_id=trial.trial_id,
            data_digest="",
            epoch=200,
            net=net.state_dict(),
            momentum={name: one.detach().clone() for name, one in net.named_parameters()},
            progress=Progress(started=now()),
            initial=HyperParameters(learning_rate=0.1),
            current=HyperParameters(learning_rate=0.1),
        )
        save_network(tmp_path, spec.train, record, final)
    size = sum(path.stat().st_size for path in tmp_path.glob("weights/*/*"))
    assert told.bytes_on_disk - bare.bytes_on_disk == pytest.approx(size, rel=0.05)
    assert told.files - bare.files == 3
