"""A sweep from Python: submitted, asked for, collected and opened, by the names people type."""

from __future__ import annotations

import pytest

import rebench
from rebench.errors import InputError
from rebench.recipes.fixed import Fixed

SWEEP = """
datasets = ["digits"]
seeds = [777]
epochs = 1
recipes = ["nb201"]

[cells]
indices = [11]

[skeleton]
channels = 4
cells_per_stage = 1

[slurm]
device = "cpu"
"""


def test_a_sweep_is_submitted_asked_for_and_opened_from_python(tmp_path):
    spec = tmp_path / "mine.toml"
    spec.write_text(SWEEP)
    done = rebench.submit(str(spec), cluster="debug", settings={"seeds": [777, 888]})
    assert (done.sent, done.done) == (2, 0)
    run = tmp_path / "runs" / "mine"
    assert {name: n for name, n in rebench.status(str(run)).counts.items() if n} == {"done": 2}
    assert rebench.collect(str(run)).trials == 2
    assert rebench.open(run).seeds(11, "digits", epochs=1).keys() == {777, 888}
    again = rebench.submit(spec, run, cluster="debug", settings={"seeds": [777, 888]})
    assert (again.sent, again.done) == (0, 2)


def test_of_a_stack_that_fails_the_trials_are_trained_alone(tmp_path, monkeypatch):
    def fail(*_):
        raise MemoryError

    monkeypatch.setattr(Fixed, "layer_init", fail)
    spec = tmp_path / "mine.toml"
    spec.write_text(SWEEP)
    of_two = {"recipes": ["nb201", "fixed"], "stack": 2}
    done = rebench.submit(spec, cluster="debug", settings=of_two)
    seen = rebench.status(done.run)
    assert {name: n for name, n in seen.counts.items() if n} == {"done": 1, "failed": 1}
    (failed,) = [one for one in seen.trials.values() if one.state == "failed"]
    assert failed.reason.startswith("out of memory: cell 11 digits fixed seed 777")


def test_an_unknown_cluster_is_refused_before_anything_is_written(tmp_path):
    spec = tmp_path / "mine.toml"
    spec.write_text(SWEEP)
    with pytest.raises(InputError, match="debgu"):
        rebench.submit(spec, cluster="debgu")
    assert not (tmp_path / "runs").exists()
