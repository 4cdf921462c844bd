"""Descriptions of data sets, and checks of the results of readers."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from rebench.data import Images, RawData, data_spec, load_data
from rebench.data import loading as loading
from rebench.errors import InputError, MissingDataError, UnknownNameError

DIGITS = data_spec("digits")


# Written down with the records that name them: other images would be another data set.
DIGESTS = {
    ("digits", "full"): "55a3d9bee3efb84e",
    ("digits", "valid"): "4ed7e23df3d89105",
    ("digits16", "full"): "b6a929263542faf1",
    ("digits16", "valid"): "6f61c29109a8b395",
    ("digits-noisy", "full"): "330a7a13671a7ece",
    ("digits-noisy", "valid"): "f458a342702963e1",
}


@pytest.mark.parametrize(("name", "split"), DIGESTS)
def test_images_of_an_embedded_set_are_always_the_same(name, split):
    assert load_data(name, split).digest == DIGESTS[name, split]


@pytest.mark.parametrize("name", ["classes", "size", "train_images", "test_images"])
def test_number_that_no_data_set_has_is_refused(name):
    assert getattr(dataclasses.replace(DIGITS, **{name: 1}), name) == 1
    with pytest.raises(InputError, match=f"digits: {name} must be at least 1"):
        dataclasses.replace(DIGITS, **{name: 0})


def test_data_set_without_a_format_needs_a_reader():
    with pytest.raises(InputError, match="digits: reader must be a function, got 'x'"):
        dataclasses.replace(DIGITS, format="", reader="x")


def test_parts_of_odd_sets_are_halves_of_which_the_held_back_is_larger():
    odd = dataclasses.replace(DIGITS, train_images=7, test_images=5, test_halves="f")
    assert odd.splits == ("full", "valid", "halved")
    assert odd.part_sizes("full") == {"train": 7, "ori-test": 5}
    assert odd.part_sizes("valid") == {"train": 3, "x-valid": 4, "ori-test": 5}
    assert odd.part_sizes("halved") == {"train": 7, "x-valid": 2, "x-test": 3, "ori-test": 5}
    with pytest.raises(UnknownNameError, match="halved"):
        DIGITS.part_sizes("halved")


def _read(monkeypatch, *, train=None, labels=(0, 9)) -> RawData:
    """Read a data set whose reader returns these training images, and two plain test images."""
    plain = torch.zeros(2, 3, 8, 8, dtype=torch.uint8)
    given = Images(plain if train is None else train, torch.as_tensor(labels))
    raw = RawData(train=given, test=Images(plain, torch.tensor([0, 9])))
    spec = dataclasses.replace(DIGITS, format="", reader=lambda *_: raw)
    monkeypatch.setattr(loading, "data_spec", lambda _: spec)
    return loading.read_raw("digits")


@pytest.mark.parametrize(("wrong", "message"), [
    ({"labels": (0, 10)}, r"training labels as int64 in 0\.\.9, got torch.int64 in 0\.\.10"),
    ({"labels": (-1, 9)}, r"got torch.int64 in -1\.\.9"),
    ({"labels": np.array([0, 9], np.int32)}, "got torch.int32"),
    ({"train": torch.zeros(2, 3, 8, 8)}, r"training images as uint8 .* got torch.float32"),
    ({"train": torch.zeros(2, 3, 8, 9, dtype=torch.uint8)}, r"got .* \[2, 3, 8, 9\]"),
    ({"train": torch.zeros(1, 3, 8, 8, dtype=torch.uint8)}, r"got .* \[1, 3, 8, 8\]"),
    ({"train": torch.zeros(0, 3, 8, 8, dtype=torch.uint8), "labels": ()}, r"\[0, 3, 8, 8\]"),
])  # fmt: skip
def test_results_of_a_reader_are_checked(monkeypatch, wrong, message):
    assert len(_read(monkeypatch).train) == 2
    with pytest.raises(MissingDataError, match=message):
        _read(monkeypatch, **wrong)


def test_error_for_an_unknown_format_lists_the_formats(monkeypatch):
    spec = dataclasses.replace(DIGITS, format="jpeg2000")
    monkeypatch.setattr(loading, "data_spec", lambda _: spec)
    with pytest.raises(UnknownNameError, match="unknown format 'jpeg2000' of digits; valid: jpeg"):
        loading.read_raw("digits")
