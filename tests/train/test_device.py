"""A step on another device: all tensors are on the device, and nothing is copied to the host.

No GPU is needed. The tensors are fake tensors of PyTorch: they have a shape and a device, but no
values. Mixing two devices fails, and so does reading a value.
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Callable, Iterator

import psutil
import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from trialsets import few_digits, make_trial

from rebench.errors import TrainingError
from rebench.runs import RecipeSpec
from rebench.train import Sources, Speed, StackRun, train
from rebench.train.device import peak_memory_mib, prepare_device

ELSEWHERE = torch.device("meta")
Start = Callable[..., StackRun]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """A function that starts the trials of a stack with fake tensors."""

    def to(module: nn.Module, device: torch.device) -> nn.Module:
        # PyTorch moves a module by swapping tensors, which fake ones do not allow.
        for part in module.modules():
            for name, parameter in part.named_parameters(recurse=False):
                part.register_parameter(name, nn.Parameter(parameter.detach().to(device)))
            for name, buffer in part.named_buffers(recurse=False):
                part.register_buffer(name, buffer.to(device))
        return module

    def begin(cell: int, copies: int, network: str = "rebench") -> StackRun:
        recipes = [RecipeSpec(name=name) for name in ("nb201", "topology", "am-mup")[:copies]]
        trials = [
            make_trial(seed, cell=cell, recipe=recipe, network=network)
            for seed, recipe in enumerate(recipes)
        ]
        sources = Sources(data, ELSEWHERE, channels_last=True)
        return StackRun(trials, sources, ELSEWHERE, Speed())

    monkeypatch.setattr(nn.Module, "to", to)
    monkeypatch.setattr(torch.Tensor, "__deepcopy__", lambda tensor, _: tensor.clone())
    data = few_digits(36, 32)  # two steps: a whole batch, and a small last one
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield begin


# Cell 6 has a convolution of zeros, of which only the bias is computed; both cells pool.
@pytest.mark.parametrize(
    ("cell", "copies", "network"),
    [
        pytest.param(11, 1, "rebench", marks=pytest.mark.slow),
        pytest.param(11, 3, "rebench", marks=pytest.mark.slow),
        pytest.param(6, 1, "rebench", marks=pytest.mark.slow),
        (6, 2, "rebench"),
        (11, 1, "xautodl"),
    ],
)
def test_steps_stay_on_their_device_and_read_nothing_back(
    start: Start, cell: int, copies: int, network: str
):
    run = start(cell, copies, network)
    run.train_epoch(lambda: False)
    assert run.step == 2
    assert run.epoch_is_over
    # Metrics are read back, once, when all batches of a split are done.
    with pytest.raises(DataDependentOutputException):
        run.finish_epoch()
    with pytest.raises(DataDependentOutputException):
        run._stack.evaluate(run._sources.evaluation["ori-test"].plain(500))


def test_the_check_sees_a_read_and_a_mix(start: Start, monkeypatch: pytest.MonkeyPatch):
    run = start(11, 1)
    step = run._stack.train
    read: list[object] = []

    def reading(images: torch.Tensor, labels: torch.Tensor) -> None:
        step(images, labels)
        read.append(run._stack.loss[0].item())

    monkeypatch.setattr(run._stack, "train", reading)
    with pytest.raises(DataDependentOutputException):
        run.train_epoch(lambda: False)
    monkeypatch.setattr(run._stack, "train", lambda images, labels: step(images, labels.cpu()))
    with pytest.raises(RuntimeError, match="same device"):
        run.train_epoch(lambda: False)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux resets the peak of a process")
def test_peak_memory_is_of_the_trial_and_not_of_the_process_before_it():
    def hold(mib: int) -> None:
        with mmap.mmap(-1, mib * 2**20) as block:
            for page in range(0, len(block), mmap.PAGESIZE):
                block[page] = 1

    hold(768)
    resident = psutil.Process().memory_info().rss / 2**20
    trials = [make_trial(0, epochs=1), make_trial(1, epochs=1)]
    first, second = train(
        trials, few_digits(), on_epoch=lambda report: hold(1 if report.trial.seed else 384)
    )
    # Memory that the process gives back meanwhile makes the peak a little smaller.
    assert resident + 320 <= first.cost.peak_memory_mib < resident + 768
    assert second.cost.peak_memory_mib <= first.cost.peak_memory_mib - 256


def test_peak_memory_of_a_gpu_is_the_memory_that_torch_allocated(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda _: 3 * 2**20 + 2**18)
    assert peak_memory_mib(torch.device("cuda")) == 3.2


def test_gpus_are_numbered_from_zero(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [str(prepare_device(name, Speed())) for name in ("cuda", "cuda:1")] == ["cuda", "cuda:1"]
    with pytest.raises(TrainingError, match="no device 'cuda:2': this machine has 2 GPU"):
        prepare_device("cuda:2", Speed())
