"""Kept networks: complete files with the exact bits, refused if damaged."""

from __future__ import annotations

import functools
import itertools
import json
import multiprocessing
import random
import shutil
import signal
from pathlib import Path

import pytest
import torch
from made_records import make_record
from safetensors.torch import load_file, save_file
from trialsets import few_digits, interrupt, make_trial

import rebench
from rebench.cli import main
from rebench.data import BatchSource, read_raw
from rebench.errors import (
    InputError,
    Interrupted,
    MissingDataError,
    StoreError,
    TrainingError,
    UnknownNameError,
)
from rebench.nets import reference_net
from rebench.recipes import make_recipe, recipe_names
from rebench.runs import Protocol, RecipeSpec, Record, Start, TrainOptions, Trial
from rebench.train import kept_networks, save_network, train
from rebench.train.weights import KeptNetwork

SEVERAL = [
    make_trial(seed, recipe=RecipeSpec(name=name))
    for name in ("nb201", "topology")
    for seed in (1, 2)
]


def keep(trials: list[Trial], folder: Path, what: str = "weights", **how) -> list[Record]:
    options = TrainOptions(keep=what, half=how.pop("half", False))
    save = functools.partial(save_network, folder, options)
    return train(trials, few_digits(), on_network=save, start_from=folder, **how)


def accuracy(net: torch.nn.Module) -> float:
    """Return the top-1 accuracy in percent on the few test images, by a direct count."""
    data = few_digits()
    source = BatchSource(
        data.evaluation["ori-test"], data.spec, device=torch.device("cpu"), channels_last=False
    )
    with torch.no_grad():
        right = sum(int((net(one).argmax(1) == label).sum()) for one, label in source.plain(20))
    return 100 * right / len(source)


def network(folder: Path, trial: Trial) -> torch.nn.Module:
    fields = ("dataset", "recipe", "seed", "epochs", "start")
    asked = {name: getattr(trial, name) for name in fields}
    return rebench.network(trial.cell, run=folder, **asked)


def assert_as_recorded(folder: Path, records: list[Record]) -> None:
    for record in records:
        net = network(folder, record.trial)
        assert not net.training
        assert accuracy(net) == record.final("ori-test")[0]


def assert_same_tensors(one: Path, other: Path) -> None:
    first, second = load_file(one), load_file(other)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_leaves_the_network_of_its_record(tmp_path: Path, name: str):
    trial = make_trial(3, recipe=make_recipe(RecipeSpec(name=name)).spec)
    assert_as_recorded(tmp_path, keep([trial], tmp_path))


def test_each_trial_of_a_stack_keeps_a_network(tmp_path: Path):
    records = keep(SEVERAL, tmp_path, stack=4)
    assert {record.cost.stack for record in records} == {4}
    assert_as_recorded(tmp_path, records)
    assert [one.record for one in kept_networks(tmp_path)] == sorted(
        records, key=lambda record: (record.trial.seed, record.trial.describe())
    )


def test_network_of_a_resumed_trial_has_the_same_bits(tmp_path: Path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    keep([make_trial()], whole)
    steps = itertools.count()
    with pytest.raises(Interrupted):
        keep([make_trial()], broken, checkpoint_dir=tmp_path, stop=lambda: next(steps) > 4)
    assert not broken.exists()
    assert_as_recorded(broken, keep([make_trial()], broken, checkpoint_dir=tmp_path))
    (one,), (other,) = (list(folder.glob("weights/*/*")) for folder in (whole, broken))
    assert_same_tensors(one, other)


def test_keeping_changes_no_id_and_no_outcome(tmp_path: Path):
    (kept,), (plain,) = keep([make_trial()], tmp_path), train([make_trial()], few_digits())
    assert (kept.trial_id, kept.outcome) == (plain.trial_id, plain.outcome)


def test_a_kept_network_is_evaluated_on_images_as_they_are_or_changed(tmp_path: Path):
    save = functools.partial(save_network, tmp_path, TrainOptions(keep="weights"))
    [record] = train([make_trial(epochs=1)], on_network=save)
    [kept] = kept_networks(tmp_path)
    assert kept.evaluate() == record.final("ori-test")[0]
    labels = read_raw("digits").test.labels
    answer = int(kept.load()(torch.zeros(1, 3, 8, 8)).argmax())
    assert kept.evaluate(torch.zeros_like) == 100 * int((labels == answer).sum()) / len(labels)
    with pytest.raises(UnknownNameError, match="unknown split 'test'; valid: ori-test"):
        kept.evaluate(split="test")


@pytest.mark.parametrize("network_of", ["rebench", "xautodl"])
def test_weights_load_into_the_class_of_the_benchmark(tmp_path: Path, network_of: str):
    trial = make_trial(network=network_of)
    keep([trial], tmp_path)
    ours = network(tmp_path, trial)
    theirs = reference_net(trial.cell, channels=4, cells_per_stage=1)
    theirs.load_state_dict(ours.state_dict())
    images = torch.randn(5, 3, 8, 8)
    torch.testing.assert_close(theirs.eval()(images), ours(images))


def test_without_a_run_it_is_the_network_that_the_trial_begins_with(tmp_path: Path):
    """At a rate of 1e-30, training changes only weights that are zero."""
    trial = make_trial(7, recipe=make_recipe(RecipeSpec.parse("fixed(lr=1e-30)")).spec)
    keep([trial], tmp_path)
    trained = dict(network(tmp_path, trial).named_parameters())
    begun = rebench.network(
        trial.cell, dataset="digits", recipe="fixed(lr=1e-30)", seed=7, skeleton=trial.skeleton
    )
    assert not begun.training
    for name, value in begun.named_parameters():
        if "bias" not in name:
            assert torch.equal(value, trained[name])
    other = rebench.network(trial.cell, dataset="digits", seed=8, skeleton=trial.skeleton)
    assert not torch.equal(next(other.parameters()), next(begun.parameters()))


def test_diverged_trial_leaves_no_network(tmp_path: Path):
    trial = make_trial(recipe=RecipeSpec.parse("fixed(lr=1e30)"))
    (record,) = keep([trial], tmp_path)
    assert record.outcome.status == "diverged"
    assert not list(tmp_path.iterdir())


def test_half_precision_takes_half_the_disk_and_changes_little(tmp_path: Path):
    wide = make_trial(skeleton={"channels": 32, "cells_per_stage": 1})
    sizes = []
    for half in (False, True):
        (record,) = keep([wide], tmp_path / str(half), half=half)
        sizes += [path.stat().st_size for path in tmp_path.glob(f"{half}/weights/*/*")]
    assert 0.45 < sizes[1] / sizes[0] < 0.55
    loaded = [network(tmp_path / str(half), wide) for half in (False, True)]
    for one, other in zip(*(net.parameters() for net in loaded), strict=True):
        assert other.dtype == torch.float32
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-6)
    assert accuracy(loaded[1]) == pytest.approx(record.final("ori-test")[0], abs=5)


# longer


@pytest.mark.parametrize("recipe", ["topology", "fsc(refresh=true)", "one-step"])
def test_longer_from_full_state_is_the_longer_training(tmp_path: Path, recipe: str):
    """A trial that continues another with its momentum ends like one that was trained at once.

    This is true for a constant schedule. A cosine schedule would start again.
    """
    rule = make_recipe(RecipeSpec.parse(recipe)).spec
    constant = {"recipe": rule, "protocol": Protocol(batch_size=32, schedule="constant")}
    keep([make_trial(epochs=2, **constant)], tmp_path, "state")
    longer = make_trial(epochs=3, start=Start(epochs=2, what="state"), **constant)
    at_once = make_trial(epochs=3, **constant)
    records = keep([longer, at_once], tmp_path, stack=1)
    assert len({longer.trial_id, at_once.trial_id}) == 2
    assert records[0].final("ori-test") == records[1].final("ori-test")
    assert records[0].outcome.curves["train"].loss[:2] == [None, None]
    assert records[0].outcome.learning_rate == records[1].outcome.learning_rate
    nets = [network(tmp_path, trial).state_dict() for trial in (longer, at_once)]
    assert all(torch.equal(nets[0][name], nets[1][name]) for name in nets[0])


def test_longer_from_weights_is_a_new_schedule_and_resumes_to_the_bit(tmp_path: Path):
    keep([make_trial(epochs=2)], tmp_path)
    longer = make_trial(epochs=5, start=Start(epochs=2))
    (whole,) = keep([longer], tmp_path)
    assert whole.outcome.learning_rate == 0.1
    interrupt([longer], 6, checkpoint_dir=tmp_path / "c", start_from=tmp_path)
    (resumed,) = keep([longer], tmp_path, checkpoint_dir=tmp_path / "c")
    assert (whole.cost.resumed, resumed.cost.resumed) == (0, 1)
    assert resumed.outcome == whole.outcome
    assert_as_recorded(tmp_path, [resumed])


def test_each_trial_of_a_stack_starts_from_its_network(tmp_path: Path):
    keep(SEVERAL, tmp_path, "state", stack=4)
    constant = Protocol(batch_size=32, schedule="constant")
    first = [trial.model_copy(update={"protocol": constant}) for trial in SEVERAL]
    first = [Trial.model_validate(trial.model_dump()) for trial in first]
    keep(first, tmp_path, "state", stack=4)
    start = {"epochs": 2, "what": "state"}
    longer = [Trial(**one.model_dump() | {"epochs": 3, "start": start}) for one in first]
    at_once = [Trial(**one.model_dump() | {"epochs": 3}) for one in first]
    of_each = [keep(trials, tmp_path, stack=4) for trials in (longer, at_once)]
    for one, other in zip(*of_each, strict=True):
        assert one.final("ori-test") == other.final("ori-test")


def test_longer_trials_have_other_ids():
    plain, longer = make_trial(epochs=3), make_trial(epochs=3, start=Start(epochs=2))
    state = make_trial(epochs=3, start=Start(epochs=2, what="state"))
    assert len({plain.trial_id, longer.trial_id, state.trial_id}) == 3
    assert longer.source == make_trial(epochs=2)
    assert "start" not in plain.model_dump_json()
    assert Trial.model_validate_json(longer.model_dump_json()).trial_id == longer.trial_id


@pytest.mark.parametrize(
    ("kept", "changes", "images", "message"),
    [
        (None, {}, 100, "has not kept"),
        ("weights", {"start": Start(epochs=2, what="state")}, 100, "has only weights"),
        ("weights", {"seed": 4}, 100, "has not kept"),
        ("weights", {"epochs": 2}, 100, "and more epochs"),
        ("weights", {}, 96, "other images"),
    ],
)
def test_longer_from_a_missing_network_is_one_line(tmp_path, kept, changes, images, message):
    if kept:
        keep([make_trial()], tmp_path, kept)
    longer = make_trial(**{"epochs": 3, "start": Start(epochs=2), **changes})
    with pytest.raises(TrainingError, match=message):
        train([longer], few_digits(train=images), start_from=tmp_path)


# selection, and invalid files


def test_networks_that_are_asked_for_too_widely_are_listed_a_dozen_of_them(tmp_path: Path):
    """The tensors of the listed networks are not read; here each file has only one tensor."""
    folder = tmp_path / "weights" / "11"
    folder.mkdir(parents=True)
    for seed in reversed(range(13)):
        record = make_record(seed=seed)
        about = {"record": record.model_dump_json(by_alias=True)}
        save_file({"x": torch.zeros(1)}, folder / f"{record.trial_id}.safetensors", about)
    found = kept_networks(tmp_path, 11)
    assert [one.trial.seed for one in found] == list(range(13))
    assert [one.trial.seed for one in kept_networks(tmp_path, seed=12)] == [12]
    assert kept_networks(tmp_path, 284) == []
    with pytest.raises(InputError) as refused:
        rebench.network(11, run=tmp_path, recipe="nb201")
    said, _, listed = str(refused.value).partition(": ")
    assert said == "13 networks match cell 11, recipe nb201; name one, such as"
    assert listed == "; ".join(one.describe() for one in found[:12])


def test_error_for_several_networks_or_no_network_names_them(tmp_path: Path):
    keep(SEVERAL, tmp_path)
    for cell, asked, error, message in (
        (6111, {"recipe": "topology"}, InputError, "2 .*topology seed 1 .* topology seed 2"),
        (6111, {"seed": 3}, MissingDataError, "cell 6111, seed 3"),
        (11, {}, MissingDataError, "cell 11"),
        (6111, {"seed": -1, "epochs": 0}, InputError, "^seed: .* got -1"),
        (6111, {"sed": 3}, InputError, "unknown trial field 'sed'; valid: seed, .*recipe"),
        (6111, {"run": tmp_path / "other"}, MissingDataError, "no folder"),
    ):
        with pytest.raises(error, match=message):
            rebench.network(cell, **{"run": tmp_path} | asked)
    assert len(kept_networks(tmp_path, seed=2)) == 2


@pytest.fixture(scope="module")
def one_network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kept")
    keep([make_trial()], folder)
    return folder


@pytest.fixture
def kept_file(one_network: Path, tmp_path: Path) -> Path:
    """Return the file of a kept network in a copy of its folder, `tmp_path`."""
    shutil.copytree(one_network, tmp_path, dirs_exist_ok=True)
    (path,) = tmp_path.glob("weights/*/*")
    return path


def _flipped(place: float):
    def change(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[int(place * len(content))] ^= 1
        path.write_bytes(content)

    return change


def _cut(size: int):
    return lambda path: path.write_bytes(path.read_bytes()[:size])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        *((_flipped(place), make_trial().trial_id) for place in (0.001, 0.2, 0.5, 0.9999)),
        *((_cut(size), "is damaged") for size in (0, 7, 500, -1)),
        (
            lambda path: path.rename(path.with_stem(make_trial(1).trial_id)),
            "has the wrong name: it contains trial",
        ),
    ],
)
def test_damaged_or_renamed_file_is_refused(kept_file: Path, tmp_path: Path, change, message: str):
    change(kept_file)
    with pytest.raises(StoreError, match=message):
        rebench.network(6111, run=tmp_path)


def test_foreign_file_and_foreign_tensors_are_refused(kept_file: Path, tmp_path: Path):
    path = kept_file
    tensors, about = load_file(path), _about(path)
    save_file(tensors, path)
    with pytest.raises(StoreError, match="foreign or damaged"):
        rebench.network(6111, run=tmp_path)
    save_file({**tensors, "classifier.bias": torch.zeros(10**6)}, path, about)
    with pytest.raises(StoreError, match="does not contain the tensors of cell 6111"):
        rebench.network(6111, run=tmp_path)
    for told in ("[]", "{", about["record"].replace('"seed":', '"sed":')):
        save_file(tensors, path, {**about, "record": told})
        with pytest.raises(StoreError, match="it contains no record"):
            rebench.network(6111, run=tmp_path)
    lied = json.loads(about["record"])
    lied["outcome"]["learning_rate"] = 99.0
    for told in ({**about, "record": json.dumps(lied)}, {"record": about["record"]}):
        save_file(tensors, path, told)
        with pytest.raises(StoreError, match="checksum"):
            rebench.network(6111, run=tmp_path)


def _about(path: Path) -> dict[str, str]:
    head = path.read_bytes()
    size = int.from_bytes(head[:8], "little")
    return json.loads(head[8 : 8 + size])["__metadata__"]


# killed


def _train_until_killed(folder: str, killed_after: float | None) -> None:
    """Train those of 24 short trials without a record; check that recorded trials have networks."""
    torch.set_num_threads(1)
    options = TrainOptions(keep="weights")
    trials = [make_trial(seed, epochs=1) for seed in range(24)]
    if killed_after is not None:
        signal.setitimer(signal.ITIMER_PROF, killed_after)
    train(
        [trial for trial in trials if not Path(folder, f"{trial.trial_id}.json").exists()],
        few_digits(),
        stack=1,
        on_network=functools.partial(save_network, Path(folder), options),
        on_record=lambda record: Path(folder, f"{record.trial_id}.json").write_text(
            record.model_dump_json(by_alias=True)
        ),
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_at_random_moments_every_record_has_its_network_whole(tmp_path: Path):
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["rebench.train", "trialsets", __name__])
    rng, hits = random.Random(1), 0
    for attempt in range(9):
        killed_after = rng.uniform(0.05, 0.3) if attempt < 8 else None
        arguments = (str(tmp_path), killed_after)
        process = context.Process(target=_train_until_killed, args=arguments)
        process.start()
        process.join()
        hits += process.exitcode == -signal.SIGPROF
        kept = {
            path.stem: KeptNetwork.open(path) for path in tmp_path.glob("weights/*/*.safetensors")
        }
        for one in kept.values():
            one.read()
        assert {path.stem for path in tmp_path.glob("*.json")} <= kept.keys()
    assert process.exitcode == 0
    assert hits >= 4
    assert len(kept) == 24
    straight = tmp_path / "straight"
    keep([one.trial for one in kept.values()], straight, stack=1)
    for path in straight.glob("weights/*/*"):
        assert_same_tensors(path, tmp_path / "weights" / "6111" / path.name)


# the command line


def test_train_keeps_and_goes_on_longer(tmp_path: Path, capsys):
    size = ["--set", "skeleton.channels=2", "--set", "skeleton.cells_per_stage=1"]
    command = ["train", "284", "--dataset", "digits", *size, "--epochs", "1", "--json"]
    assert main([*command, "--longer", "1"]) == 2
    assert "add --keep FOLDER" in capsys.readouterr().err
    command += ["--keep", str(tmp_path / "nets")]
    assert main([*command, "--set", "train.keep=state"]) == 0
    for what in ("weights", "state"):
        assert main([*command, "--longer", "2", "--set", f"start.what={what}"]) == 0
        record = Record.model_validate_json(capsys.readouterr().out.splitlines()[-1])
        assert (record.trial.epochs, record.trial.start) == (3, Start(epochs=1, what=what))
    net = rebench.network(284, run=tmp_path / "nets", epochs=1)
    assert net.cell.index == 284
    shutil.copytree(tmp_path / "nets" / "weights" / "284", tmp_path / "part" / "weights" / "284")
    assert len(kept_networks(tmp_path / "part", 284)) == 3
