"""One trial, trained: against a loop written out by hand, repeated, diverging, refused."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from trialsets import few_cifar, few_digits, gentle, make_trial

from rebench.data import Images, draw_epoch, epoch_generator
from rebench.errors import InputError, TrainingError
from rebench.nets import reference_net
from rebench.recipes import make_recipe
from rebench.runs import Protocol, Skeleton
from rebench.train import Speed, train

SMALL_CELLS = [0, 11, 284, 6111]


def by_hand(trial, data):
    """Train by the benchmark's loop: its network, torch's SGD, and images cropped one by one."""
    skeleton, protocol = trial.skeleton, trial.protocol
    net = reference_net(
        trial.cell, channels=skeleton.channels, cells_per_stage=skeleton.cells_per_stage
    )
    recipe = make_recipe(trial.recipe)
    recipe.apply_init(net, trial.cell, epoch_generator(trial.seed, 0, "init"))
    lr = recipe.hyperparameters(trial.cell).learning_rate
    optimizer = torch.optim.SGD(
        net.parameters(), lr=lr, momentum=0.9, nesterov=True, weight_decay=5e-4
    )
    spec, n = data.spec, len(data.train)
    mean, std = np.array(spec.mean)[:, None, None], np.array(spec.std)[:, None, None]
    side, around = spec.size, (spec.padding, spec.padding)
    padded = np.pad(data.train.pixels.numpy() / 255, ((0, 0), (0, 0), around, around))
    curves = {"train": ([], []), "ori-test": ([], [])}
    for epoch in range(trial.epochs):
        for group in optimizer.param_groups:
            group["lr"] = lr * 0.5 * (1 + math.cos(math.pi * epoch / trial.epochs))
        draw = draw_epoch(spec, n, trial.seed, epoch, augment=True)
        total, right = 0.0, 0
        for first in range(0, n, protocol.batch_size):
            rows = range(first, min(first + protocol.batch_size, n))
            images = []
            for row in rows:
                y, x = draw.corner[row].tolist()
                image = padded[draw.order[row], :, y : y + side, x : x + side]
                image = image[..., ::-1] if draw.flip[row] else image
                images.append((image - mean) / std)
            labels = data.train.labels[draw.order[rows.start : rows.stop]]
            logits = net(torch.tensor(np.stack(images), dtype=torch.float32))
            loss = F.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(rows)
            right += int((logits.argmax(1) == labels).sum())
        curves["train"][0].append(100 * right / n)
        curves["train"][1].append(total / n)
        net.eval()
        test = data.evaluation["ori-test"]
        with torch.no_grad():
            pixels = (test.pixels.numpy() / 255 - mean) / std
            logits = net(torch.tensor(pixels, dtype=torch.float32))
        net.train()
        curves["ori-test"][0].append(100 * float((logits.argmax(1) == test.labels).double().mean()))
        curves["ori-test"][1].append(float(F.cross_entropy(logits, test.labels)))
    return curves


SLOW, SHARED = pytest.mark.slow, pytest.mark.shared_data
FLIPPED = {"dataset": "cifar10", "epochs": 3}  # digits are not flipped
BY_HAND = [
    *(pytest.param({"cell": cell}) for cell in SMALL_CELLS),
    *(pytest.param({"cell": cell, "network": "xautodl"}, marks=SLOW) for cell in SMALL_CELLS),
    pytest.param({"cell": 11, **FLIPPED}, marks=[SHARED, SLOW]),
    pytest.param({"cell": 284, **FLIPPED}, marks=SHARED),
]


@pytest.mark.parametrize("changes", BY_HAND, ids=str)
def test_curves_equal_the_loop_written_by_hand(changes: dict[str, object]):
    data = few_cifar(128, 64) if "dataset" in changes else few_digits()
    trial = gentle(**changes)
    (record,) = train([trial], data)
    image = 100 / len(data.evaluation["ori-test"])  # one image of the smaller split, in percent
    for split, (accuracy, loss) in by_hand(trial, data).items():
        assert record.outcome.curves[split].loss == pytest.approx(loss, rel=2e-3)
        assert record.outcome.curves[split].accuracy == pytest.approx(accuracy, abs=1.01 * image)


def test_another_seed_or_recipe_has_another_outcome():
    data = few_digits()
    records = train([make_trial(0), make_trial(1), gentle(0, 0.3)], data, stack=1)
    assert len({str(record.outcome.curves) for record in records}) == 3
    assert records[2].outcome.learning_rate == 0.3


def test_training_does_not_change_the_global_generator():
    state = torch.get_rng_state()
    train([make_trial(epochs=1)], few_digits())
    assert torch.equal(state, torch.get_rng_state())


def test_record_contains_the_trial_and_the_machine():
    data = few_digits()
    (record,) = train([make_trial(7)], data)
    assert record.trial == make_trial(7)
    assert len(record.outcome.curves["ori-test"].loss) == 2
    assert record.provenance.data_digest == data.digest
    assert record.provenance.device.startswith("cpu")
    assert record.provenance.switches == {"channels_last": True, "compile": False}
    assert (record.cost.stack, record.cost.params_m) == (1, 0.017606)
    assert record.cost.images_per_s > 0


def test_divergence_ends_the_trial_and_is_recorded():
    data = few_digits()
    (record,) = train([gentle(lr=1e30, epochs=5)], data)
    assert record.outcome.status == "diverged"
    assert record.outcome.diverged_epoch == 1
    curve = record.outcome.curves["ori-test"]
    # a network of NaN answers the first class: its accuracy is that class's share
    share = float((data.evaluation["ori-test"].labels == 0).double().mean())
    assert curve.accuracy == [pytest.approx(100 * share)]
    assert curve.loss == [None]


def test_accuracy_counts_all_classes():
    data = few_digits()
    late = data.train.labels + 90
    wide = dataclasses.replace(
        data,
        spec=dataclasses.replace(data.spec, classes=100),
        train=Images(data.train.pixels, late),
        evaluation={"ori-test": Images(data.train.pixels, late)},
    )
    (record,) = train([make_trial(epochs=10)], wide)
    accuracy, _ = record.final("ori-test")
    assert accuracy is not None
    assert accuracy > 20  # seen: 46; counting only the first ten classes would give 0


def _loss(trial, **how) -> float:
    return train([trial], few_digits(), **how)[0].final("train")[1]


def test_label_smoothing_and_plain_batches_change_the_outcome():
    changes = ({}, {"label_smoothing": 0.3}, {"augment": False})
    protocols = [Protocol(batch_size=32, **change) for change in changes]
    assert len({_loss(make_trial(protocol=protocol)) for protocol in protocols}) == 3


def test_bf16_is_near_float32():
    losses = [
        _loss(make_trial(protocol=Protocol(batch_size=32, precision=precision)))
        for precision in ("float32", "bf16")
    ]
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=0.1)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.needs("g++")  # torch.compile compiles C++ on a CPU
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compiling_changes_rounding_only():
    trial = gentle(cell=284, epochs=1)
    # Training has two batches of 32 images, and the test one, so the step is compiled only once.
    # Scalar kernels take two thirds of the time to compile.
    with torch._inductor.config.patch({"cpp.simdlen": 1}):
        plain, compiled = (
            train([trial], few_digits(64, 32), speed=Speed(compile=on))[0].outcome.curves
            for on in (False, True)
        )
    for split in ("train", "ori-test"):
        assert compiled[split].loss == pytest.approx(plain[split].loss, rel=1e-3)


def test_memory_format_is_a_switch_that_changes_rounding_only():
    losses = [_loss(gentle(), speed=Speed(channels_last=on)) for on in (True, False)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def test_cell_without_a_path_trains_as_the_benchmark_trains_it():
    cell = "|none~0|+|none~0|none~1|+|none~0|none~1|none~2|"
    (record,) = train([make_trial(cell=cell)], few_digits())
    assert record.outcome.status == "done"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"device": "cuda"}, "GPU"),
        ({"device": "gpu"}, "unknown device"),
        ({"speed": Speed(cuda_graphs=True)}, "CUDA graphs need a GPU"),
    ],
)
@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_gpu_options_without_a_gpu_fail_in_one_line(arguments, message: str):
    with pytest.raises(TrainingError, match=message) as caught:
        train([make_trial()], few_digits(), **arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("trials", "stack", "message"),
    [
        ([make_trial(dataset="digits16")], 1, "digits16/full"),
        ([make_trial(), make_trial()], 1, "twice"),
        ([make_trial()], 0, "stack must be at least 1"),
    ],
)
def test_trials_that_cannot_be_trained_are_named(trials, stack: int, message: str):
    with pytest.raises(InputError, match=message):
        train(trials, few_digits(), stack=stack)


def test_split_with_two_evaluations_records_both():
    (record,) = train(
        [make_trial(split="valid", epochs=1, skeleton=Skeleton(channels=2, cells_per_stage=1))]
    )
    assert set(record.outcome.curves) == {"train", "x-valid", "ori-test"}
