"""Optimizers of the real Syne Tune run on exports: of complete spaces, of samples, with curves."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cells import OP_NAMES, Cell
from rebench.nats.choice import Choice
from rebench.nats.synetune import export_syne_tune
from rebench.tables import Table, open_table

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its own imports warn
    syne_tune = pytest.importorskip("syne_tune", reason="syne-tune is not installed")
    from syne_tune.backend.simulator_backend.simulator_callback import SimulatorCallback
    from syne_tune.blackbox_repository import UserBlackboxBackend, add_surrogate
    from syne_tune.blackbox_repository.blackbox_tabular import deserialize
    from syne_tune.config_space import choice
    from syne_tune.optimizer.baselines import ASHA, BORE, REA, RandomSearch

pytestmark = pytest.mark.filterwarnings("ignore")  # of Syne Tune and scikit-learn
METRIC = "metric_valid_error"
TWO = ("nor_conv_3x3", "avg_pool_3x3")
OPTIMIZERS = {
    "random": lambda space, _: RandomSearch(space, metrics=[METRIC], random_seed=1),
    "rea": lambda space, _: REA(
        space, metric=METRIC, random_seed=1, population_size=5, sample_size=2
    ),
    "bore": lambda space, _: BORE(space, metric=METRIC, random_seed=1),
    "asha": lambda space, epochs: ASHA(
        space, metric=METRIC, time_attr="hp_epoch", max_t=epochs, random_seed=1
    ),
}


def _opened(table: Table, out: Path, task: str) -> Any:
    made = export_syne_tune(Choice(published=table), out)
    return deserialize(str(made.path))[task]


def _cells_of_nb201(cells: list[int]) -> Table:
    rows = open_table("nb201").frame()
    return Table.from_frame(rows[rows["index"].isin(cells)], name="nb201", origin="published")


@pytest.fixture(scope="module")
def boxes(tmp_path_factory) -> dict[str, Any]:
    """A complete space of two operations, and surrogates of 60 cells without and with curves."""
    folder = tmp_path_factory.mktemp("syne-tune")
    ops = [OP_NAMES.index(name) for name in TWO]
    space = [Cell(edges).index for edges in itertools.product(ops, repeat=6)]
    sample = open_table("mini@topology").means().index.tolist()
    return {
        "space": _opened(_cells_of_nb201(space), folder / "space", "cifar10"),
        "sample": add_surrogate(
            _opened(_cells_of_nb201(sample), folder / "sample", "ImageNet16-120")
        ),
        "curves": add_surrogate(
            _opened(open_table("mini@topology"), folder / "curves", "cifar10-jpeg16")
        ),
    }


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("kind", ["space", "sample", "curves"])
def test_optimizer_runs_on_an_export(kind, name, boxes, tmp_path, monkeypatch):
    if name == "bore":
        pytest.importorskip("xgboost", reason="BORE needs xgboost")
    monkeypatch.setenv("SYNETUNE_FOLDER", str(tmp_path))
    box = boxes[kind]
    space = dict(box.configuration_space)
    if kind == "space":
        space = dict.fromkeys(space, choice(list(TWO)))
    tuner = syne_tune.Tuner(
        trial_backend=UserBlackboxBackend(
            blackbox=box, elapsed_time_attr="metric_elapsed_time", seed=0
        ),
        scheduler=OPTIMIZERS[name](space, int(box.fidelity_values[-1])),
        stop_criterion=syne_tune.StoppingCriterion(max_num_trials_started=12),
        n_workers=2,
        sleep_time=0,
        callbacks=[SimulatorCallback()],
        save_tuner=False,
    )
    tuner.run()
    stats = tuner.tuning_status.overall_metric_statistics
    assert stats.count >= 10
    assert np.isfinite(stats.min_metrics[METRIC])
