from pathlib import Path

import pandas as pd
import pytest
from search_tables import smooth_table

from rebench.errors import UnknownNameError
from rebench.report.figures.search import anytime_figure, ranks_figure, save_comparison
from rebench.search import Budget, SearchSpace
from rebench.search.comparison import Compared, Comparison, run_all


@pytest.fixture(scope="module")
def results() -> list[Comparison]:
    tables = [smooth_table(noise=0.5), smooth_table(SearchSpace.of(range(0, 15_625, 9)), noise=0.5)]
    budget = Budget(evaluations=40)
    return [
        run_all(table, ["random", "rea", "local"], budget=budget, repeats=15) for table in tables
    ]


def test_anytime_draws_the_curve_it_saves(results: list[Comparison]):
    figure = anytime_figure(results[:1])
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
    figure = ranks_figure(results[:1])
    (axes,) = figure.axes
    texts = [label.get_text() for label in axes.get_yticklabels()][::-1]
    known = figure.data.itertuples()
    assert texts == [f"{row.algorithm} {row.average_rank:.2f}" for row in known]
    assert figure.data["average_rank"].is_monotonic_increasing
    (bars,) = axes.collections
    lengths = [end[0] - start[0] for start, end in bars.get_segments()]
    assert lengths == pytest.approx([figure.data["critical_difference"].iloc[0]] * len(texts))


def test_figures_of_a_comparison_are_drawn_by_name(results: list[Comparison]):
    both = Compared(results=tuple(results), agreement=None)
    assert both.plot().data.equals(anytime_figure(results).data)
    assert both.plot("ranks").data.equals(ranks_figure(results).data)
    assert set(both.plot("rerank").data["side"]) == {0, 1}
    with pytest.raises(UnknownNameError, match="unknown figure 'rank'; valid: rank"):
        both.plot("rank")
    with pytest.raises(UnknownNameError, match=r"valid: ranks, anytime$"):
        results[0].plot("rerank")


def test_two_comparisons_are_saved_whole(results: list[Comparison], tmp_path: Path):
    written = save_comparison(results, tmp_path / "old-new")
    assert {path.suffix for path in written} == {".pdf", ".svg", ".png", ".csv"}
    frame = pd.read_csv(tmp_path / "old-new-rerank.csv")
    assert len(frame) == 6
