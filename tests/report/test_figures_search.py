from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure
from search_tables import smooth_table

from rebench.errors import UnknownNameError
from rebench.report.figures.search import (
    _label_plainly,
    agreement_figure,
    anytime_figure,
    ranks_figure,
    save_comparison,
)
from rebench.search import Budget, SearchSpace
from rebench.search.comparison import Compared, Comparison, run_all


@pytest.fixture(scope="module")
def results() -> list[Comparison]:
    tables = [smooth_table(noise=0.5), smooth_table(SearchSpace.of(range(0, 15_625, 9)), noise=0.5)]
    budget = Budget(evaluations=40)
    return [
        run_all(table, ["random", "rea", "local"], budget=budget, repeats=15) for table in tables
    ]


def test_ranks_of_a_table_are_labelled_with_name_and_rank(results: list[Comparison]):
    fewer = replace(results[1], runs={"rea": results[1].runs["rea"]})
    figure = ranks_figure([results[0], fewer])
    assert figure.get_size_inches().tolist() == pytest.approx([3.3, 2 * (0.8 + 0.16 * 3)])
    assert figure.data["repeats"].tolist() == [15] * 4
    for axes, rows in zip(figure.axes, (figure.data[:3], figure.data[3:]), strict=True):
        texts = [label.get_text() for label in axes.get_yticklabels()][::-1]
        known = zip(rows["algorithm"], rows["average_rank"], strict=True)
        assert texts == [f"{name} {rank:.2f}" for name, rank in known]
        assert rows["average_rank"].is_monotonic_increasing
        (bars,) = axes.collections
        lengths = [end[0] - start[0] for start, end in bars.get_segments()]
        assert lengths == pytest.approx(rows["critical_difference"].tolist())
        assert axes.get_title() == "smooth"
        assert not any(line.get_clip_on() for line in axes.lines)  # whole markers at the ends


def test_figures_of_a_comparison_are_drawn_by_name(results: list[Comparison]):
    both = Compared(results=tuple(results), agreement=None)
    assert all(both.plot(name).data.index.is_unique for name in ("anytime", "ranks", "rerank"))
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


def test_panels_are_logarithmic_and_written_out(results: list[Comparison]):
    figure = anytime_figure(results)
    figure.canvas.draw()
    assert figure.get_size_inches().tolist() == pytest.approx([3.3, 4.8])
    for axes, result in zip(figure.axes, results, strict=True):
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
        assert axes.get_xlabel() == "evaluations, cifar10, smooth"
        for at, (line, band) in enumerate(zip(axes.lines, axes.collections, strict=True)):
            part = result.anytime().query("algorithm == @result.algorithms[@at]")
            assert line.get_label() == result.algorithms[at]
            assert line.get_ydata().tolist() == part["regret"].tolist()
            assert line.get_markevery() == (2 * at, 15)  # markers of several lines stay apart
            extents = band.get_paths()[0].get_extents()
            assert (extents.y0, extents.y1) == pytest.approx(
                (part["low"].min(), part["high"].max())
            )
        labels = [tick.get_text() for tick in axes.get_yticklabels(which="both")]
        assert [float(label) for label in labels if label]
    assert [axes.get_legend() is None for axes in figure.axes] == [False, True]
    timed = replace(results[0], budget=Budget(seconds=500))
    assert anytime_figure([timed]).axes[0].get_xlabel().startswith("simulated GPU-seconds, ")


def test_two_tables_are_joined_algorithm_by_algorithm(results: list[Comparison]):
    [axes] = agreement_figure(results).axes
    summaries = [result.summary().set_index("algorithm") for result in results]
    for at, (drawn, name) in enumerate(zip(axes.containers, results[0].algorithms, strict=True)):
        line, _, (bars,) = drawn
        rows = [summary.loc[name] for summary in summaries]
        assert line.get_xdata().tolist() == pytest.approx([0.06 * (at - 1), 1 + 0.06 * (at - 1)])
        assert line.get_ydata().tolist() == [row["regret"] for row in rows]
        ends = [segment[:, 1] for segment in bars.get_segments()]
        for (low, high), row in zip(ends, rows, strict=True):
            assert row["regret"] - low == pytest.approx(row["mean"] - row["low"])
            assert high - row["regret"] == pytest.approx(row["high"] - row["mean"])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == results[0].algorithms


@pytest.mark.parametrize(("highest", "between"), [(99, True), (100, False)])
def test_numbers_within_two_decades_are_written_out(highest: int, between: bool):
    figure = Figure()
    axes = figure.subplots()
    axes.set(xscale="log", xlim=(1, highest))
    _label_plainly(axes.xaxis)
    assert axes.xaxis.get_major_formatter()(2.5) == "2.5"
    assert bool(axes.xaxis.get_minor_formatter()(2.5)) == between
    assert {2, 5, 20, 50} <= {*axes.xaxis.get_minorticklocs().round(9)}


@pytest.mark.parametrize(
    ("limits", "numbers"),
    [((2.1, 4.9), ["3", "4"]), ((2.0, 9.0), ["2", "4", "6", "8"]), ((1.9, 9.5), ["2", "5"])],
)
def test_axis_of_less_than_a_decade_has_two_numbers_or_more(limits, numbers):
    figure = Figure()
    axes = figure.subplots()
    axes.set(xscale="log", xlim=limits)
    _label_plainly(axes.xaxis)
    figure.draw_without_rendering()
    low, high = limits
    ticks = axes.xaxis.get_major_ticks() + axes.xaxis.get_minor_ticks()
    shown = {tick.label1.get_text() for tick in ticks if low <= tick.get_loc() <= high}
    assert sorted(shown - {""}) == numbers
