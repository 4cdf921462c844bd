"""Functional classes on real networks: members compute the same, others do not.

`cells.classes` derives the partitions symbolically. Here a cell is run: the weights of every
convolution are drawn from a generator seeded by the term that the convolution computes, a text
made by a recursion in this file, so that equal terms have equal weights on every edge.
"""

from __future__ import annotations

import itertools
import random
import zlib

import numpy as np
import pytest
import torch

from cells import EDGES, Cell
from cells.classes import functional_classes
from rebench.nets.tiny import CellBlock, ConvBN

INPUT = torch.randn(2, 2, 4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def terms(cell: Cell) -> list[str]:
    """Return the term of each edge as text, empty for zero. A skip is its source."""
    op10, op20, op21, op30, op31, op32 = cell.ops

    def through(op: int, value: list[str]) -> list[str]:
        if op == 0 or not value:
            return []
        return value if op == 1 else [f"{op}({'+'.join(sorted(value))})"]

    one = through(op10, ["x"])
    into_two = through(op20, ["x"]), through(op21, one)
    two = into_two[0] + into_two[1]
    into_three = through(op30, ["x"]), through(op31, one), through(op32, two)
    return ["+".join(edge) for edge in (one, *into_two, *into_three)]


def randomise(layer: ConvBN, seed: int | str) -> None:
    """Set weights and statistics to values that depend only on `seed` and their names."""
    for name, value in (*layer.named_parameters(), *layer.named_buffers()):
        if value.is_floating_point():
            generator = torch.Generator().manual_seed(zlib.crc32(f"{seed} {name}".encode()))
            value.data.copy_(torch.rand(value.shape, generator=generator, dtype=value.dtype) + 0.2)
            if value.dim() == 4:
                value.data.sub_(0.7)


def output(cell: Cell) -> torch.Tensor:
    with torch.no_grad():
        block = CellBlock(cell, 2).double().eval()
        live = {(target, source) for target, source, _ in cell.edges(live=True)}
        for layer, term, edge in zip(block.layers, terms(cell), EDGES, strict=True):
            if isinstance(layer, ConvBN):
                randomise(layer, term)
                if edge not in live:  # here a zero vertex gives zero, without a bias
                    layer.op[2].bias.zero_()
                    layer.op[2].running_mean.zero_()
        return block(INPUT)


def test_exact_classes_are_the_cells_that_compute_the_same():
    """Cells of different classes compute the same only if they contain pools.

    The partition ignores only one identity: pool(a) + pool(b) = pool(a + b).
    """
    chosen = random.Random(5)
    sample = chosen.sample(range(15_625), 300)
    members = [chosen.choice(Cell.from_index(index).class_members("exact")) for index in sample]
    cells = [Cell.from_index(index) for index in {*sample, *members}]
    outputs = np.stack([output(cell).numpy().ravel() for cell in cells])
    classes = functional_classes("exact")[[cell.index for cell in cells]]
    scaled = np.round(outputs / np.abs(outputs).max(), 9)
    _, numbers = np.unique(scaled, axis=0, return_inverse=True)
    for number in range(numbers.max() + 1):
        alike = np.flatnonzero(numbers == number)
        if len(set(classes[alike])) > 1:
            assert all(4 in cells[position].ops for position in alike)
    assert len(set(classes)) < len(cells) - 100
    for name in set(classes):
        same = outputs[classes == name]
        np.testing.assert_allclose(same, same[:1].repeat(len(same), 0), rtol=1e-9)


# Classes in which members differ by a renaming of edges and by which edge holds a bias.
STRICT = [Cell.parse(code) for code in ("0_02_020", "2_10_301", "0_00_230", "3_10_020")]


@pytest.mark.parametrize("cell", STRICT, ids=lambda cell: cell.code)
def test_members_of_strict_classes_are_the_same_trainable_network(cell):
    """If weights and biases are exchanged between edges in some way, the outputs are equal."""
    expected = next(outputs_by_renaming(cell))
    members = cell.class_members("strict")
    assert len(members) > 1
    for index in members[:6]:
        found = outputs_by_renaming(Cell.from_index(index))
        assert any(torch.allclose(value, expected, rtol=1e-9, atol=1e-12) for value in found)


def outputs_by_renaming(cell: Cell):
    block = CellBlock(cell, 2).double().eval()
    used = [block.layers[position] for position in block._plan]
    convs = [layer for layer in used if isinstance(layer, ConvBN)]
    with torch.no_grad():
        for order in itertools.permutations(range(len(convs))):
            for layer, seed in zip(convs, order, strict=True):
                randomise(layer, seed)
            yield block(INPUT)
