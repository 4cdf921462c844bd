"""What is known of a data set before it is read."""

from __future__ import annotations

from dataclasses import dataclass

from cells import CostModel
from rebench.errors import InputError, UnknownNameError

__all__ = ["Archive", "DataSpec", "ExpectedFile", "Triple"]

Triple = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class ExpectedFile:
    """A file of a data set; `md5` is the official file's."""

    name: str
    md5: str | None = None


@dataclass(frozen=True, slots=True)
class Archive:
    """The official archive: where it is published, its MD5, and the folder inside it."""

    name: str
    url: str
    md5: str
    folder: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DataSpec:
    """What is known of a data set before it is read.

    Attributes:
        size: side of its images in pixels; they have three channels.
        train_images: how many images the whole training set holds.
        test_images: how many the whole test set holds.
        mean: normalises pixels in 0..1, as `std` does.
        padding: zeros around an image before it is cropped at random.
        flip: whether images are mirrored at random.
        reader: ``module:function``, called with the spec and the data root; returns a
            `rebench.data.RawData`.
        files: looked for in the folders `places` below the data root, and in the archive.
        valid_split: the name of the split that holds back half of the training images.
        test_halves: the benchmark's file of the test set's two halves, if it has one.
    """

    name: str
    title: str
    classes: int
    size: int
    train_images: int
    test_images: int
    mean: Triple
    std: Triple
    padding: int
    flip: bool = True
    reader: str
    files: tuple[ExpectedFile, ...] = ()
    archive: Archive | None = None
    places: tuple[str, ...] = ()
    get: str = "embedded: nothing to download"
    valid_split: str = "valid"
    test_halves: str | None = None

    def __post_init__(self) -> None:
        """Refuse what no data set can be."""
        for field in ("classes", "size", "train_images", "test_images"):
            if getattr(self, field) < 1:
                raise InputError(f"{self.name}: {field} must be at least 1")
        if self.reader.count(":") != 1:
            raise InputError(f"{self.name}: reader must be module:function, got {self.reader!r}")

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of its splits; `rebench.data.splits` says what each one is."""
        return ("full", self.valid_split, *(["halved"] if self.test_halves else []))

    def part_sizes(self, split: str) -> dict[str, int]:
        """Return how many images each part of a split holds: ``train``, then what is evaluated."""
        if split not in self.splits:
            raise UnknownNameError(f"split of {self.name}", split, self.splits)
        train, test = self.train_images, {"ori-test": self.test_images}
        if split == self.valid_split:
            return {"train": train // 2, "x-valid": train - train // 2, **test}
        if split == "halved":
            half = self.test_images // 2
            return {"train": train, "x-valid": half, "x-test": self.test_images - half, **test}
        return {"train": train, **test}

    def cost_model(self, channels: int = 16, cells_per_stage: int = 5) -> CostModel:
        """Return what networks for its images cost; by default the benchmark's."""
        return CostModel(
            image_side=self.size,
            classes=self.classes,
            channels=channels,
            cells_per_stage=cells_per_stage,
        )
