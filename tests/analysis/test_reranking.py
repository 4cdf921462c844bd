"""One comparison whole: the pieces agree with each other, and what is missing is said."""

from __future__ import annotations

import numpy as np
import pytest

from rebench.analysis import Accuracies, rank_agreement, rerank, verdict


def _accuracies(name, values, epochs=200):
    values = np.asarray(values, dtype=float)
    return Accuracies(
        name=name,
        cells=np.arange(len(values)),
        seeds=(777, 888, 999)[: values.shape[1]],
        runs=values,
        epochs=epochs,
        notes=(),
    )


def _pair(n, seeds, change, seed=0):
    rng = np.random.default_rng(seed)
    true = rng.normal(90, 2, (n, 1))
    before = true + rng.normal(0, 0.3, (n, seeds[0]))
    after = true + change * rng.normal(size=(n, 1)) + rng.normal(0, 0.3, (n, seeds[1]))
    return _accuracies("benchmark", before), _accuracies("topology", after)


def _rerank(tables, **choices):
    rng = np.random.default_rng(1)
    return rerank(*tables, dataset="cifar10", draws=49, rng=rng, **choices)


def test_curve_holds_agreement_and_noise_side_by_side():
    tables = _pair(80, (3, 3), 0.0)
    found = _rerank(tables)
    alone = rank_agreement(tables[0].runs, tables[1].runs, draws=0, rng=np.random.default_rng())
    np.testing.assert_allclose(found.curve["tau"], alone["tau"])
    assert found.curve["null_tau"].notna().sum() == found.curve["tau"].notna().sum()
    assert found.seeds["first"].unique().tolist() == [777, 888, 999]
    assert found.improvement["n_cells"] == 80
    assert found.splits["table"].unique().tolist() == ["benchmark", "topology"]
    assert found.splits["seeds"].unique().tolist() == ["1 + 1"]
    one = found.splits.iloc[0]
    assert one["tau"] == pytest.approx(found.seeds.query("top_percent == 100")["tau"].mean())
    assert one["simulated"] == pytest.approx(one["tau"], abs=0.1)


@pytest.mark.parametrize(
    ("n", "seeds", "change", "words"),
    [
        (80, (3, 3), 0.0, "did not move by more than seed noise"),
        (80, (3, 3), 2.0, "moved by more than seed noise"),
        (
            80,
            (3, 1),
            2.0,
            "That is if topology, with one seed a cell, is no noisier than benchmark.",
        ),
        (80, (1, 1), 2.0, "Each table has one seed a cell"),
        (5, (3, 3), 0.0, "Too few cells in common (5; 10 are needed)"),
    ],
)
def test_verdict_says_what_the_test_found(n, seeds, change, words):
    assert words in verdict(_rerank(_pair(n, seeds, change)))


def test_single_seeds_are_noted_with_what_is_assumed():
    assert (
        "topology has one seed a cell: its noise is taken to be that of benchmark"
        in _rerank(_pair(40, (3, 1), 0.0)).notes
    )
    assert "with 40 cells the test of movement sees only large changes" in (
        _rerank(_pair(40, (3, 3), 0.0)).notes
    )
    assert any("no noise baseline" in note for note in _rerank(_pair(40, (1, 1), 0.0)).notes)


def test_top_holds_the_ten_best_of_each_table():
    before, after = _pair(50, (2, 2), 2.0)
    top = _rerank((before, after)).top
    best_before = np.argsort(-before.runs.mean(axis=1))[:10]
    best_after = np.argsort(-after.runs.mean(axis=1))[:10]
    assert set(top["index"]) == set(best_before) | set(best_after)
    assert top["index"].iloc[0] == best_after[0]
    assert top.set_index("index").loc[best_before[0], "rank_before"] == 1


@pytest.mark.parametrize("seeds", [3, 1])
def test_a_table_compared_with_its_equal_warns_of_nothing(seeds):
    """Warnings are errors here: nothing may be divided by the noise that is not there."""
    before, _ = _pair(40, (seeds, 1), 0.0)
    found = _rerank((before, _accuracies("again", before.runs)))
    assert found.curve["tau"].iloc[0] == 1
    assert found.improvement["difference"] == 0
    assert found.regression["coefficient"].dropna().tolist() == pytest.approx([0] * 4)
    assert found.regression["p_value"].isna().all()
