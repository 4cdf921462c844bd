"""Batches made on the device, against a slow reference written image by image."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from rebench.data import BatchSource, Images, data_spec, draw_epoch

CIFAR = data_spec("cifar10")


def images(n: int, size: int = 32) -> Images:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (n, 3, size, size), generator=generator, dtype=torch.uint8)
    return Images(pixels, torch.arange(n) % 10)


def source(n: int = 20, *, channels_last: bool = True) -> BatchSource:
    return BatchSource(images(n), CIFAR, device="cpu", channels_last=channels_last)


def slow(pixels: np.ndarray, flip: int, corner: tuple[int, int]) -> np.ndarray:
    """Return one image, padded with zeros, cropped, mirrored, scaled to 0..1 and normalised."""
    padded = np.zeros((3, 40, 40), dtype=np.float64)
    padded[:, 4:36, 4:36] = pixels / 255
    cut = padded[:, corner[0] : corner[0] + 32, corner[1] : corner[1] + 32]
    cut = cut[:, :, ::-1] if flip else cut
    mean, std = np.array(CIFAR.mean), np.array(CIFAR.std)
    # the benchmark pads before it normalises: padding is black, not the mean colour
    return (cut - mean[:, None, None]) / std[:, None, None]


@pytest.mark.parametrize("channels_last", [True, False])
def test_batches_equal_the_slow_reference(channels_last: bool):
    batches = source(channels_last=channels_last)
    draw = draw_epoch(CIFAR, 20, seed=3, epoch=2, augment=True)
    got = list(batches.epoch([3], 2, 8, augment=True))
    wanted = torch.channels_last if channels_last else torch.contiguous_format
    assert all(batch.is_contiguous(memory_format=wanted) for batch, _ in got)
    assert [len(batch) for batch, _ in got] == [8, 8, 4]
    pixels = images(20).pixels.numpy()
    expected = np.stack(
        [
            slow(pixels[draw.order[i]], int(draw.flip[i]), tuple(draw.corner[i].tolist()))
            for i in range(20)
        ]
    )
    assert np.abs(torch.cat([batch for batch, _ in got]).numpy() - expected).max() < 1e-5
    assert torch.cat([labels[0] for _, labels in got]).tolist() == (draw.order % 10).tolist()


def test_plain_batches_are_the_normalised_images_in_order():
    got = torch.cat([batch for batch, _ in source().plain(8)]).numpy()
    expected = np.stack([slow(pixels, 0, (4, 4)) for pixels in images(20).pixels.numpy()])
    assert np.abs(got - expected).max() < 1e-5


def test_without_augmentation_only_the_order_is_random():
    batch, labels = next(source().epoch([1], 0, 20, augment=False))
    order = draw_epoch(CIFAR, 20, 1, 0, augment=False).order
    plain = torch.cat([batch for batch, _ in source().plain(20)])
    assert torch.equal(batch, plain[order])
    assert torch.equal(labels[0], order % 10)


def test_order_is_a_permutation_and_flips_and_crops_are_equally_likely():
    draw = draw_epoch(CIFAR, 50_000, 7, 1, augment=True)
    assert sorted(draw.order.tolist()) == list(range(50_000))
    assert stats.binomtest(int(draw.flip.sum()), 50_000).pvalue > 1e-3
    counts = np.bincount((draw.corner[:, 0] * 9 + draw.corner[:, 1]).numpy(), minlength=81)
    assert len(counts) == 81
    assert stats.chisquare(counts).pvalue > 1e-3
    for drawn in (draw.flip, draw.corner[:, 0]):
        assert abs(stats.pearsonr(draw.order.numpy(), drawn.numpy()).statistic) < 0.02


def test_digits_are_never_flipped():
    assert not draw_epoch(data_spec("digits"), 1000, 0, 0, augment=True).flip.any()


def test_draws_differ_by_seed_and_epoch_and_do_not_use_the_global_generator():
    state = torch.get_rng_state()
    first, *others = (
        draw_epoch(CIFAR, 100, *key, augment=True) for key in ((0, 0), (0, 1), (1, 0))
    )
    for other in others:
        assert not torch.equal(first.order, other.order)
        assert not torch.equal(first.corner, other.corner)
    assert torch.equal(state, torch.get_rng_state())


def test_stacked_copies_get_the_batches_of_single_networks():
    stacked = list(source().epoch([5, 9], 1, 8, augment=True))
    for place, seed in enumerate([5, 9]):
        for (batch, labels), (alone, alone_labels) in zip(
            stacked, source().epoch([seed], 1, 8, augment=True), strict=True
        ):
            assert torch.equal(batch[:, 3 * place : 3 * place + 3], alone)
            assert torch.equal(labels[place], alone_labels[0])
