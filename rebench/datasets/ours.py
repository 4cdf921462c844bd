"""The data sets that come with the package, an entry each."""

from __future__ import annotations

import dataclasses
from typing import Final

from rebench.datasets.spec import Archive, DataSpec, ExpectedFile, Triple

__all__ = ["OURS"]


def _of_255(*values: float) -> Triple:
    red, green, blue = (value / 255 for value in values)
    return red, green, blue


_DIGITS = DataSpec(
    name="digits",
    title="scikit-learn's digits, 3x8x8 (embedded)",
    classes=10,
    size=8,
    train_images=1_437,
    test_images=360,
    padding=1,
    flip=False,
    mean=(0.305,) * 3,
    std=(0.376,) * 3,
    reader="rebench.data.digits:read_digits",
)

_CIFAR_10 = DataSpec(
    name="cifar10",
    title="CIFAR-10, 3x32x32",
    classes=10,
    size=32,
    train_images=50_000,
    test_images=10_000,
    padding=4,
    mean=_of_255(125.3, 123.0, 113.9),
    std=_of_255(63.0, 62.1, 66.7),
    reader="rebench.data.cifar:read_cifar",
    files=(
        ExpectedFile("data_batch_1", "c99cafc152244af753f735de768cd75f"),
        ExpectedFile("data_batch_2", "d4bba439e000b95fd0a9bffe97cbabec"),
        ExpectedFile("data_batch_3", "54ebc095f3ab1f0389bbae665268c751"),
        ExpectedFile("data_batch_4", "634d18415352ddfa80567beed471001a"),
        ExpectedFile("data_batch_5", "482c414d41f54cd18b22e5b47cb7c3cb"),
        ExpectedFile("test_batch", "40351d587109b95175f43aff81a1287e"),
    ),
    archive=Archive(
        name="cifar-10-python.tar.gz",
        url="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
        md5="c58f30108f718f92721af3b95e74349a",
        folder="cifar-10-batches-py",
    ),
    places=("cifar-10-batches-py", ""),
    get="rebench data fetch cifar10",
    valid_split="cifar10-valid",
)

_CIFAR_10_JPEG = dataclasses.replace(
    _CIFAR_10,
    name="cifar10-jpeg",
    title="CIFAR-10 coded as JPEG, 3x32x32",
    reader="rebench.data.cifar:read_jpegs",
    files=(ExpectedFile("cifar10-jpeg.parquet"),),
    archive=None,
    places=("",),
    get="a Parquet file with the columns split, label and jpeg",
)

# A part that a small network learns on a processor in seconds; the constants are its own.
_CIFAR_10_JPEG16 = dataclasses.replace(
    _CIFAR_10_JPEG,
    name="cifar10-jpeg16",
    title="5,000 and 5,000 images of CIFAR-10 coded as JPEG, averaged to 3x16x16",
    size=16,
    train_images=5_000,
    test_images=5_000,
    padding=2,
    mean=_of_255(125.71, 123.00, 113.67),
    std=_of_255(60.68, 60.24, 65.08),
)

_CIFAR_100 = DataSpec(
    name="cifar100",
    title="CIFAR-100, 3x32x32",
    classes=100,
    size=32,
    train_images=50_000,
    test_images=10_000,
    padding=4,
    mean=_of_255(129.3, 124.1, 112.4),
    std=_of_255(68.2, 65.4, 70.4),
    reader="rebench.data.cifar:read_cifar",
    files=(
        ExpectedFile("train", "16019d7e3df5f24257cddd939b257f8d"),
        ExpectedFile("test", "f0ef6b0ae62326f3e7ffdfab6717acfc"),
    ),
    archive=Archive(
        name="cifar-100-python.tar.gz",
        url="https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
        md5="eb9058c3a382ffc7106e4002c42a8d85",
        folder="cifar-100-python",
    ),
    places=("cifar-100-python",),
    get="rebench data fetch cifar100",
    test_halves="cifar100-test-split.txt",
)

_IMAGENET16 = DataSpec(
    name="ImageNet16-120",
    title="ImageNet16-120, 3x16x16",
    classes=120,
    size=16,
    train_images=151_700,
    test_images=6_000,
    padding=2,
    mean=_of_255(122.68, 116.66, 104.01),
    std=_of_255(63.22, 61.26, 65.09),
    reader="rebench.data.imagenet16:read_imagenet16",
    files=(
        ExpectedFile("train_data_batch_1", "27846dcaa50de8e21a7d1a35f30f0e91"),
        ExpectedFile("train_data_batch_2", "c7254a054e0e795c69120a5727050e3f"),
        ExpectedFile("train_data_batch_3", "4333d3df2e5ffb114b05d2ffc19b1e87"),
        ExpectedFile("train_data_batch_4", "1620cdf193304f4a92677b695d70d10f"),
        ExpectedFile("train_data_batch_5", "348b3c2fdbb3940c4e9e834affd3b18d"),
        ExpectedFile("train_data_batch_6", "6e765307c242a1b3d7d5ef9139b48945"),
        ExpectedFile("train_data_batch_7", "564926d8cbf8fc4818ba23d2faac7564"),
        ExpectedFile("train_data_batch_8", "f4755871f718ccb653440b9dd0ebac66"),
        ExpectedFile("train_data_batch_9", "bb6dd660c38c58552125b1a92f86b5d4"),
        ExpectedFile("train_data_batch_10", "8f03f34ac4b42271a294f91bf480f29b"),
        ExpectedFile("val_data", "3410e3017fdaefba8d5073aaa65e4bd6"),
    ),
    places=("ImageNet16",),
    get="'Downsampled ImageNet 16x16' of https://image-net.org/download-images (with a login)",
    test_halves="imagenet-16-120-test-split.txt",
)

_FASHION = DataSpec(
    name="fashion",
    title="Fashion-MNIST, padded to 3x32x32",
    classes=10,
    size=32,
    train_images=60_000,
    test_images=10_000,
    padding=4,
    mean=(0.219,) * 3,
    std=(0.332,) * 3,
    reader="rebench.data.fashion:read_fashion",
    files=(
        ExpectedFile("train-images-idx3-ubyte", "f4a8712d7a061bf5bd6d2ca38dc4d50a"),
        ExpectedFile("train-labels-idx1-ubyte", "9018921c3c673c538a1fc5bad174d6f9"),
        ExpectedFile("t10k-images-idx3-ubyte", "8181f5470baa50b63fa0f6fddb340f0a"),
        ExpectedFile("t10k-labels-idx1-ubyte", "15d484375f8d13e6eb1aabb0c3f46965"),
    ),
    places=("fashion-mnist", "/usr/share/datasets/fashion-mnist"),
    get="apt install dataset-fashion-mnist, or github.com/zalandoresearch/fashion-mnist",
)

OURS: Final = (
    _DIGITS,
    dataclasses.replace(
        _DIGITS, name="digits16", title="scikit-learn's digits, 3x16x16 (embedded)",
        size=16, padding=2,
    ),
    dataclasses.replace(
        _DIGITS, name="digits-noisy", train_images=500, test_images=1_297,
        title="500 and 1,297 of scikit-learn's digits under noise, 3x8x8 (embedded)",
        mean=(0.357,) * 3, std=(0.360,) * 3, reader="rebench.data.digits:read_noisy_digits",
    ),
    _CIFAR_10,
    _CIFAR_100,
    _IMAGENET16,
    _CIFAR_10_JPEG,
    _CIFAR_10_JPEG16,
    _FASHION,
)  # fmt: skip
