"""Batches made on the device: crop, flip and normalisation of a whole batch in one expression.

The device stores the data set once, padded and packed: one int32 for each pixel, with the bytes of
three channels and a zero. A random crop with a random flip is one gather of int32 at the positions
``start of the image + corner of the crop + grid``. The grid runs forwards or backwards.

A CPU generator with the seed (seed, epoch) draws all random numbers of an epoch (order, flips,
corners) at its start. Any epoch can therefore be repeated separately, on any device. A copy in a
stack gets the same batches as a single network.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention

from rebench.data.images import Images
from rebench.data.spec import DataSpec

__all__ = ["BatchSource", "EpochDraw", "draw_epoch", "epoch_generator"]


def epoch_generator(seed: int, epoch: int, purpose: str = "batches") -> torch.Generator:
    """Return a separate CPU generator for one epoch of one trial seed and one purpose."""
    digest = hashlib.sha256(f"{purpose}/{seed}/{epoch}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little", signed=True))


@dataclass(frozen=True, slots=True, eq=False)
class EpochDraw:
    """Random numbers for one epoch of one trial, in order of use; one entry for each image.

    Attributes:
        order: int64, index of the image.
        flip: int64, 0 or 1.
        corner: int64, [n, 2]: row and column of the crop in the padded image.
    """

    order: torch.Tensor
    flip: torch.Tensor
    corner: torch.Tensor


def draw_epoch(spec: DataSpec, n: int, seed: int, epoch: int, *, augment: bool) -> EpochDraw:
    """Draw the order, flips and crops of one epoch over `n` images."""
    generator = epoch_generator(seed, epoch)
    order = torch.randperm(n, generator=generator)
    if not augment:
        centre = torch.full((n, 2), spec.padding)
        return EpochDraw(order, torch.zeros(n, dtype=torch.int64), centre)
    flip = torch.randint(2 if spec.flip else 1, (n,), generator=generator)
    corner = torch.randint(2 * spec.padding + 1, (n, 2), generator=generator)
    return EpochDraw(order, flip, corner)


class BatchSource:
    """Source of normalised batches, with the images on one device."""

    def __init__(
        self, images: Images, spec: DataSpec, *, device: torch.device | str, channels_last: bool
    ) -> None:
        self.spec = spec
        self.device = torch.device(device)
        self.labels = images.labels.to(self.device)
        self._format = torch.channels_last if channels_last else torch.contiguous_format
        self._width = spec.size + 2 * spec.padding
        self._packed = _pack(images.pixels.to(self.device), spec.padding)
        place = torch.arange(spec.size, device=self.device, dtype=torch.int32)
        forwards = place[:, None] * self._width + place
        self._grid = torch.stack([forwards, forwards.flip(1)]).reshape(2, -1)
        mean = torch.tensor(spec.mean)
        std = torch.tensor(spec.std)
        self._scale = (1 / (255 * std)).to(self.device)
        self._shift = (-mean / std).to(self.device)

    def __len__(self) -> int:
        return len(self.labels)

    def epoch(
        self,
        seeds: Sequence[int],
        epoch: int,
        batch_size: int,
        *,
        augment: bool,
        first_step: int = 0,
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield the training batches of an epoch, for one seed or several seeds of a stack.

        Yields:
            images, float32 [batch, seeds * 3, size, size], with the copies along the channels;
            labels, int64 [seeds, batch]. As in the benchmark, the last batch can be smaller.
        """
        n = len(self)
        draws = [draw_epoch(self.spec, n, seed, epoch, augment=augment) for seed in seeds]
        order = torch.stack([draw.order for draw in draws]).to(self.device)
        flips = torch.stack([draw.flip for draw in draws]).to(self.device)
        corner = torch.stack([draw.corner for draw in draws]).to(self.device)
        row, column = corner.unbind(-1)
        start = self._start(order, row, column)
        for first in range(first_step * batch_size, n, batch_size):
            part = slice(first, first + batch_size)
            images = self._gather(start[:, part], flips[:, part])
            yield images, self.labels[order[:, part]]

    def plain(self, batch_size: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield all images in order, uncropped, float32 [batch, 3, ...]; labels, int64 [batch]."""
        order = torch.arange(len(self), device=self.device)
        start = self._start(order[None], self.spec.padding, self.spec.padding)
        flips = torch.zeros_like(order)[None]
        for first in range(0, len(self), batch_size):
            part = slice(first, first + batch_size)
            yield self._gather(start[:, part], flips[:, part]), self.labels[part]

    def _start(
        self, image: torch.Tensor, row: torch.Tensor | int, column: torch.Tensor | int
    ) -> torch.Tensor:
        """Return the positions of the corners of crops in the packed data, int32."""
        start = (image * self._width + row) * self._width + column
        return start.to(torch.int32)

    def _gather(self, start: torch.Tensor, flips: torch.Tensor) -> torch.Tensor:
        """Return normalised crops; `start` [copies, batch] is their position in the packed data."""
        copies, batch = start.shape
        at = (start[..., None] + self._grid[flips]).permute(1, 2, 0)  # [batch, pixels, copies]
        # Complete rows are converted and scaled: three bytes at a time would take twice as long.
        packed = self._packed.index_select(0, at.flatten())
        pixels = packed.view(torch.uint8).float().view(-1, copies, 4)
        images = pixels[..., :3].reshape(-1, copies * 3)
        images.mul_(self._scale.repeat(copies))
        images.add_(self._shift.repeat(copies))
        size = self.spec.size
        stacked = images.view(batch, size, size, copies * 3)
        return stacked.permute(0, 3, 1, 2).contiguous(memory_format=self._format)


def _pack(pixels: torch.Tensor, padding: int) -> torch.Tensor:
    """Return padded images, uint8 [n, 3, h, w], as int32 [n * (h + 2p) * (w + 2p)]."""
    channels_last = pixels.permute(0, 2, 3, 1)
    packed = F.pad(channels_last, [0, 1] + [padding] * 4)
    return packed.contiguous().view(torch.int32).flatten()
