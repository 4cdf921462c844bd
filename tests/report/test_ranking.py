"""Figures of rank comparisons show the results, and are saved with their data."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from drawings import reranking

from rebench.analysis import Paired, rerank
from rebench.report.figures.ranking import (
    draw_curve,
    draw_head_to_head,
    draw_reranking,
    draw_tau_matrix,
)

SVG = ("svg",)


@pytest.fixture(scope="module")
def found():
    return reranking()


def _data(path):
    table = pd.read_csv(path.with_suffix(".csv"))
    return {name: rows.reset_index(drop=True) for name, rows in table.groupby("series")}


def test_reranking_saves_accuracies_tau_noise_and_gaps(found, tmp_path):
    written = draw_reranking(found).save(tmp_path / "figure4", formats=SVG)
    assert [path.name for path in written] == ["figure4.svg", "figure4.csv"]
    data = _data(tmp_path / "figure4")
    assert list(pd.read_csv(tmp_path / "figure4.csv"))[:4] == ["dataset", "series", "x", "y"]
    assert data["accuracy"]["index"].tolist() == found.baseline.cells.tolist()
    np.testing.assert_allclose(data["accuracy"]["x"], found.baseline.means)
    np.testing.assert_allclose(data["accuracy"]["y"], found.other.means)
    curve = found.frame().dropna(subset=["tau"])
    for series, source in (("tau", "tau"), ("seed tau", "seed_tau")):
        np.testing.assert_allclose(data[series]["x"], curve["top_percent"])
        for column, name in (("y", source), ("low", f"{source}_low"), ("high", f"{source}_high")):
            np.testing.assert_allclose(data[series][column], curve[name])
    assert set(pd.read_csv(tmp_path / "figure4.csv")["dataset"]) == {"cifar10"}
    for table in (found.baseline, found.other):
        drawn = data[f"gaps, {table.name}"]
        edges = np.append(drawn["x"], drawn["x"].iloc[-1] + drawn["x"].iloc[1])
        pairs = [abs(a - b) for a, b in itertools.combinations(table.means, 2)]
        shares = 100 * np.histogram(pairs, edges)[0] / len(pairs)
        np.testing.assert_allclose(drawn["y"], shares)


@pytest.mark.parametrize(("n", "seeds"), [(3, 3), (12, 1)])
def test_few_cells_and_single_seeds_still_draw(n, seeds, tmp_path):
    found = reranking(n, seeds=seeds)
    for name, draw in (("4", draw_reranking), ("8", draw_head_to_head)):
        assert draw(found).save(tmp_path / name, formats=SVG)


@pytest.mark.parametrize(("n", "bins"), [(60, 8), (200, 25), (400, 40)])
def test_histogram_of_differences_has_a_bin_for_eight_cells(n, bins):
    found = reranking(n)
    figure = draw_head_to_head(found)
    drawn, ends, _ = figure.axes[1].patches[0].get_data()
    counts, edges = np.histogram(found.other.means - found.baseline.means, bins)
    assert drawn.tolist() == counts.tolist()
    np.testing.assert_allclose(ends, edges)
    saved = figure.data[figure.data["series"] == "difference"]
    assert saved["x"].tolist() == ends[:-1].tolist()
    assert saved["y"].tolist() == counts.tolist()
    zero, mean = (line.get_xdata() for line in figure.axes[1].lines)
    row = found.improvement
    assert (*zero, *mean) == (0, 0, row["difference"], row["difference"])
    span = figure.axes[1].patches[1]
    # A polygon before matplotlib 3.9, a rectangle since.
    box = span.get_patch_transform().transform_path(span.get_path()).get_extents()
    assert (box.x0, box.x1) == (row["low"], row["high"])
    assert figure.axes[1].lines[1].get_label() == f"mean {row['difference']:+.2f}"


@pytest.mark.parametrize(("n", "share"), [(49, 0), (60, 0.02)])
def test_cells_are_shown_but_for_the_worst_two_percent_of_many(n, share):
    """The worst 2 % are not shown if both tables together have at least 100 values."""
    found = reranking(n)
    both = np.concatenate([found.baseline.means, found.other.means])
    low, high = np.quantile(both, share), both.max()
    room = max(0.04 * (high - low), 0.05)
    axes = draw_reranking(found).axes[0]
    expected = pytest.approx((low - room, high + room))
    assert axes.get_xlim() == expected
    assert axes.get_ylim() == expected
    assert axes.lines[1].get_xydata().ravel() == pytest.approx([low - room] * 2 + [high + room] * 2)
    pairs = zip(found.baseline.means, found.other.means, strict=True)
    outside = sum(min(pair) < low - room for pair in pairs)
    said = [f"not shown: {outside} lower"] if outside else []
    assert [text.get_text() for text in axes.texts if text.get_text() != "a"] == said
    assert axes.get_xlabel() == "benchmark (%)"
    assert axes.get_xticks().tolist() == axes.get_yticks().tolist()
    assert axes.get_ylabel() == "topology(b…_lr=0.46) (%)"


def test_equal_accuracies_have_room_around_them():
    found = rerank(
        Paired.of_values([90.0, 90.1, 90.2], [90.0, 90.1, 90.2]), dataset="digits", draws=0
    )
    assert draw_reranking(found).axes[0].get_xlim() == pytest.approx((89.95, 90.25))


@pytest.mark.parametrize(("n", "bins"), [(99, 12), (100, 30)])
def test_gaps_of_cells_are_counted_up_to_that_of_good_and_weak_ones(n, bins):
    found = reranking(n)
    axes = draw_reranking(found).axes[1]
    longest = max(
        np.subtract(*np.quantile(means, [0.98, 0.1]))
        for means in (found.baseline.means, found.other.means)
    )
    for patch, table, line in zip(
        axes.patches, (found.baseline, found.other), ("--", "-"), strict=True
    ):
        np.testing.assert_allclose(patch.get_data().edges, np.linspace(0, longest, bins + 1))
        assert patch.get_linestyle() == line
        start, _, end = patch.get_label().partition("…")
        assert table.name.startswith(start)
        assert table.name.endswith(end)


def test_curve_of_tau_goes_from_all_cells_to_the_best():
    found = reranking()
    axes = draw_reranking(found).axes[2]
    noise, tau = axes.lines
    curve = found.frame().dropna(subset=["tau"])
    assert tau.get_xydata().tolist() == curve[["top_percent", "tau"]].to_numpy().tolist()
    assert noise.get_ydata().tolist() == curve["seed_tau"].tolist()
    assert axes.xaxis.get_inverted()
    for band, name in zip(axes.collections, ("seed_tau", "tau"), strict=True):
        [path] = band.get_paths()
        assert path.get_extents().y0 == pytest.approx(curve[f"{name}_low"].min())
        assert path.get_extents().y1 == pytest.approx(curve[f"{name}_high"].max())
    assert (noise.get_linestyle(), tau.get_linestyle()) == ("--", "-")
    label = "K: top K % of the cells by one seed of benchmark"
    assert (axes.get_xscale(), axes.get_xlabel()) == ("log", label)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        "seed tau", "tau of topology(base_lr=0.46)"
    ]  # fmt: skip


def test_curve_alone_is_the_panel_of_the_whole_figure(found):
    alone, whole = draw_curve(found), draw_reranking(found)
    assert alone.get_size_inches().tolist() == [3.3, 2.0]
    for one, other in zip(alone.axes[0].lines, whole.axes[2].lines, strict=True):
        assert one.get_xydata().tolist() == other.get_xydata().tolist()
    rows = whole.data[whole.data["series"].isin(["tau", "seed tau"])].dropna(axis="columns")
    pd.testing.assert_frame_equal(alone.data, rows.reset_index(drop=True)[alone.data.columns])


def test_every_k_of_a_short_curve_is_a_tick():
    """With 16 cells, tau is known from K = 100 to 70."""
    ticks = draw_curve(reranking(16)).axes[0].xaxis.get_major_locator().locs
    assert list(ticks) == [100, 90, 80, 70, 60]


@pytest.mark.parametrize("draw", [draw_reranking, draw_head_to_head])
def test_panels_next_to_each_other_have_one_height(found, draw):
    figure = draw(found)
    figure.draw_without_rendering()
    left, right = (axes.get_window_extent() for axes in figure.axes[:2])
    assert (left.y0, left.y1) == pytest.approx((right.y0, right.y1), abs=0.5)


@pytest.mark.parametrize("number", [3, 12, 13])
def test_matrix_has_tau_above_its_diagonal_and_noise_below(number):
    names = [f"r{at}" for at in range(number)]
    pairs = pd.DataFrame(itertools.combinations(names, 2), columns=["first", "second"])
    pairs["tau"] = np.linspace(0.9, -0.25, len(pairs))
    pairs["seed_tau"] = pairs["tau"] / 2 + 0.5
    pairs["p_adjusted"] = np.where(np.arange(len(pairs)) == 1, 0.05, 0.051)
    pairs = pd.concat([pairs.assign(top_percent=100.0), pairs.assign(top_percent=50.0, tau=0.0)])
    figure = draw_tau_matrix(pairs, "digits")
    axes = figure.axes[0]
    [image] = axes.images
    expected = np.full((number, number), np.nan)
    for row in pairs[pairs["top_percent"] == 100].itertuples():
        at, to = names.index(row.first), names.index(row.second)
        expected[at, to], expected[to, at] = row.tau, row.seed_tau
    np.testing.assert_allclose(image.get_array().filled(np.nan), expected)
    assert image.get_clim() == (-0.25, 1)
    written = {text.get_position(): text for text in axes.texts}
    assert len(written) == (number * (number - 1) if number <= 12 else 0)
    assert len(figure.axes) == (1 if number <= 12 else 2)  # colours instead of numbers
    for (column, row), text in written.items():
        star = "*" if (row, column) == (0, 2) else ""
        assert text.get_text() == f"{expected[row, column]:.2f}{star}"
        light = np.mean(image.to_rgba(expected[row, column])[:3])
        assert text.get_color() == ("black" if light > 0.4 else "white")
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        str(at + 1) for at in range(number)
    ]
    assert axes.get_title() == "digits, top 100 %"
    height = 0.7 + 0.12 * axes.get_xlabel().count("\n") + 0.21 * max(number, 4)
    assert figure.get_size_inches().tolist() == pytest.approx([3.3, height])
    assert axes.get_xlabel().endswith("(p <= 0.05)") == (number <= 12)
    key = axes.get_xlabel().replace("\n", " ").replace("\xa0", " ")
    assert all(f"{at + 1}: {name}" in key for at, name in enumerate(names))
