"""Real images for one-epoch searches: small images for the laws, and those of the trainer."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it

from rebench.data import BatchSource, data_root, data_spec, is_present, load_data, read_raw


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SmallImages:
    """Training images of zero mean and unit variance, with name and classes."""

    name: str
    pixels: torch.Tensor  # float32, [n, channels, side, side]
    labels: torch.Tensor
    classes: int = 10

    def on(self, device: str) -> SmallImages:
        """Return the images on a device."""
        return dataclasses.replace(
            self, pixels=self.pixels.to(device), labels=self.labels.to(device)
        )

    def pooled(self, side: int) -> SmallImages:
        """Average the images down to `side` pixels and normalise; keep smaller images unchanged."""
        if self.pixels.shape[-1] <= side:
            return self
        pixels = F.adaptive_avg_pool2d(self.pixels, side)
        return dataclasses.replace(self, pixels=(pixels - pixels.mean()) / pixels.std())


def load_small_images(
    name: str | None = None, root: Path | None = None, limit: int | None = 16_384
) -> SmallImages:
    """Return the first `limit` training images of `name`.

    Args:
        name: a data set; None is Fashion-MNIST if it is on this machine, and sklearn's digits
            otherwise.
        root: folder of data sets.
        limit: maximal number of images, None for all; their order is fixed.
    """
    if name is None:
        present = is_present(data_spec("fashion"), data_root(root))
        name = "fashion" if present else "digits"
    images = read_raw(name, root).train
    pixels = images.pixels[:limit].float()
    if name == "fashion":
        pixels = pixels[:, :1, 2:30, 2:30]  # grey, without the padding to 32 pixels
    elif name == "digits":
        pixels = pixels[:, :1]
    pixels = (pixels - pixels.mean()) / pixels.std()
    return SmallImages(
        name=name, pixels=pixels, labels=images.labels[:limit], classes=data_spec(name).classes
    )


def training_images(
    dataset: str, samples: int | None = None, device: str = "cpu", root: Path | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return training images, normalised as for training, and their classes.

    `samples` of them are a fixed random choice; None takes all.
    """
    train = load_data(dataset, root=root).train
    if samples is not None and samples < len(train):
        order = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))
        train = train.select(order[:samples])
    source = BatchSource(train, data_spec(dataset), device=device, channels_last=False)
    batches, labels = zip(*source.plain(1024), strict=True)
    return torch.cat(batches), torch.cat(labels)
