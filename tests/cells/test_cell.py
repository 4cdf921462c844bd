"""Strings, codes and indices of cells, and the errors for invalid names."""

from __future__ import annotations

import bz2
import pickletools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cells import SPACE_SIZE, Cell, CellError, all_cells

indices = st.integers(0, SPACE_SIZE - 1)


@given(indices)
def test_index_string_and_code_name_the_same_cell(index: int):
    cell = Cell.from_index(index)
    assert cell.index == index
    assert Cell.parse(str(cell)) == cell
    assert Cell.parse(cell.code) == cell
    assert Cell.find(str(index)) == Cell.find(index) == Cell.find(cell) == cell


def test_order_is_the_benchmarks(real_data):
    # Independent of this project: the strings in the benchmark's own meta file, in file order.
    packed = real_data / "nats-bench" / "NATS-tss-v1_0-3ffb9-simple" / "meta.pickle.pbz2"
    operations = pickletools.genops(bz2.decompress(packed.read_bytes()))
    texts = [value for _, value, _ in operations if isinstance(value, str) and value[:1] == "|"]
    listed = list(dict.fromkeys(texts))
    assert len(listed) == SPACE_SIZE
    assert listed == [str(cell) for cell in all_cells()]


def test_order_starts_as_the_benchmark_does():
    # The first strings of the published benchmark.
    assert str(Cell.from_index(0)) == (
        "|avg_pool_3x3~0|+|nor_conv_1x1~0|skip_connect~1|+"
        "|nor_conv_1x1~0|skip_connect~1|skip_connect~2|"
    )
    assert Cell.from_index(1).code == "3_34_131"
    assert Cell.parse("1_01_001").index == 25


GOOD = str(Cell.from_index(11))


@pytest.mark.parametrize(("text", "says"), [
    ("", "not a cell: got '', expected an index (0 to 15624), a code (3_34_131) or an arch"),
    ("15625", "0..15624, got 15625"),
    ("-1", "0..15624, got -1"),
    (GOOD.replace("nor_conv_3x3", "nor_conv_5x5", 1), "unknown operation 'nor_conv_5x5"),
    (GOOD.replace("nor_conv_3x3", "skip_conect", 1), "did you mean 'skip_connect'"),
    (GOOD[:-1], f"got {GOOD[:-1]!r}"),
    (GOOD + "|", f"got {GOOD + '|'!r}"),
    (GOOD.replace("+", "-", 1), "not an architecture"),
    (GOOD.replace("~1", "~0", 1), "not an architecture"),
    (GOOD.replace("|none~0", "", 1), "not an architecture"),
    ("|nor_cönv_3x3~0|", r"got '|nor_c\xf6nv_3x3"),
    ("3_34_137", "digits from 0 to 4"),
    ("3_34", "as in 3_34_131"),
])  # fmt: skip
def test_bad_name_is_refused_and_shown(text: str, says: str):
    with pytest.raises(CellError) as caught:
        Cell.find(text)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [True, np.True_, 3.5, 15_625])
def test_index_that_is_no_whole_number_of_a_cell_is_refused(value):
    for read in (Cell.from_index, Cell.find):
        with pytest.raises(CellError, match=re.escape(repr(value))):
            read(value)


@pytest.mark.parametrize("piece", ["|", "9", "3_", "|none~0", "é", "\0"])
def test_huge_string_is_refused_at_once_in_a_short_line(piece: str):
    with pytest.raises(CellError) as caught:
        Cell.find(piece * (10_000_000 // len(piece)))
    assert len(str(caught.value)) < 400


@given(st.text(max_size=120))
def test_any_text_is_a_cell_or_an_error(text: str):
    try:
        cell = Cell.find(text)
    except CellError:
        return
    assert text.strip() in (str(cell), cell.code) or int(text.strip()) == cell.index


def test_operations_outside_the_space_are_refused():
    with pytest.raises(CellError, match="six operations"):
        Cell((0, 0, 0, 0, 0, 5))
