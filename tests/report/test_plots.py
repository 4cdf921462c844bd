"""Results draw their figures."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from drawings import reranking
from made_surfaces import some_cells, surface_table
from search_tables import smooth_table
from support import PROJECT

from experiments.surface.answers import ask_surface
from rebench.errors import UnknownNameError
from rebench.report.figures.drawers import draw
from rebench.search import Budget
from rebench.search.comparison import run_all


def test_comparison_draws_its_figures_by_name():
    found = reranking()
    drawn = [found.plot(name) for name in ("reranking", "curve", "differences")]
    assert [len(one.axes) for one in drawn] == [3, 1, 2]
    assert all(one.data.index.is_unique for one in drawn)
    with pytest.raises(UnknownNameError, match="unknown figure 'tau'; valid: "):
        found.plot("tau")
    with pytest.raises(TypeError, match="no figure of a int"):
        draw(3)


def test_accuracies_have_ticks_at_ones_twos_or_fives():
    axes = reranking().plot("reranking").axes[0]
    axes.set(xlim=(0, 10), ylim=(60, 90))
    assert axes.get_xticks().tolist() == [0, 5, 10]
    assert axes.get_yticks().tolist() == [60, 70, 80, 90]


def test_every_other_result_has_its_figure():
    compared = run_all(smooth_table(), ["random", "rea"], budget=Budget(evaluations=10), repeats=3)
    surface = ask_surface(surface_table(0.1, some_cells(24)), draws=5)
    shown = [len(one.plot().axes) for one in (reranking(), compared, surface)]
    assert shown == [3, 1, 3]
    assert repr(surface).startswith("<SurfaceAnswers: 24 cells at ")


def test_surface_shows_recipes_at_the_rates_at_which_they_learn():
    table = surface_table(0.1, some_cells(24))
    own = surface_table(0.1, some_cells(24), rates=(0.6,), rng=np.random.default_rng(1))
    direct = own.assign(recipe="fixed(lr=0.6,init=he)", rate=np.nan, learning_rate=0.6)
    both = pd.concat([table, direct.assign(channels=4, cells_per_stage=1)])
    answers = ask_surface(both, draws=5)
    [marked] = answers.plot().axes[1].containers
    assert marked.get_label() == "fixed(lr=0.6,init=he)"
    x, y = marked.lines[0].get_data()
    assert x == pytest.approx([0.1])
    assert y == pytest.approx([answers.direct_reranking["drop"].iloc[0]])


def test_a_notebook_shows_a_figure_as_wide_as_a_column_on_its_screen():
    png, size = reranking().plot()._repr_png_()
    assert png.startswith(b"\x89PNG")
    assert size == {"width": 495}  # 3.3 inches at 150 pixels


def test_results_that_nobody_draws_load_no_matplotlib():
    code = (
        "import sys, rebench; rebench.compare(range(20), range(1, 21), draws=0);"
        "import rebench.search.comparison, rebench.analysis.matrix;"
        "sys.exit('matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=PROJECT, check=False).returncode == 0
