"""Pieces: computed once among all who share a folder, kept whole, left to whoever computes them."""

from __future__ import annotations

import dataclasses
import threading
import time

import pandas as pd
import pytest

from experiments.laws.images import load_small_images
from experiments.laws.pieces import Piece, Pieces
from experiments.laws.rate_search import RateGrid


def piece(number: int, computed: list[int], seconds: float = 0.0) -> Piece:
    def compute() -> pd.DataFrame:
        time.sleep(seconds)
        computed.append(number)
        return pd.DataFrame({"number": [number]})

    return Piece(kind=f"test{number}", arguments={}, compute=compute)


def test_two_at_work_compute_every_piece_once_and_both_get_all(tmp_path):
    computed: list[int] = []
    found: list[list[int]] = []

    def work() -> None:
        frames = Pieces(tmp_path).get([piece(i, computed, 0.02) for i in range(12)])
        found.append([int(frame["number"].item()) for frame in frames])

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [list(range(12))] * 2
    assert sorted(computed) == list(range(12))
    assert {path.suffix for path in tmp_path.iterdir()} == {".parquet"}


def test_a_piece_that_fails_leaves_nothing_and_is_tried_again(tmp_path):
    def fail() -> pd.DataFrame:
        raise ValueError("no luck")

    broken = Piece(kind="test1", arguments={}, compute=fail)
    with pytest.raises(ValueError, match="no luck"):
        Pieces(tmp_path).get([broken])
    assert list(tmp_path.iterdir()) == []
    computed: list[int] = []
    Pieces(tmp_path).get([piece(1, computed)])
    assert computed == [1]


def test_without_a_folder_nothing_is_kept():
    computed: list[int] = []
    seen: list[tuple[int, int]] = []
    pieces = Pieces(None, lambda done, expected: seen.append((done, expected)))
    pieces.get([piece(1, computed), piece(2, computed)])
    assert computed == [1, 2]
    assert seen == [(1, 2), (2, 2)]


def test_names_tell_kinds_and_arguments_apart():
    names = {
        Piece(kind=kind, arguments={"a": a}, compute=pd.DataFrame).name
        for kind in ("x", "y")
        for a in (1, 2)
    }
    assert len(names) == 4


def test_names_tell_inner_settings_and_images_apart():
    images = load_small_images("digits")
    grid = RateGrid(lowest_lr=1, highest_lr=2, n_lrs=3, steps=4, batch_size=5, seeds=6)
    arguments = [
        {"images": images, "grid": grid},
        {"images": images.pooled(4), "grid": grid},
        {"images": images, "grid": dataclasses.replace(grid, seeds=7)},
        {"images": dataclasses.replace(images, name="other"), "grid": grid},
    ]
    names = [Piece(kind="x", arguments=one, compute=pd.DataFrame).name for one in arguments]
    assert len(set(names)) == 4
    again = Piece(kind="x", arguments=arguments[0], compute=pd.DataFrame)
    assert again.name == names[0]
