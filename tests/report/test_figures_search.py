from pathlib import Path

import pandas as pd
import pytest
from search_tables import smooth_table

from rebench.report.figures.search import anytime_figure, cliques, ranks_figure, save_comparison
from rebench.search import Budget, SearchSpace
from rebench.search.comparison import Comparison, compare


@pytest.fixture(scope="module")
def results() -> list[Comparison]:
    tables = [smooth_table(noise=0.5), smooth_table(SearchSpace.of(range(0, 15_625, 9)), noise=0.5)]
    budget = Budget(evaluations=40)
    return [
        compare(table, ["random", "rea", "local"], budget=budget, repeats=15) for table in tables
    ]


@pytest.mark.parametrize(
    ("ranks", "difference", "expected"),
    [
        ([1.0, 1.5, 2.0, 3.0], 0.6, [(0, 1), (1, 2)]),
        ([1.0, 1.2, 1.4, 3.0], 0.5, [(0, 2)]),
        ([1.0, 2.0, 3.0], 0.5, []),
        ([1.0, 1.1, 1.2], 5.0, [(0, 2)]),
    ],
)
def test_bars_join_what_is_not_told_apart(
    ranks: list[float], difference: float, expected: list[tuple[int, int]]
):
    assert cliques(ranks, difference) == expected


def test_anytime_draws_the_curve_it_saves(results: list[Comparison]):
    figure = anytime_figure(results[0])
    (axes,) = figure.axes
    for line, name in zip(axes.lines, results[0].algorithms, strict=True):
        part = figure.data[figure.data["algorithm"] == name]
        assert line.get_label() == name
        assert line.get_ydata().tolist() == part["regret"].tolist()
    assert "evaluations" in axes.get_xlabel()
    figure.canvas.draw()
    labels = [tick.get_text() for tick in axes.get_yticklabels(which="both")]
    assert [float(label) for label in labels if label]


def test_ranks_are_labelled_with_name_and_rank(results: list[Comparison]):
    figure = ranks_figure(results[0])
    texts = {text.get_text().strip() for text in figure.axes[0].texts}
    for row in figure.data.itertuples():
        assert f"{row.algorithm} {row.average_rank:.2f}" in texts


def test_two_comparisons_are_saved_whole(results: list[Comparison], tmp_path: Path):
    written = save_comparison(results, tmp_path / "old-new")
    assert {path.suffix for path in written} == {".pdf", ".svg", ".png", ".csv"}
    frame = pd.read_csv(tmp_path / "old-new-rerank.csv")
    assert len(frame) == 6
