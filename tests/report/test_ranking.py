"""Figures of re-ranking: what is drawn is what was found, and the data lie beside the figure."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from drawings import accuracies, reranking

from rebench.analysis import Paired, rerank
from rebench.report.figures.ranking import (
    draw_head_to_head,
    draw_reranking,
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
    assert data["accuracy"]["index"].tolist() == found.before.cells.tolist()
    np.testing.assert_allclose(data["accuracy"]["x"], found.before.means)
    np.testing.assert_allclose(data["accuracy"]["y"], found.after.means)
    curve = found.curve.dropna(subset=["tau"])
    for column, source in (("y", "tau"), ("low", "tau_low"), ("high", "tau_high")):
        np.testing.assert_allclose(data["tau"][column], curve[source])
    np.testing.assert_allclose(data["seed noise alone"]["y"], curve["noise"])
    drawn = data[f"gaps, {found.after.name}"]
    edges = np.append(drawn["x"], drawn["x"].iloc[-1] + drawn["x"].iloc[1])
    pairs = [abs(a - b) for a, b in itertools.combinations(found.after.means, 2)]
    shares = 100 * np.histogram(pairs, edges)[0] / len(pairs)
    np.testing.assert_allclose(drawn["y"], shares)


def test_head_to_head_saves_the_differences(found, tmp_path):
    draw_head_to_head(found).save(tmp_path / "figure8", formats=SVG)
    assert _data(tmp_path / "figure8")["difference"]["y"].sum() == 60


@pytest.mark.parametrize(("n", "seeds"), [(3, 3), (12, 1)])
def test_few_cells_and_single_seeds_still_draw(n, seeds, tmp_path):
    found = rerank(
        Paired.of(
            accuracies("benchmark", n, seeds=seeds), accuracies("topology", n, seeds=seeds, seed=1)
        ),
        dataset="digits",
        draws=20,
        rng=np.random.default_rng(0),
    )
    for name, draw in (("4", draw_reranking), ("8", draw_head_to_head)):
        assert draw(found).save(tmp_path / name, formats=SVG)
