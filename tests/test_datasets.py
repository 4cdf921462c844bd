"""The list of all data sets, and a data set that another package adds to it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from packages import install
from support import PROJECT, python

from rebench.data import data_spec, data_specs, load_data
from rebench.errors import UnknownNameError

STRIPES = """
import torch

from rebench.data import DataSpec, Images, RawData


def read(spec, root):
    def images(n):
        labels = torch.arange(n) % spec.classes
        pixels = torch.zeros(n, 3, spec.size, spec.size, dtype=torch.uint8)
        for place, label in enumerate(labels.tolist()):
            pixels[place, :, label] = 255
        return Images(pixels, labels)

    return RawData(train=images(spec.train_images), test=images(spec.test_images))


STRIPES = DataSpec(
    name="stripes",
    title="a white row says the class",
    classes=4,
    size=8,
    train_images=24,
    test_images=8,
    mean=(0.125,) * 3,
    std=(0.33,) * 3,
    padding=0,
    flip=False,
    reader=read,
)
TAKEN = DataSpec(
    name="digits", title="", classes=2, size=8, train_images=1, test_images=1,
    mean=(0,) * 3, std=(1,) * 3, padding=0, reader=read,
)
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    install(
        folder,
        "striped_images",
        STRIPES,
        "rebench.datasets",
        stripes="striped_images:STRIPES",
        digits="striped_images:TAKEN",
        broken="striped_images:MISSING",
    )
    return folder


def test_data_set_of_another_package_is_listed_and_the_bad_ones_are_named(installed: Path):
    done = python("-m", "rebench", "data", "list", "--json", path=[PROJECT, installed])
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert rows.keys() == {*data_specs(), "stripes"}
    assert rows["stripes"] == {
        "name": "stripes",
        "images": "a white row says the class",
        "classes": 4,
        "splits": ["full", "valid"],
        "here": True,
    }
    assert rows["digits"]["classes"] == 10
    assert "striped-images adds broken = striped_images:MISSING" in done.stderr
    assert "'digits'" in done.stderr


def test_numbers_of_images_are_those_that_are_read():
    for name in ("digits", "digits16", "digits-noisy"):
        sizes = data_spec(name).part_sizes("full")
        data = load_data(name)
        assert sizes == {"train": len(data.train), "ori-test": len(data.evaluation["ori-test"])}


def test_unknown_data_set_lists_the_nearest_first():
    with pytest.raises(UnknownNameError, match="valid: cifar10, "):
        data_spec("cifar1")
