import itertools

import numpy as np
import pytest

from cells import Cell
from rebench.errors import InputError
from rebench.search import SearchSpace


def _distance(a: Cell, b: Cell) -> int:
    return sum(x != y for x, y in zip(a.ops, b.ops, strict=True))


@pytest.mark.parametrize("index", [0, 6111])
def test_neighbours_in_the_whole_space_are_the_24_one_edge_changes(index: int):
    cell = Cell.from_index(index)
    expected = set()
    for edge, op in itertools.product(range(6), range(5)):
        ops = list(cell.ops)
        ops[edge] = op
        expected.add(Cell(tuple(ops)).index)
    found = SearchSpace.whole().neighbours(index).tolist()
    assert len(found) == 24
    assert set(found) == expected - {index}


def test_neighbours_in_a_sample_are_its_nearest_cells():
    indices = sorted(np.random.default_rng(0).choice(15625, 60, replace=False).tolist())
    space = SearchSpace.of(indices)
    for position, index in enumerate(indices):
        cell = Cell.from_index(index)
        distances = {other: _distance(cell, Cell.from_index(other)) for other in indices}
        del distances[index]
        nearest = {other for other, far in distances.items() if far == min(distances.values())}
        assert {indices[near] for near in space.neighbours(position)} == nearest


def test_the_nearest_cell_can_differ_on_every_edge():
    far = [Cell((0,) * 6).index, Cell((1,) * 6).index]
    assert SearchSpace.of(far).neighbours(0).tolist() == [1]


def test_a_space_of_one_cell_has_no_neighbours_and_mutates_to_itself():
    space = SearchSpace.of([42])
    assert space.neighbours(0).size == 0
    assert space.mutate(0, np.random.default_rng(0)) == 0


def test_mutation_is_uniform_over_neighbours():
    space, generator = SearchSpace.whole(), np.random.default_rng(0)
    drawn = [space.mutate(7, generator) for _ in range(4800)]
    counts = np.array([drawn.count(near) for near in space.neighbours(7)])
    assert counts.sum() == 4800
    # 200 expected each; chi-squared with 23 degrees of freedom exceeds 50 with p = 0.001.
    assert ((counts - 200) ** 2 / 200).sum() < 50


def test_path_encoding_is_the_set_of_operation_sequences():
    space = SearchSpace.of([0, 11, 1528, 6111, 9930])
    routes = [[(3, 0)], [(1, 0), (3, 1)], [(2, 0), (3, 2)], [(1, 0), (2, 1), (3, 2)]]
    starts = {1: 0, 2: 4, 3: 20}
    for position, index in enumerate(space.indices):
        cell = Cell.from_index(int(index))
        expected = set()
        for route in routes:
            ops = [cell.op(*edge) for edge in route]
            if all(ops):
                code = sum((op - 1) * 4**power for power, op in enumerate(reversed(ops)))
                expected.add(starts[len(route)] + code)
        assert set(np.flatnonzero(space.features[position, 30:])) == expected


def test_all_cells_given_by_index_are_the_whole_space():
    assert SearchSpace.of(range(15625)) is SearchSpace.whole()


@pytest.mark.parametrize("indices", [[], [-1], [3, 15625]])
def test_a_bad_set_of_indices_is_refused(indices: list[int]):
    with pytest.raises(InputError, match="got"):
        SearchSpace.of(indices)


def test_a_cell_outside_the_sample_is_refused():
    with pytest.raises(InputError, match="cell 8 is not among the 2 cells"):
        SearchSpace.of([7, 9]).position(8)


@pytest.mark.parametrize("space", [SearchSpace.whole(), SearchSpace.of(range(0, 15625, 700))])
def test_many_mutants_are_those_of_one_after_the_other(space: SearchSpace):
    positions = np.arange(0, len(space), max(1, len(space) // 50))
    one_by_one, together = np.random.default_rng(3), np.random.default_rng(3)
    expected = [space.mutate(int(position), one_by_one) for position in positions]
    assert space.mutants(positions, together).tolist() == expected
    assert one_by_one.random() == together.random()
