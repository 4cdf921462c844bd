"""Reading data sets from generated files in the official formats, and from real ones."""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
import math
import os
import pickle
import struct
import sys
import tarfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

from rebench.cli import main
from rebench.data import data_spec, file_states, read_raw
from rebench.data.readers import READERS, check_official
from rebench.errors import InputError, MissingDataError, UnsafeFileError


def batch(rows: int, classes: int, *, size: int = 32, first_label: int = 0, key: str = "labels"):
    rng = np.random.default_rng(rows)
    return {
        b"data": rng.integers(0, 256, (rows, 3 * size * size), dtype=np.uint8),
        key.encode(): [first_label + i % classes for i in range(rows)],
    }


def write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(content, 2))


@pytest.fixture
def cifar10(tmp_path: Path) -> Path:
    for i in range(1, 6):
        write(tmp_path / f"cifar-10-batches-py/data_batch_{i}", batch(10 + i, 10))
    write(tmp_path / "cifar-10-batches-py/test_batch", batch(7, 10))
    return tmp_path


def test_cifar10_folder_is_read_in_the_order_of_its_batches(cifar10: Path):
    raw = read_raw("cifar10", cifar10)
    expected = np.concatenate([batch(10 + i, 10)[b"data"] for i in range(1, 6)])
    assert np.array_equal(raw.train.pixels.reshape(-1, 3072).numpy(), expected)
    assert raw.test.labels.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert raw.notes == (
        "not the official archive: 7 and 11 and 12 and 13 and 14 and 15 rows per batch",
    )


@pytest.fixture
def packed(cifar10: Path, tmp_path: Path) -> Path:
    """Return the archive of a folder, in a data root without other files."""
    (tmp_path / "packed").mkdir()
    path = tmp_path / "packed" / "cifar-10-python.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(cifar10 / "cifar-10-batches-py", "cifar-10-batches-py")
    return path


def test_cifar10_archive_equals_its_folder_and_unpacks_nothing(cifar10: Path, packed: Path):
    archived, folder = read_raw("cifar10", packed.parent), read_raw("cifar10", cifar10)
    assert archived.train.digest() == folder.train.digest()
    assert list(packed.parent.iterdir()) == [packed]


def test_archive_cut_short_is_damaged(packed: Path):
    packed.write_bytes(packed.read_bytes()[:5000])
    with pytest.raises(MissingDataError, match="damaged"):
        read_raw("cifar10", packed.parent)


def test_part_of_cifar10_is_the_first_images_as_averages_of_boxes(cifar10: Path):
    raw = read_raw("cifar10-16", cifar10)
    assert raw.notes == ("not the official archive: 7 and 11 rows per batch",)
    first = batch(11, 10)[b"data"].reshape(-1, 3, 16, 2, 16, 2).astype(float)
    expected = np.floor(first.mean(axis=(3, 5)) + 0.5)
    assert np.array_equal(raw.train.pixels.numpy(), expected)
    assert raw.train.labels.tolist() == [i % 10 for i in range(11)]
    write(cifar10 / "cifar-10-batches-py/data_batch_1", batch(5003, 10))
    assert len(read_raw("cifar10-16", cifar10).train) == 5000


def test_error_of_jpeg_coding_is_that_of_the_page(real_data: Path):
    """Check the numbers of `docs/how-to/import-export.md`, for images of 16 x 16 pixels.

    The error is 4.9 grey levels; the standard deviation of the pixels is 62.
    """
    exact = read_raw("cifar10-16", real_data / "cifar10-mini").test
    coded = read_raw("cifar10-jpeg", real_data).test
    boxes = coded.pixels.reshape(-1, 3, 16, 2, 16, 2).float().mean(dim=(3, 5))
    coarse = [
        torch.nn.functional.avg_pool2d(part.float(), 4).flatten(1) for part in (exact.pixels, boxes)
    ]
    nearest = torch.cdist(*coarse).argmin(dim=1)
    assert torch.equal(coded.labels[nearest], exact.labels)
    off = (exact.pixels - boxes[nearest]).square().mean(dim=(1, 2, 3)).sqrt()
    assert round(float(off.median()), 1) == 4.9
    assert round(float(exact.pixels.float().std())) == 62


def test_real_cifar10_images_are_read_as_pickle_reads_them(real_data: Path):
    raw = read_raw("cifar10", real_data / "cifar10-mini")
    file = real_data / "cifar10-mini/cifar-10-batches-py/data_batch_2"
    official = pickle.loads(file.read_bytes(), encoding="bytes")
    assert np.array_equal(raw.train.pixels[1000:2000].reshape(1000, -1).numpy(), official[b"data"])
    assert raw.train.labels[1000:2000].tolist() == official[b"labels"]
    assert raw.notes == ("not the official archive: 1,000 rows per batch",)


def test_cifar100_reads_the_fine_labels(tmp_path: Path):
    for name, rows in (("train", 30), ("test", 5)):
        content = batch(rows, 100, key="fine_labels")
        write(tmp_path / "cifar-100-python" / name, {**content, b"coarse_labels": [0] * rows})
    raw = read_raw("cifar100", tmp_path)
    assert raw.train.labels.tolist() == list(range(30))


def test_imagenet16_keeps_120_classes_counted_from_zero(tmp_path: Path):
    for i in range(1, 11):
        write(
            tmp_path / f"ImageNet16/train_data_batch_{i}", batch(200, 150, size=16, first_label=1)
        )
    write(tmp_path / "ImageNet16/val_data", batch(130, 130, size=16, first_label=1))
    raw = read_raw("ImageNet16-120", tmp_path)
    # labels 1..150 then 1..50: 120 + 50 of each batch of 200 are kept
    assert len(raw.train) == 10 * 170
    assert raw.test.labels.tolist() == list(range(120))
    stored = batch(130, 130, size=16)[b"data"][119]
    assert np.array_equal(raw.test.pixels[119].flatten().numpy(), stored)


def idx(values: np.ndarray) -> bytes:
    magic = 0x800 + values.ndim
    return struct.pack(f">{1 + values.ndim}I", magic, *values.shape) + values.tobytes()


def write_fashion(folder: Path, *, compress: bool) -> np.ndarray:
    folder.mkdir(parents=True)
    grey = np.random.default_rng(0).integers(0, 256, (6, 28, 28), dtype=np.uint8)
    for part in ("train", "t10k"):
        for kind, values in (("images-idx3", grey), ("labels-idx1", np.arange(6, dtype=np.uint8))):
            content = idx(values)
            path = folder / f"{part}-{kind}-ubyte"
            if compress:
                Path(f"{path}.gz").write_bytes(gzip.compress(content))
            else:
                path.write_bytes(content)
    return grey


@pytest.mark.parametrize("compress", [True, False])
def test_fashion_is_padded_to_32_and_repeated(tmp_path: Path, compress: bool):
    grey = write_fashion(tmp_path / "fashion-mnist", compress=compress)
    pixels = read_raw("fashion", tmp_path).train.pixels.numpy()
    for channel in range(3):
        assert np.array_equal(pixels[:, channel, 2:30, 2:30], grey)
    assert pixels.sum() == 3 * grey.sum(dtype=np.int64)


def test_fashion_file_cut_short_is_refused(tmp_path: Path):
    write_fashion(tmp_path / "fashion-mnist", compress=False)
    path = tmp_path / "fashion-mnist/train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(MissingDataError, match="train-images"):
        read_raw("fashion", tmp_path)


def jpeg(image: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(image).save(stream, "JPEG", quality=100, subsampling=0)
    return stream.getvalue()


def write_jpegs(folder: Path, images: dict[str, list[np.ndarray]]) -> None:
    rows = [(split, jpeg(image)) for split, listed in images.items() for image in listed]
    split, jpegs = zip(*rows, strict=True)
    table = pd.DataFrame({"split": split, "label": np.arange(len(rows)) % 10, "jpeg": jpegs})
    table.to_parquet(folder / "cifar10-jpeg.parquet")


def grey(level: int, height: int = 32) -> np.ndarray:
    return np.full((height, 32, 3), level, dtype=np.uint8)


def test_jpeg_of_another_size_is_refused(tmp_path: Path):
    write_jpegs(tmp_path, {"train": [grey(0, 40)]})
    with pytest.raises(MissingDataError, match="not 32"):
        read_raw("cifar10-jpeg", tmp_path)


def test_smaller_jpegs_are_the_averages_of_boxes(tmp_path: Path):
    image = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    write_jpegs(tmp_path, {"train": [image], "test": [image[::-1]]})
    whole = read_raw("cifar10-jpeg", tmp_path).test.pixels[0].numpy()
    small = read_raw("cifar10-jpeg16", tmp_path).test.pixels[0].numpy()
    for channel, row, column in np.ndindex(3, 16, 16):
        box = whole[channel, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
        assert small[channel, row, column] == math.floor(box.mean() + 0.5)


def test_file_of_jpegs_is_decoded_by_split_and_its_part_is_the_first_images(tmp_path: Path):
    """The first images of each split, in the order of the file."""
    images = [grey(20 * number) for number in range(9)]
    write_jpegs(tmp_path, {"train": images[:5], "test": images[5:]})
    whole = read_raw("cifar10-jpeg", tmp_path)
    assert (whole.train.labels.tolist(), whole.test.labels.tolist()) == (
        [0, 1, 2, 3, 4],
        [5, 6, 7, 8],
    )
    assert "JPEG" in whole.notes[0]
    spec = dataclasses.replace(data_spec("cifar10-jpeg16"), train_images=3, test_images=2)
    raw = READERS["jpeg"](spec, tmp_path)
    assert (raw.train.labels.tolist(), raw.test.labels.tolist()) == ([0, 1, 2], [5, 6])
    for read in (whole, raw):
        assert abs(read.train.pixels[2].int() - 40).max() <= 1


def test_real_smaller_jpegs_match_their_spec(real_data: Path):
    raw, spec = read_raw("cifar10-jpeg16", real_data), data_spec("cifar10-jpeg16")
    assert (len(raw.train), len(raw.test)) == (spec.train_images, spec.test_images)
    pixels = raw.train.pixels / 255
    assert pixels.mean((0, 2, 3)).tolist() == pytest.approx(spec.mean, abs=1e-3)
    assert pixels.std((0, 2, 3)).tolist() == pytest.approx(spec.std, abs=1e-3)


def test_digits_are_sklearns_images_each_once():
    raw = read_raw("digits")
    grey, labels = load_digits(return_X_y=True)
    levels = np.concatenate([raw.train.pixels, raw.test.pixels])[:, 0].reshape(-1, 64)
    read = np.column_stack([levels, np.concatenate([raw.train.labels, raw.test.labels])])
    expected = np.column_stack([np.rint(grey * 255 / 16).astype(np.uint8), labels])
    assert sorted(map(tuple, read)) == sorted(map(tuple, expected))
    assert (len(raw.train), len(raw.test)) == (1437, 360)


def test_digits_are_read_without_importing_sklearn(monkeypatch):
    """An import of sklearn would cost every worker of a demonstration seconds."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "sklearn"]:
        monkeypatch.delitem(sys.modules, name)
    read_raw("digits")
    assert "sklearn" not in sys.modules


@pytest.mark.parametrize("name", ["digits", "digits16", "digits-noisy"])
def test_normalising_constants_are_the_training_sets(name: str):
    spec, pixels = data_spec(name), read_raw(name).train.pixels / 255
    assert float(pixels.mean()) == pytest.approx(spec.mean[0], abs=1e-3)
    assert float(pixels.std()) == pytest.approx(spec.std[0], abs=1e-3)


def test_error_for_missing_files_names_files_folder_and_command(tmp_path: Path):
    with pytest.raises(MissingDataError) as caught:
        read_raw("cifar10", tmp_path)
    for piece in ("data_batch_1", str(tmp_path), "REBENCH_DATA", "rebench data fetch cifar10"):
        assert piece in str(caught.value)


def test_environment_names_the_data_root(cifar10: Path, monkeypatch):
    monkeypatch.setenv("REBENCH_DATA", str(cifar10))
    assert len(read_raw("cifar10").test) == 7


def test_a_data_root_in_nobodys_home_is_refused(monkeypatch):
    monkeypatch.setenv("REBENCH_DATA", "~nobody-of-that-name/y")
    for root in ("~nobody-of-that-name/x", None):
        with pytest.raises(InputError, match="no home folder of ~nobody-of-that-name"):
            read_raw("cifar10", root)


def test_pickle_with_code_is_refused_by_name(cifar10: Path):
    class Evil:
        def __reduce__(self):
            return (os.system, ("true",))

    write(cifar10 / "cifar-10-batches-py/test_batch", Evil())
    with pytest.raises(UnsafeFileError, match=r"test_batch.*system"):
        read_raw("cifar10", cifar10)


@pytest.mark.parametrize(("content", "message"), [
    ([1], "list"),
    ({b"labels": [0]}, "no data"),
    ({b"data": np.zeros((1, 3072)), b"labels": [0]}, "uint8"),
    ({b"data": np.zeros((1, 10), np.uint8), b"labels": [0]}, "3072"),
    ({b"data": np.zeros((1, 3072), np.uint8), b"labels": [0, 1]}, "1 images and labels"),
    ({b"data": np.zeros((1, 3072), np.uint8), b"labels": [10]}, r"0\.\.9"),
])  # fmt: skip
def test_invalid_batches_are_refused(cifar10: Path, content: object, message: str):
    write(cifar10 / "cifar-10-batches-py/test_batch", content)
    with pytest.raises(MissingDataError, match=message):
        read_raw("cifar10", cifar10)


def test_official_row_count_with_other_content_is_damaged():
    rows = {"data_batch_1": 50_000, "test_batch": 10_000}
    with pytest.raises(MissingDataError, match=r"data_batch_1, test_batch .* damaged"):
        check_official(data_spec("cifar10"), dict.fromkeys(rows, b"x"), rows, 60_000)


def test_file_states_tell_missing_from_not_official(cifar10: Path):
    (cifar10 / "cifar-10-batches-py/data_batch_3").unlink()
    states = {state.file: state.state for state in file_states(data_spec("cifar10"), cifar10)}
    assert states["data_batch_3"] == "missing"
    assert states["test_batch"] == "not official"


def test_command_check_shows_files_and_counts(cifar10: Path, capsys):
    assert main(["data", "list", "cifar10", "--json", "--data-root", str(cifar10)]) == 0
    printed = capsys.readouterr()
    rows = {row["file"]: row for row in json.loads(printed.out)}
    assert rows["train images"]["found"] == 65
    assert "not the official archive" in printed.err


def test_command_check_of_a_missing_set_fails_in_one_line(tmp_path: Path, capsys):
    assert main(["data", "list", "ImageNet16-120", "--json", "--data-root", str(tmp_path)]) == 1
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    assert "image-net.org" in complaint


def test_command_list_shows_which_sets_are_present(cifar10: Path, capsys):
    assert main(["data", "list", "--json", "--data-root", str(cifar10)]) == 0
    here = {row["name"]: row["here"] for row in json.loads(capsys.readouterr().out)}
    assert here["digits"]
    assert here["cifar10"]
    assert not here["cifar100"]


def test_command_fetch_of_an_embedded_set_is_an_error(capsys):
    assert main(["data", "fetch", "digits"]) == 1
    assert "nothing to fetch" in capsys.readouterr().err
