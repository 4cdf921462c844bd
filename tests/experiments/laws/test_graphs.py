"""Graphs and one step on them: counts by hand, the recursion and autograd as independent truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from exact_rates import exact_maximal_lr

from cells import DagCode, moment
from experiments.laws import dag, graphs, signal
from experiments.laws.dag import compare_recursion
from experiments.laws.registry import LAWS
from experiments.laws.signal import sample_dag_updates
from rebench.errors import UnknownNameError
from rebench.recipes.recursion import Graphs


def test_connected_layer_graphs_of_five_vertices_are_841():
    # Of the 2^10 codes, 841 connect vertex 0 to vertex 4.
    codes = graphs.all_layer_graphs(5)
    assert len(codes) == 841
    assert len({str(code.pruned()) for code in codes}) == 159


def test_cubed_depths_of_a_complete_graph_equal_a_hand_count():
    # A complete graph of 5 vertices has 1 path with 1 layer, 3 with 2, 3 with 3 and 1 with 4.
    complete = DagCode.parse("2_22_222_2222").depth_polynomial()
    assert moment(complete, 3) == 1 + 3 * 8 + 3 * 27 + 64
    assert moment(complete, 3, 1) == 8 + 3 * 27 + 3 * 64 + 125
    assert moment(graphs.chain(6).depth_polynomial(), 3) == 216


def test_stem_adds_one_layer_to_every_path():
    code = DagCode.parse("2_02_202")
    assert graphs.with_stem(code).depth_polynomial() == (0, *code.depth_polynomial())


def test_layer_variances_follow_their_degree():
    read = Graphs.of([DagCode.parse("2_22_022")])  # in-degrees 1, 2, 2
    target = graphs.layer_variances(read, "target")[0]
    source = graphs.layer_variances(read, "source")[0]
    mean = graphs.layer_variances(read, "target-mean")[0]
    assert target[3, 1] == target[3, 2] == target[2, 0] == 1
    assert (source[3, 1], source[3, 2]) == (2, 1)
    assert mean[3, 1] == pytest.approx(2 / (2 + 2 / math.pi))
    assert target[3, 0] == 0
    with pytest.raises(UnknownNameError, match="degree rule"):
        graphs.layer_variances(read, "both")  # type: ignore[arg-type]


def test_random_graphs_are_connected_distinct_and_pruned():
    found = graphs.random_graphs(40, 5, np.random.default_rng(1))
    assert len(set(found)) == 40
    assert all(code.n_paths and code.pruned() == code for code in found)


def test_one_step_equals_autograd_of_an_explicit_graph():
    # A diamond with a shortcut, replayed: gradients by autograd, the update by double backward.
    code, width = DagCode.parse("2_22_022"), 24
    sampled = sample_dag_updates(
        [code], rule="target", width=width, draws=1, generator=torch.Generator().manual_seed(3)
    )
    generator = torch.Generator().manual_seed(3)
    pairs = [(1, 0), (2, 0), (2, 1), (3, 1), (3, 2)]
    variance = {(1, 0): 2.0, (2, 0): 1.0, (2, 1): 1.0, (3, 1): 1.0, (3, 2): 1.0}
    weights = []
    for pair in pairs:
        draw = torch.randn(width, width, generator=generator)
        weights.append(draw * math.sqrt(variance[pair] / width))
    x = torch.randn(1, width, generator=generator)[0]
    x = x * math.sqrt(width) / x.norm()
    readout = torch.randn(1, width, generator=generator)[0] / width

    def output(*stack: torch.Tensor) -> torch.Tensor:
        named = dict(zip(pairs, stack, strict=True))
        z1 = named[1, 0] @ x
        z2 = named[2, 0] @ x + named[2, 1] @ z1.relu()
        return named[3, 1] @ z1.relu() + named[3, 2] @ z2.relu()

    parameters = [weight.requires_grad_() for weight in weights]
    gradients = torch.autograd.grad(readout @ output(*parameters).relu(), parameters)
    held = tuple(parameter.detach() for parameter in parameters)
    _, update = torch.autograd.functional.jvp(output, held, tuple(-g for g in gradients))
    assert sampled["update"].item() == pytest.approx(float(update.square().mean()), rel=1e-4)


def test_monte_carlo_agrees_with_the_exact_recursion_on_all_connected_graphs():
    # Stated tolerance: 0.9 to 1.2 at width 128 (finite width adds a few per cent), each graph
    # within five standard errors of exact times that excess.
    table = compare_recursion(
        LAWS["dag"].small.step_draws, LAWS["dag"].small.step_width, LAWS["dag"].small.seed
    )
    assert set(table["rule"]) == {"source", "target"}
    assert table.groupby("rule")["codes"].sum().tolist() == [841, 841]
    assert table["ratio"].between(0.8, 1.3).all()
    assert abs(table["ratio"].median() - 1) < 0.08
    away = (table["update"] - table["exact"]).abs() / table["standard_error"]
    assert (away < 5).all()


def test_equation_8_misjudges_the_complete_graph():
    # Against a chain of 4, equation 8 says x0.61 in rate. The recursion, which Monte Carlo confirms
    # on all graphs, says more than 1.
    complete, line = DagCode.parse("2_22_222_2222"), graphs.chain(4)
    sums = [moment(code.depth_polynomial(), 3) for code in (line, complete)]
    assert math.sqrt(sums[0] / sums[1]) == pytest.approx(0.614, abs=0.001)
    assert exact_maximal_lr(complete) > exact_maximal_lr(line)


@pytest.mark.parametrize("in_degree", [1, 2, 3, 4])
def test_norm_of_a_sum_of_relus_equals_its_hand_derivation(in_degree):
    # d parents of equal norm, variance 2/d, activation after the weights: 1 + (d - 1) / pi, from
    # the mean of the ReLU; with the mean accounted for, 1.
    parents = [f"1{'0' * (v - 1)}" for v in range(1, in_degree)]  # skips: copies of the input
    code = DagCode.parse("_".join([*parents, "2" * in_degree]))
    moments = {}
    for rule in ("target", "target-mean"):
        found = signal.sample_second_moments(
            [code], order="after", rule=rule, scale_skips=False, width=256, draws=60,
            generator=torch.Generator().manual_seed(2),
        )  # fmt: skip
        moments[rule] = float(found.vertices[0, -1])
    assert moments["target"] == pytest.approx(1 + (in_degree - 1) / math.pi, rel=0.06)
    assert moments["target-mean"] == pytest.approx(1, rel=0.06)


def test_target_degree_keeps_the_norm_of_equation_one_and_source_does_not():
    code = DagCode.parse("2_22_222_2222")
    found = {
        rule: signal.sample_second_moments(
            [code], order="before", rule=rule, scale_skips=False, width=256, draws=40,
            generator=torch.Generator().manual_seed(5),
        ).pre_activations[0]
        for rule in ("target", "source")
    }  # fmt: skip
    assert torch.all((found["target"] - 1).abs() < 0.1)
    assert found["source"][-1] > 2


def test_source_degree_keeps_pre_activations_where_the_activation_stands_behind():
    # By hand, for code 2_22_222 at infinite width, divided by the 2 E h_0^2 of a chain. Source:
    # vertices 0 and 1 have degree 1 and keep the moment. Vertex 2 sums two ReLUs to E h^2 = 2 +
    # 2/pi, which its degree halves: 1 + 1/pi, or 1 if the init accounts for the ReLU's mean.
    # Target: the third edge from the input is divided by 3.
    found = {
        rule: signal.sample_second_moments(
            [DagCode.parse("2_22_222")], order="after", rule=rule, scale_skips=False, width=256,
            draws=60, generator=torch.Generator().manual_seed(4),
        ).pre_activations[0]
        for rule in ("source", "source-mean", "target")
    }  # fmt: skip
    for edge in ((1, 0), (2, 0), (2, 1), (3, 0), (3, 1)):
        assert float(found["source"][edge]) == pytest.approx(1, rel=0.06)
    assert float(found["source"][3, 2]) == pytest.approx(1 + 1 / math.pi, rel=0.06)
    assert float(found["source-mean"][3, 2]) == pytest.approx(1, rel=0.06)
    assert float(found["target"][3, 0]) == pytest.approx(1 / 3, rel=0.06)


def test_equation_4_is_judged_on_pre_activations():
    table = signal.measure_signal(
        [DagCode.parse("2_22_222")], [DagCode.parse("2_12")], width=64, draws=10,
        generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    assert set(table.loc[table["order"] == "before", "of"]) == {"pre-activations"}
    before, after = dag._signal_verdicts(table, LAWS["dag"].small)
    assert "best rule is target," in before.verdict
    assert "best rule is source-mean," in after.verdict
    assert "vertices" not in after.verdict
