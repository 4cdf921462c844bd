"""Cells that a sweep chooses; expected sets are counted by hand or from statistics of the space."""

import numpy as np
import pytest

from cells import Cell, compile_space
from rebench.errors import InputError
from rebench.launch.expansion import expand_spec
from rebench.runs import choose_cells, parse_spec, read_spec
from rebench.runs.sample import _best, _stratify
from rebench.runs.spec import CellsSpec
from rebench.tables import open_table

SPACE = compile_space()
# A made-up table: the accuracy of a cell is its index, and every tenth cell is absent.
TABLE = np.where(np.arange(15625) % 10 == 9, np.nan, np.arange(15625.0))


def choose(**choice) -> list[int]:
    cells, _ = choose_cells(CellsSpec(**choice), lambda _: TABLE)
    return [cell.index for cell in cells]


def test_names_of_one_cell_are_one_cell():
    cells, repeated = choose_cells(
        CellsSpec(indices=[11, 11], strings=[str(Cell.from_index(11)), Cell.from_index(11).code]),
        lambda _: TABLE,
    )
    assert ([cell.index for cell in cells], repeated) == ([11], 3)


def test_random_is_decided_by_its_seed():
    first = choose(random={"n": 50, "seed": 1})
    assert len(set(first)) == 50
    assert choose(random={"n": 50, "seed": 1}) == first
    assert choose(random={"n": 50, "seed": 2}) != first


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"random": {"n": 15_626}}, r"cells\.random\.n is too large: 15626 cells .* from 15625"),
        (
            {"stratified": {"n": 15_626, "strata": 2, "by": "multiplier"}},
            r"cells\.stratified\.n = 15626 \(strata = 2\) is too large: 7813 cells",
        ),
    ],
)
def test_more_cells_than_there_are_is_bad_input(choice, message):
    with pytest.raises(InputError, match=message):
        choose(**choice)


def test_stratified_draws_equally_from_each_tenth_of_the_accuracies():
    chosen = np.array(choose(stratified={"n": 40, "strata": 10}))
    ranked = np.flatnonzero(np.isfinite(TABLE))
    for stratum in np.array_split(ranked, 10):
        assert np.isin(chosen, stratum).sum() == 4


def test_stratified_by_multiplier_leaves_out_cells_without_a_path():
    chosen = choose(stratified={"n": 200, "by": "multiplier"})
    assert len(chosen) == 200
    assert np.isfinite(SPACE.lr_multiplier[chosen]).all()


def test_functional_classes_one_of_each_and_every_member():
    """The published count of functionally distinct cells is 6,466 (NAS-Bench-201)."""
    assert len(choose(all=True, classes="one of each")) == 6466
    assert len(choose(all=True, classes="one of each network")) == 5485
    members = choose(indices=[11], classes="every member")
    same = np.flatnonzero(SPACE.functional_class == SPACE.functional_class[11])
    assert members == same.tolist()


def test_cells_of_a_sweep_file_are_chosen_by_a_released_table(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(
        'datasets = ["digits"]\nrecipes = ["nb201"]\nseeds = [1]\n'
        '[cells]\ntop = { n = 2, table = "nb201" }\n'
    )
    best = open_table("nb201").means("cifar10", "ori-test", 200).nlargest(2).index
    chosen = {trial.cell.index for trial in expand_spec(read_spec(path)).trials}
    assert chosen == set(best)


def test_expansion_counts_duplicates_and_skips_with_reasons():
    expansion = expand_spec(
        parse_spec(
            'datasets = ["digits"]\nrecipes = ["nb201", "topology", "nb201"]\nseeds = [1, 2]\n'
            '[cells]\nindices = [11, 11]\nstrings = ["0_00_000"]'
        )
    )
    # 2 cells x 2 seeds x 2 recipes are 8 trials; `topology` has no rate for the cell without a
    # path.
    assert len(expansion.trials) == 6
    ((reason, count),) = expansion.skipped.items()
    assert "no learning rate" in reason
    assert count == 2
    assert expansion.duplicates == 1 + 4  # a cell given twice; a recipe given twice


def test_best_cells_of_a_table_are_those_of_its_values(tmp_path):
    rows = ["index,dataset,split,epochs,seed,accuracy"]
    means = {3: (50.0, 60.0), 5: (70.0, 20.0), 8: (54.0, 54.0), 9: (58.0, 50.0)}
    rows += [
        f"{index},cifar10,ori-test,200,{seed},{value}"
        for index, both in means.items()
        for seed, value in zip((777, 888), both, strict=True)
    ]
    (tmp_path / "t.csv").write_text("\n".join(rows))
    sweep = 'datasets = ["digits"]\nrecipes = ["nb201"]\nseeds = [1]\n[cells.top]\n'
    (tmp_path / "sweep.toml").write_text(f"{sweep}table = 't.csv'\nn = 3\n")
    trials = expand_spec(read_spec(tmp_path / "sweep.toml")).trials
    # Cells are chosen by their means: 3 has 55; 8 and 9 have 54 and tie; 5 has 45.
    assert [trial.cell.index for trial in trials] == [3, 8, 9]
    (tmp_path / "sweep.toml").write_text(f"{sweep}table = 't.csv'\nn = 5\n")
    with pytest.raises(InputError, match=r"n = 5, .* 4 cells"):
        expand_spec(read_spec(tmp_path / "sweep.toml"))
    with pytest.raises(InputError, match="choosing cells by accuracy needs a table"):
        expand_spec(parse_spec(f"{sweep}n = 3\n"))


@pytest.mark.parametrize(
    ("percent", "best"), [(1, [7]), (7.4, [7]), (7.6, [7, 2]), (50, [7, 2, 5, 0, 1, 3, 4, 6, 8, 9])]
)
def test_top_percent_rounds_and_takes_one_at_least_ties_by_index(percent, best):
    """20 cells have an accuracy: 50 % of them are 10, 7.4 % are 1.48, and 7.6 % are 1.52."""
    accuracy = np.full(30, np.nan)
    accuracy[:20] = 1.0
    accuracy[[7, 2, 5]] = 4.0, 3.0, 2.0
    assert _best(accuracy, None, percent) == best


def test_a_number_of_cells_that_no_strata_divide_goes_to_the_first():
    """11 cells are drawn from four strata of five cells: 3, 3, 3 and 2."""
    order = np.full(25, np.nan)
    order[:20] = np.arange(20.0)[::-1]
    chosen = _stratify(order, 11, 4, seed=0)
    values = order[chosen]
    assert [int(((values >= low) & (values < low + 5)).sum()) for low in (0, 5, 10, 15)] == [
        3,
        3,
        3,
        2,
    ]
    assert len(set(chosen)) == 11
