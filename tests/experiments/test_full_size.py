"""The sweep of experiments/full-size contains the cells that its plan describes."""

from __future__ import annotations

import numpy as np
from support import PROJECT

from cells import Cell, compile_space, functional_classes
from rebench.runs import read_spec

SPEC = PROJECT / "experiments" / "full-size" / "full-size.toml"


def test_cells_are_one_of_each_class_drawn_at_random():
    classes = functional_classes("exact")
    connected = compile_space().n_paths > 0
    first = np.flatnonzero((classes == np.arange(len(classes))) & connected)
    drawn = np.random.default_rng(200).choice(first, 80, replace=False)
    assert len(first) == 4929
    assert list(read_spec(SPEC).cells.indices) == sorted(drawn.tolist())


def test_sweep_has_the_trials_and_the_size_of_the_plan():
    spec = read_spec(SPEC)
    families = spec.families([Cell.from_index(index) for index in spec.cells.indices])
    assert sum(len(list(family)) for family in families) == 480
    assert (spec.epochs, spec.skeleton.channels, spec.skeleton.cells_per_stage) == (200, 16, 5)
    assert spec.protocol.batch_size == 256
