"""Reference training loop for timings, written like the benchmark's own code.

PIL crops, flips and normalises single images in the workers of a DataLoader. The optimiser is
torch's SGD, and every step reads metrics with `.item()`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from PIL import Image, ImageOps
from torch.utils.data import DataLoader, Dataset, get_worker_info

from rebench.data import DataSpec, Images, TrainingData, epoch_generator
from rebench.nets import reference_net
from rebench.recipes import make_recipe
from rebench.runs import Trial

__all__ = ["PilImages", "reference_epochs"]


class PilImages(Dataset[tuple[torch.Tensor, int]]):
    """Images for PIL, augmented one at a time."""

    def __init__(self, images: Images, spec: DataSpec, *, augment: bool, seed: int) -> None:
        self._images = [Image.fromarray(row) for row in images.pixels.permute(0, 2, 3, 1).numpy()]
        self._labels = images.labels.tolist()
        self._spec, self._augment = spec, augment
        self._mean = torch.tensor(spec.mean)[:, None, None]
        self._std = torch.tensor(spec.std)[:, None, None]
        self._seed = seed
        self._random = np.random.default_rng(seed)

    def draw_as(self, worker: int) -> None:
        """Give this loader worker its generator; copies of one generator would repeat draws."""
        self._random = np.random.default_rng([self._seed, worker])

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image, spec = self._images[index], self._spec
        if self._augment:
            if spec.flip and self._random.random() < 0.5:
                image = ImageOps.mirror(image)
            left, top = self._random.integers(0, 2 * spec.padding + 1, 2).tolist()
            padded = ImageOps.expand(image, spec.padding)
            image = padded.crop((left, top, left + spec.size, top + spec.size))
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous().float() / 255
        return (pixels - self._mean) / self._std, self._labels[index]


def _start_worker(worker: int) -> None:
    info = get_worker_info()
    assert info is not None, "called in a worker"
    info.dataset.draw_as(worker)  # type: ignore[attr-defined]  # it is PilImages


def reference_epochs(
    trial: Trial,
    data: TrainingData,
    device: torch.device,
    workers: int,
    after_step: Callable[[], bool] = lambda: False,
) -> Iterator[dict[str, float]]:
    """Train and yield each epoch's metrics; end when `after_step` says so.

    The trial's seed decides flips and crops. As in the benchmark's code, torch's global generator
    shuffles.
    """
    torch.manual_seed(trial.seed)
    net = reference_net(
        trial.cell,
        channels=trial.skeleton.channels,
        cells_per_stage=trial.skeleton.cells_per_stage,
        classes=data.spec.classes,
    )
    recipe = make_recipe(trial.recipe)
    recipe.apply_init(net, trial.cell, epoch_generator(trial.seed, 0, "init"))
    lr = recipe.hyperparameters(trial.cell).learning_rate
    net.to(device)
    optimizer = torch.optim.SGD(
        net.parameters(), lr=lr, momentum=0.9, weight_decay=5e-4, nesterov=True
    )

    def loader(images: Images, *, augment: bool) -> DataLoader[tuple[torch.Tensor, int]]:
        dataset = PilImages(images, data.spec, augment=augment, seed=trial.seed)
        return DataLoader(
            dataset,
            trial.protocol.batch_size,
            shuffle=augment,
            num_workers=workers,
            worker_init_fn=_start_worker,
            persistent_workers=workers > 0,
            pin_memory=device.type == "cuda",
        )

    train_loader = loader(data.train, augment=True)
    test_loader = loader(data.evaluation["ori-test"], augment=False)
    for epoch in range(trial.epochs):
        for group in optimizer.param_groups:
            group["lr"] = lr * (1 + math.cos(math.pi * epoch / trial.epochs)) / 2
        net.train()
        total, right, seen = 0.0, 0, 0
        for images, labels in train_loader:
            inputs, targets = images.to(device, non_blocking=True), labels.to(device)
            optimizer.zero_grad()
            logits = net(inputs)
            loss = F.cross_entropy(logits, targets)
            loss.backward()  # type: ignore[no-untyped-call]  # torch
            optimizer.step()
            total += loss.item() * len(targets)
            right += int((logits.argmax(1) == targets).sum().item())
            seen += len(targets)
            if after_step():
                return
        net.eval()
        test_right = 0
        with torch.no_grad():
            for images, labels in test_loader:
                logits = net(images.to(device))
                test_right += int((logits.argmax(1).cpu() == labels).sum().item())
        yield {
            "train_loss": total / seen,
            "train_accuracy": 100 * right / seen,
            "test_accuracy": 100 * test_right / len(test_loader.dataset),
        }
