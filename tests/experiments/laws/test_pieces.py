"""Pieces: computed once per folder, stored completely, returned in the requested order."""

from __future__ import annotations

import dataclasses
import os

import pandas as pd
import pytest

from experiments.laws.images import load_small_images
from experiments.laws.pieces import Pieces, piece_name
from experiments.laws.rate_search import RateGrid
from rebench.errors import InputError


def numbered(number: int) -> pd.DataFrame:
    return pd.DataFrame({"number": [number], "process": [os.getpid()]})


def broken(number: int) -> pd.DataFrame:
    raise InputError(f"no luck with {number}")


CASES = [{"number": number} for number in range(6)]


def test_workers_compute_all_in_order_and_what_is_kept_is_not_computed_again(tmp_path):
    frames = Pieces(tmp_path, workers=2).map("test", numbered, CASES)
    assert [frame["number"].item() for frame in frames] == list(range(6))
    assert os.getpid() not in {frame["process"].item() for frame in frames}
    assert {path.suffix for path in tmp_path.iterdir()} == {".parquet"}
    again = Pieces(tmp_path).map("test", numbered, CASES)
    assert [frame["process"].item() for frame in again] == [
        frame["process"].item() for frame in frames
    ]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_piece_that_fails_leaves_nothing_and_is_tried_again(tmp_path, workers):
    with pytest.raises(InputError, match="no luck with 0"):
        Pieces(tmp_path, workers=workers).map("test", broken, CASES[:1])
    assert list(tmp_path.iterdir()) == []
    [frame] = Pieces(tmp_path).map("test", numbered, CASES[:1])
    assert frame["process"].item() == os.getpid()


def test_without_a_folder_nothing_is_kept_and_progress_is_told():
    seen: list[tuple[int, int]] = []
    pieces = Pieces(None, lambda done, expected: seen.append((done, expected)))
    pieces.map("test", numbered, CASES[:2])
    pieces.map("test", numbered, CASES[:1])
    assert seen == [(1, 2), (2, 2), (3, 3)]


def test_names_tell_kinds_arguments_inner_settings_and_images_apart():
    images = load_small_images("digits")
    grid = RateGrid(lowest_lr=1, highest_lr=2, n_lrs=3, steps=4, batch_size=5, seeds=6)
    arguments = [
        {"a": 1},
        {"a": 2},
        {"images": images, "grid": grid},
        {"images": images.pooled(4), "grid": grid},
        {"images": images, "grid": dataclasses.replace(grid, seeds=7)},
        {"images": dataclasses.replace(images, name="other"), "grid": grid},
    ]
    names = [piece_name("x", one) for one in arguments]
    assert len({*names, piece_name("y", arguments[0])}) == 7
    assert names == [piece_name("x", one) for one in arguments]
