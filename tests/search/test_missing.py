import pytest
from search_tables import smooth_table

from rebench.errors import InputError
from rebench.search import Budget, SearchSpace
from rebench.search.comparison import Comparison, compare
from rebench.search.missing import answers_retrained, missing_answers, sweep_toml
from rebench.sweep.spec import parse_spec


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return compare(smooth_table(), ["random", "local"], budget=Budget(evaluations=60), repeats=20)


def test_missing_answers_are_those_not_trained_most_frequent_first(comparison: Comparison):
    everything = missing_answers(comparison, [])
    assert everything["runs"].sum() == 40
    assert everything["share"].sum() == pytest.approx(1.0)
    assert everything["runs"].is_monotonic_decreasing
    first = int(everything["index"][0])
    rest = missing_answers(comparison, [first])
    assert first not in set(rest["index"])
    assert len(rest) == len(everything) - 1


def test_answers_are_looked_up_in_the_retrained_table(comparison: Comparison):
    indices = comparison.answers()["index"].tolist()
    half = sorted(set(indices))[::2]
    found = answers_retrained(comparison, smooth_table(SearchSpace.of(half))).set_index("algorithm")
    runs = [
        int(comparison.table.space.indices[run.answers[-1]]) for run in comparison.runs["random"]
    ]
    assert found.loc["random", "covered"] == sum(index in half for index in runs) / 20
    assert found.loc["random", "searched"] == found.loc["random", "retrained"]


def test_a_table_that_holds_no_answer_gives_no_mean(comparison: Comparison):
    absent = next(i for i in range(15_625) if i not in set(comparison.answers()["index"]))
    found = answers_retrained(comparison, smooth_table(SearchSpace.of([absent])))
    assert found["covered"].tolist() == [0.0, 0.0]
    assert found["retrained"].isna().all()


def test_a_sweep_is_written_that_the_sweep_reader_accepts():
    text = sweep_toml(
        [11, 6111],
        dataset="cifar10",
        recipe="fixed(learning_rate=0.3,note=a b)",
        seeds=[777, 888],
        epochs=200,
        comment="two\nlines",
    )
    parsed = parse_spec(text)
    assert parsed.cells.indices == [11, 6111]
    assert parsed.datasets == ["cifar10"]
    assert parsed.seeds == [777, 888]
    assert parsed.recipes[0].name == "fixed"
    assert parsed.recipes[0].parameters == {"learning_rate": 0.3, "note": "a b"}
    assert parsed.recipes[0].label == "fixed(learning_rate=0.3,note=a b)"


def test_nothing_missing_is_said_and_not_written():
    with pytest.raises(InputError, match="nothing to train"):
        sweep_toml([], dataset="cifar10", recipe="nb201", seeds=[777], epochs=200)


def test_a_label_that_is_no_recipe_is_refused():
    with pytest.raises(InputError, match="a recipe is NAME"):
        sweep_toml([1], dataset="cifar10", recipe="a b(", seeds=[777], epochs=200)
