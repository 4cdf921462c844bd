"""The trainer reaches the accuracy of the benchmark's loop, within the noise of the seeds."""

from __future__ import annotations

import statistics

import pytest
import torch
from support import PROJECT
from trialsets import make_trial

from rebench.data import load_data
from rebench.runs import Protocol
from rebench.train import train

SEEDS = 3


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("cell", [11, 284])
def test_accuracy_is_the_reference_loops_within_seed_noise(cell: int, monkeypatch):
    monkeypatch.syspath_prepend(str(PROJECT / "scripts/bench"))
    from reference_loop import reference_epochs

    data = load_data("digits")
    trials = [
        make_trial(seed, cell=cell, epochs=4, protocol=Protocol(batch_size=64))
        for seed in range(SEEDS)
    ]
    theirs = []
    with torch.random.fork_rng():
        for trial in trials:
            *_, last = reference_epochs(trial, data, torch.device("cpu"), workers=0)
            theirs.append(last["test_accuracy"])
    ours = [record.final("ori-test")[0] for record in train(trials, data, stack=SEEDS)]
    spread = statistics.stdev(theirs) + statistics.stdev(ours)
    # The tolerance is four standard errors of the means, and 2 points in addition.
    assert abs(statistics.mean(theirs) - statistics.mean(ours)) < 4 * spread / SEEDS**0.5 + 2
    assert min(ours) > 50  # chance is 10
