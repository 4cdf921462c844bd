"""Training on a real GPU: repeated runs give the same bits; all ways to run a step agree."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from trialsets import few_digits, gentle, interrupt, make_trial

from rebench.nets.channelwise import average_of_neighbours
from rebench.train import Speed, train

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.mark.parametrize("cuda_graphs", [False, True])
@pytest.mark.parametrize("stack", [1, 3])
def test_stopped_and_resumed_run_has_the_same_bits(tmp_path: Path, stack: int, cuda_graphs: bool):
    trials = [make_trial(seed) for seed in range(stack)]
    options = {"device": "cuda", "stack": stack, "speed": Speed(cuda_graphs=cuda_graphs)}
    whole = train(trials, few_digits(), **options)
    interrupt(trials, 5, checkpoint_dir=tmp_path, **options)
    resumed = train(trials, few_digits(), checkpoint_dir=tmp_path, **options)
    assert [record.outcome for record in resumed] == [record.outcome for record in whole]
    assert [record.cost.resumed for record in resumed] == [1] * stack


@pytest.mark.parametrize("cuda_graphs", [False, True])
def test_losses_are_those_of_the_cpu(cuda_graphs: bool):
    trials = [gentle(0, lr=1e-4), gentle(1, lr=1e-4)]
    speed = Speed(cuda_graphs=cuda_graphs, tf32=False)
    ours = train(trials, few_digits(), "cuda", stack=2, speed=speed)
    expected = train(trials, few_digits(), "cpu", stack=2)
    for record, other in zip(ours, expected, strict=True):
        for split, curve in other.outcome.curves.items():
            assert record.outcome.curves[split].loss == pytest.approx(curve.loss, rel=1e-4)


def test_peak_memory_is_of_the_trial_and_not_of_the_process_before_it():
    block = torch.zeros(2**30, dtype=torch.uint8, device="cuda")
    del block
    (record,) = train([make_trial(0)], few_digits(), "cuda")
    assert record.cost.peak_memory_mib < 1024


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_gradient_of_an_average_is_that_of_the_cpu(layout):
    images = torch.randn(2, 5, 7, 6, dtype=torch.float64)
    weights = torch.randn_like(images)
    found = []
    for device in ("cpu", "cuda"):
        values = images.to(device, memory_format=layout).detach().requires_grad_()
        (average_of_neighbours(values) * weights.to(device)).sum().backward()
        found.append(values.grad.cpu())
    torch.testing.assert_close(*found)
