"""Functional classes: their numbers, their identities, and the reference's own partition."""

from __future__ import annotations

import numpy as np
import pytest

import cells
from cells import Cell, CellError, all_cells


@pytest.mark.parametrize(
    ("partition", "count", "with_path"),
    [("benchmark", 6466, 6461), ("exact", 4930, 4929), ("strict", 5485, None)],
)
def test_partition_has_its_number_of_classes(partition, count, with_path):
    classes = cells.functional_classes(partition)
    assert len(np.unique(classes)) == count
    if with_path:
        connected = cells.compile_space().n_paths > 0
        assert len(np.unique(classes[connected])) == with_path


def same_partition(a, b) -> bool:
    pairs = set(zip(a, b, strict=True))
    return len(pairs) == len(set(a)) == len(set(b))


def test_benchmark_partition_is_the_references_own():
    # Independent check: ask the benchmark's package about every cell.
    pytest.importorskip("torch")
    genotypes = pytest.importorskip("xautodl.models.cell_searchs.genotypes")
    structure = genotypes.Structure
    texts = [structure.str2structure(str(cell)).to_unique_str(True) for cell in all_cells()]
    assert same_partition(texts, cells.functional_classes().tolist())


@pytest.mark.parametrize("partition", ["benchmark", "strict"])
def test_partition_refines_the_exact_one(partition):
    finer, coarser = cells.functional_classes(partition), cells.functional_classes("exact")
    assert len(set(zip(finer, coarser, strict=True))) == len(set(finer.tolist()))


def test_class_is_named_by_its_smallest_member():
    classes = cells.functional_classes()
    assert (classes <= np.arange(len(classes))).all()
    assert (classes[classes] == classes).all()
    cell = Cell.parse("1_01_001")
    members = cell.class_members()
    assert members == Cell.find(members[-1]).class_members()
    assert members[0] == classes[cell.index] == min(members)
    assert list(members) == sorted(members)


@pytest.mark.parametrize(
    ("one", "other", "benchmark", "exact", "strict"),
    [
        # The dead edges of vertex 2 do not matter where it leads nowhere.
        ("3_33_130", "3_21_130", True, True, True),
        # A sum commutes: the same two terms through different vertices.
        ("3_01_001", "0_30_001", True, True, True),
        # Two convolutions of one input, or one convolution that is used twice.
        ("3_30_011", "3_01_011", True, True, False),
        # A convolution of a zero vertex 1 is a bias, not nothing.
        ("0_30_031", "0_30_001", True, True, False),
        # A zero vertex 2 is not seen as zero by the published count.
        ("0_00_103", "0_00_100", False, True, False),
        # A 1x1 and a 3x3 convolution of zero are the same bias.
        ("0_30_021", "0_30_031", True, True, True),
        ("3_00_000", "0_00_300", False, False, False),
    ],
)
def test_identities(one, other, benchmark, exact, strict):
    a, b = Cell.parse(one), Cell.parse(other)
    for partition, equal in (("benchmark", benchmark), ("exact", exact), ("strict", strict)):
        same = b.index in a.class_members(partition)
        assert same == equal, partition


def test_unknown_partition_is_refused():
    with pytest.raises(cells.CellError, match="benchmark, exact or strict"):
        cells.functional_classes("loose")


@pytest.mark.parametrize("partition", ["benchmark", "exact", "strict"])
def test_a_cell_names_its_class_as_the_partition_does(partition):
    classes = cells.functional_classes(partition)
    asked = (0, 11, 9453, 15624)
    assert [Cell.from_index(i).functional_class(partition) for i in asked] == [
        classes[i] for i in asked
    ]


@pytest.mark.parametrize("indices", ["x", 11, [15625], [-1], None, [10**400], [1, "x"], [1.5]])
def test_indices_of_no_cells_are_refused(indices):
    with pytest.raises(CellError, match=r"must be a list of whole numbers in 0\.\.15624, got"):
        cells.trainable_networks(indices)
