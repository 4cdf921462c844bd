"""Parameters and FLOPs: the published figures, to the last digit."""

from __future__ import annotations

import pytest

import cells
from cells import Cell, CellError

# NAS-Bench-201's records: MFLOPs and millions of parameters on the three data sets.
PUBLISHED = {
    0: ((15.64737, 0.129306), (15.65322, 0.135156), (3.91948, 0.136456)),
    11: ((113.95137, 0.802426), (113.95722, 0.808276), (28.49548, 0.809576)),
    284: ((11.71521, 0.101306), (11.72106, 0.107156), (2.93644, 0.108456)),
    6111: ((153.27297, 1.073466), (153.27882, 1.079316), (38.32588, 1.080616)),
}


@pytest.mark.parametrize("index", PUBLISHED)
def test_cost_is_the_published_one(index: int):
    for dataset, expected in zip(
        ("cifar10", "cifar100", "ImageNet16-120"), PUBLISHED[index], strict=True
    ):
        price = cells.cost(Cell.from_index(index), dataset)
        assert (price.mflops, price.params_m) == expected


def test_space_has_28_distinct_costs():
    assert len(set(cells.compile_space().flops["cifar10"].tolist())) == 28


@pytest.mark.parametrize(("channels", "cells_per_stage"), [(16, 5), (4, 1), (8, 2)])
def test_parameters_equal_the_references_network(channels: int, cells_per_stage: int):
    # Independent: the benchmark's own network, its parameters counted.
    pytest.importorskip("torch")
    models = pytest.importorskip("xautodl.models")
    genotypes = pytest.importorskip("xautodl.models.cell_searchs.genotypes")
    for index in (0, 11, 284):
        cell = Cell.from_index(index)
        net = models.get_cell_based_tiny_net(
            {
                "name": "infer.tiny",
                "C": channels,
                "N": cells_per_stage,
                "genotype": genotypes.Structure.str2structure(str(cell)),
                "num_classes": 10,
            }
        )
        counted = sum(parameter.numel() for parameter in net.parameters())
        assert cells.cost(cell, "cifar10", channels, cells_per_stage).params == counted


def test_unknown_data_set_is_refused():
    with pytest.raises(CellError, match="known: cifar10"):
        cells.cost(Cell.from_index(0), "mnist")
