"""The list of all data sets, and a data set that another package adds to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from packages import install
from support import PROJECT

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
SWEEP = """
datasets = ["stripes"]
split = "valid"
recipes = ["nb201"]
seeds = [777]
epochs = 1
[cells]
indices = [11]
[skeleton]
channels = 2
cells_per_stage = 1
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


def rebench(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(PROJECT), str(folder)])
    return subprocess.run(
        [sys.executable, "-m", "rebench", *arguments],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_data_set_of_another_package_is_listed_and_the_bad_ones_are_named(installed: Path):
    done = rebench(installed, "data", "list", "--json")
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


def test_sweep_takes_the_data_set_of_another_package(installed: Path, tmp_path: Path):
    spec = tmp_path / "sweep.toml"
    spec.write_text(SWEEP)
    done = rebench(installed, "sweep", "plan", str(spec), "--json")
    assert done.returncode == 0, done.stderr
    alone = rebench(tmp_path, "sweep", "plan", str(spec), "--json")
    assert alone.returncode == 2
    assert "unknown data set 'stripes'" in alone.stderr


@pytest.mark.slow
def test_training_runs_on_the_data_set_of_another_package(installed: Path):
    done = rebench(
        installed,
        *("train", "11", "--dataset", "stripes", "--split", "valid", "--epochs", "1", "--json"),
        *("--set", "skeleton.channels=2", "--set", "skeleton.cells_per_stage=1"),
        *("--set", "protocol.batch_size=6", "--device", "cpu"),
    )
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["trial"]["dataset"] == "stripes"
    assert record["outcome"]["status"] == "done"
    assert record["outcome"]["curves"].keys() == {"train", "x-valid", "ori-test"}


def test_numbers_of_images_are_those_that_are_read():
    for name in ("digits", "digits16", "digits-noisy"):
        sizes = data_spec(name).part_sizes("full")
        data = load_data(name)
        assert sizes == {"train": len(data.train), "ori-test": len(data.evaluation["ori-test"])}


def test_unknown_data_set_lists_the_nearest_first():
    with pytest.raises(UnknownNameError, match="valid: cifar10, "):
        data_spec("cifar1")
