"""Parameters and FLOPs: the published figures, to the last digit."""

from __future__ import annotations

import pytest

import cells
from cells import Cell, CellError, CostModel

# Side of the images and classes of CIFAR-10, CIFAR-100 and ImageNet16-120.
SHAPES = ((32, 10), (32, 100), (16, 120))
# NAS-Bench-201's records: MFLOPs and millions of parameters on the three data sets.
PUBLISHED = {
    0: ((15.64737, 0.129306), (15.65322, 0.135156), (3.91948, 0.136456)),
    11: ((113.95137, 0.802426), (113.95722, 0.808276), (28.49548, 0.809576)),
    284: ((11.71521, 0.101306), (11.72106, 0.107156), (2.93644, 0.108456)),
    6111: ((153.27297, 1.073466), (153.27882, 1.079316), (38.32588, 1.080616)),
}


@pytest.mark.parametrize("index", PUBLISHED)
def test_cost_is_the_published_one(index: int):
    for (side, classes), expected in zip(SHAPES, PUBLISHED[index], strict=True):
        model, ops = CostModel(image_side=side, classes=classes), cells.compile_space().ops
        cost = model.of(Cell.from_index(index))
        assert (cost.mflops, cost.params_m) == expected
        assert (model.params(ops)[index], model.flops(ops)[index]) == (cost.params, cost.flops)


def test_space_has_28_distinct_costs():
    model = CostModel(image_side=32, classes=10)
    assert len(set(model.flops(cells.compile_space().ops).tolist())) == 28


@pytest.mark.parametrize("value", [0, -1, 2.5, "16", None])
@pytest.mark.parametrize("name", ["image_side", "classes", "channels", "cells_per_stage"])
def test_sizes_are_whole_numbers_of_at_least_one(name, value):
    sizes = {"image_side": 32, "classes": 10, name: value}
    with pytest.raises(CellError, match=f"{name} must be a whole number of at least 1"):
        CostModel(**sizes)
