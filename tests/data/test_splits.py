"""Images for training and for evaluation by split, compared with the benchmark's files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from rebench.data import BENCHMARK, Images, RawData, data_spec, derived_halves, split_data
from rebench.errors import MissingDataError, UnknownNameError


def raw(train: int, test: int, size: int) -> RawData:
    def images(n: int) -> Images:
        pixels = torch.arange(n, dtype=torch.uint8).reshape(-1, 1, 1, 1).expand(-1, 3, size, size)
        return Images(pixels, torch.arange(n))

    return RawData(train=images(train), test=images(test))


def test_cifar10_halves_are_the_benchmarks(real_data: Path):
    file = json.loads((real_data / "splits/cifar-split.txt").read_text())
    train, valid = derived_halves(50_000)
    assert train.tolist() == [int(i) for i in file["train"][1]]
    assert valid.tolist() == [int(i) for i in file["valid"][1]]


def test_derived_halves_begin_as_the_benchmarks_do():
    # the first entries of the published cifar-split.txt
    assert derived_halves(50_000)[0][:10].tolist() == [0, 5, 7, 11, 13, 15, 16, 17, 20, 24]


def test_full_data_set_whose_test_set_can_be_halved_needs_no_split_file(tmp_path: Path):
    data = split_data(data_spec("cifar100"), raw(4, 4, 32), "full", tmp_path / "nowhere")
    assert list(data.evaluation) == ["ori-test"]


def test_validation_half_is_disjoint_and_complete(tmp_path: Path):
    data = split_data(data_spec("cifar10"), raw(40, 8, 32), "cifar10-valid", tmp_path)
    trained, held = data.train.labels.tolist(), data.evaluation["x-valid"].labels.tolist()
    assert sorted(trained + held) == list(range(40))
    assert len(trained) == 20
    assert len(data.evaluation["ori-test"]) == 8


def test_test_set_is_halved_by_the_file_in_its_order(tmp_path: Path):
    (tmp_path / "splits").mkdir()
    halves = {"xvalid": ["int", ["3", "0"]], "xtest": ["int", ["1", "2"]]}
    (tmp_path / "splits/cifar100-test-split.txt").write_text(json.dumps(halves))
    data = split_data(data_spec("cifar100"), raw(4, 4, 32), "halved", tmp_path)
    named = {name: part.labels.tolist() for name, part in data.evaluation.items()}
    assert named == {"x-valid": [3, 0], "x-test": [1, 2], "ori-test": [0, 1, 2, 3]}


@pytest.mark.parametrize(("name", "file", "n"), [
    ("cifar100", "cifar100-test-split.txt", 10_000),
    ("ImageNet16-120", "imagenet-16-120-test-split.txt", 6_000),
])  # fmt: skip
def test_test_set_is_halved_by_the_benchmarks_file(real_data: Path, name: str, file: str, n: int):
    spec = data_spec(name)
    content = json.loads((real_data / "splits" / file).read_text())
    data = split_data(spec, raw(4, n, spec.size), "halved", real_data)
    for ours, theirs in (("x-valid", "xvalid"), ("x-test", "xtest")):
        assert data.evaluation[ours].labels.tolist() == [int(i) for i in content[theirs][1]]
    assert len(data.evaluation["ori-test"]) == n


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "cifar100-test-split"),
        ("{}", "cifar100-test-split"),
        ('{"xvalid": ["int", ["0"]], "xtest": ["int", ["0", "1", "2"]]}', "cifar100-test-split"),
        (None, "AutoDL-Projects"),  # where it is published
    ],
)
def test_invalid_or_missing_split_file_is_named(tmp_path: Path, content, message):
    (tmp_path / "splits").mkdir()
    if content is not None:
        (tmp_path / "splits/cifar100-test-split.txt").write_text(content)
    with pytest.raises(MissingDataError, match=message):
        split_data(data_spec("cifar100"), raw(4, 4, 32), "halved", tmp_path)


def test_unknown_split_lists_those_of_the_data_set():
    with pytest.raises(UnknownNameError, match="cifar10-valid"):
        split_data(data_spec("cifar10"), raw(4, 4, 32), "valid", Path())
    assert data_spec("cifar100").splits == ("full", "valid", "halved")


@pytest.mark.parametrize(("name", "split"), [*BENCHMARK.values(), ("digits", "valid")])
def test_parts_have_the_sizes_of_the_spec(name: str, split: str, tmp_path: Path):
    spec = data_spec(name)
    halves = [[str(i) for i in range(first, spec.test_images, 2)] for first in (0, 1)]
    (tmp_path / "splits").mkdir()
    if spec.test_halves:
        content = {"xvalid": ["int", halves[0]], "xtest": ["int", halves[1]]}
        (tmp_path / "splits" / spec.test_halves).write_text(json.dumps(content))
    pixel = torch.zeros(1, 3, 1, 1, dtype=torch.uint8)
    raw = RawData(
        **{
            part: Images(pixel.expand(n, -1, -1, -1), torch.zeros(n, dtype=torch.int64))
            for part, n in (("train", spec.train_images), ("test", spec.test_images))
        }
    )
    data = split_data(spec, raw, split, tmp_path)
    sizes = {name: len(part) for name, part in {"train": data.train, **data.evaluation}.items()}
    assert sizes == spec.part_sizes(split)
    assert list(sizes) == list(spec.part_sizes(split))
