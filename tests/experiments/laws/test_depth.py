"""The depth law: exact values by hand, finite width against Monte Carlo, the update by autograd."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

from experiments.laws import depth_recursion as recursion
from experiments.laws.depth import (
    PROFILES,
    UnequalSettings,
    measure_unequal,
    profile_widths,
    sample_updates,
)
from experiments.laws.pieces import Pieces
from experiments.laws.registry import LAWS


def test_terms_of_the_limit_equal_hand_computed_values():
    # Independent, by the diagonal and off-diagonal of the kernel: K_ii = l n, and n (n - 1) pairs
    # that carry sum_{k<l} k^2. Of l^2 / 2, layer l's own weights make 1/2 and l - 1 with others.
    for layer in range(1, 12):
        own, cross, passed = recursion.infinite_width_terms(layer)
        noise = sum(k**2 for k in range(1, layer))
        assert (own, cross) == (0.5, layer - 1)
        assert passed == pytest.approx((layer - 1) ** 2 / 2 + noise, abs=1e-12)
        assert recursion.infinite_width_moment(layer) == pytest.approx(layer**2 / 2 + noise)
    limits = [recursion.infinite_width_terms(layer) for layer in range(1, 9)]
    np.testing.assert_allclose(recursion.finite_width_terms([10**9] * 9), limits, rtol=1e-7)


@pytest.mark.parametrize("widths", [[8] * 4, [3, 9, 4, 6], [9, 4, 8, 3]])
def test_terms_equal_monte_carlo_layer_by_layer(widths):
    # Independent check: draw 20,000 networks. Tolerance: five standard errors, each below 8 %.
    frame = sample_updates(
        widths, draws=20_000, readouts=2, generator=torch.Generator().manual_seed(4)
    )
    exact = recursion.finite_width_terms(widths)
    for layer, group in frame.groupby("layer"):
        for name, value in zip(recursion.TERMS, exact[layer - 1], strict=True):
            error = group[name].std() / math.sqrt(len(group))
            assert abs(group[name].mean() - value) <= 5 * error
            assert error <= 0.08 * value
        terms = group[list(recursion.TERMS)].mean().sum()
        assert group["linear"].mean() == pytest.approx(terms, rel=1e-5)


def test_sampled_update_equals_autograd_of_an_explicit_network():
    # The same draw, replayed by hand: gradients and first-order update by autograd.
    width, layers = 12, 4
    sampled = sample_updates(
        [width] * (layers + 1), draws=1, readouts=1, generator=torch.Generator().manual_seed(7)
    )
    generator = torch.Generator().manual_seed(7)
    weights = torch.randn(layers, 1, width, width, generator=generator)[:, 0]
    weights = weights * math.sqrt(2 / width)
    x = torch.randn(1, 1, width, generator=generator)[0, 0]
    x = x * math.sqrt(width) / x.norm()
    readout = torch.randn(1, 1, width, generator=generator)[0, 0] / width

    def pre_activations(stack: torch.Tensor) -> torch.Tensor:
        a, outputs = x, []
        for weight in stack:
            z = weight @ a
            outputs.append(z)
            a = z.relu()
        return torch.stack(outputs)

    weights.requires_grad_()
    (gradient,) = torch.autograd.grad(readout @ pre_activations(weights)[-1].relu(), weights)
    weights = weights.detach()
    _, update = torch.autograd.functional.jvp(pre_activations, weights, -gradient)
    expected = update.square().mean(1).numpy()
    np.testing.assert_allclose(sampled["linear"], expected, rtol=2e-5)
    eta = recursion.infinite_width_moment(layers) ** -0.5
    moved = pre_activations(weights - eta * gradient) - pre_activations(weights)
    np.testing.assert_allclose(sampled["actual_1"], moved.square().mean(1) / eta**2, rtol=2e-4)


def test_exponent_and_growth_hold_within_tolerances(tmp_path):
    settings = dataclasses.replace(
        LAWS["depth"].small, widths=(256,), depths=(1, 2, 4, 8), draws=60,
        unequal=UnequalSettings(narrow=8, wide=16, depths=(2, 4), draws=5),
    )  # fmt: skip
    result = LAWS["depth"].measure(settings, Pieces(tmp_path))
    growth = result.tables["growth"].set_index("depth")
    ratio = growth["second_moment"] / growth["limit"]
    assert ratio.loc[[1, 2, 4]].between(0.85, 1.15).all()
    assert 0.6 < ratio.loc[8] < 1.4
    assert growth["actual_0.01"].between(0.98, 1.02).all()
    assert growth["actual_1"].is_monotonic_decreasing
    exponent, terms, *_ = result.verdicts
    assert abs(exponent.ours + 1.5) < 0.12
    assert terms.ours == pytest.approx(1, abs=0.15)


def test_moment_over_the_cube_depends_on_depth_over_width():
    # Theorem 1.1 has one constant for all n and L. In the limit of small L/n the ratio is 1.
    assert float(recursion.finite_width_terms([12] * 13)[-1].sum()) / (12**3 / 3) > 10
    found = recursion.moments_at_ratio(1024)["over_cube"].to_numpy()
    assert (np.diff(found) > 0).all()
    # The values in docs/explanation/laws.md, at L / n = 1/64 and 1/2.
    assert found[[0, 4]] == pytest.approx([1.04, 4.44], abs=0.005)
    assert found[-1] > 20


def test_printed_recursion_differs_from_the_exact_one_by_its_two_slips():
    # By hand at l = 2: the exact value is l^2 / 2 + 1 = 3, the printed recursion gives 1 + 4 = 5.
    # Their leading powers are equal.
    assert recursion.infinite_width_moment(2) == 3
    assert recursion.printed_moment(2) == 5
    far = recursion.printed_moment(10**5) / recursion.infinite_width_moment(10**5)
    assert far == pytest.approx(1, abs=2e-5)


def test_unequal_widths_in_the_limit_equal_hand_computed_values():
    # By hand, widths 1, 2, 4, 1 times n: S = 1, 3, 7; (7^2 / 2 + 1 / 2 + 9 / 4) / 1 = 27.25.
    assert recursion.unequal_width_moment([1, 2, 4, 1]) == pytest.approx(27.25, rel=1e-14)
    for layers in range(1, 9):
        equal = recursion.unequal_width_moment([5] * (layers + 1))
        assert equal == pytest.approx(recursion.infinite_width_moment(layers), rel=1e-14)
    wide = [10**9 * width for width in (1, 2, 4, 1)]
    found = recursion.finite_width_terms(wide)[-1].sum()
    assert found == pytest.approx(27.25, rel=1e-7)


def test_profiles_run_from_one_width_to_the_other():
    assert profile_widths("narrowing", 4, 64, 4) == [64, 32, 16, 8, 4]
    assert profile_widths("widening", 4, 64, 2) == [4, 16, 64]
    assert profile_widths("alternating", 4, 64, 3) == [4, 64, 4, 64]


def test_unequal_widths_leave_the_exponent_and_change_the_constant():
    # In the limit, over depths at which the leading power dominates: tolerance 0.01.
    for profile in PROFILES:
        rates = [
            recursion.unequal_width_moment(profile_widths(profile, 10**6, 4 * 10**6, depth)) ** -0.5
            for depth in (256, 512)
        ]
        assert math.log2(rates[1] / rates[0]) == pytest.approx(-1.5, abs=0.01)
    # By hand: widths 4^-t have S = (1 - 4^-t) / ln 4, the update over L^3 / 3 is then
    # 12 / ln(4)^2 times the integral of (1 - 4^-t)^2 4^t over 0..1, which is
    # (3 + 3 / 4) / ln 4 - 2.
    narrowing = recursion.unequal_width_moment(profile_widths("narrowing", 10**6, 4 * 10**6, 4096))
    expected = 12 / math.log(4) ** 2 * (3.75 / math.log(4) - 2)
    assert narrowing / (4096**3 / 3) == pytest.approx(expected, rel=0.005)


def test_law_holds_unequal_widths_against_the_recursion():
    settings = UnequalSettings(narrow=32, wide=64, depths=(2, 4, 8), draws=200)
    table, verdicts = measure_unequal(settings, 0, Pieces())
    # Tolerances for 200 draws: five standard errors, and 25 %.
    away = (table["second_moment"] - table["exact"]).abs()
    assert (away < 5 * table["standard_error"]).all()
    assert (away < 0.25 * table["exact"]).all()
    for verdict, profile in zip(verdicts[:-1], PROFILES, strict=True):
        assert verdict.quantity.endswith(f"unequal widths, {profile}")
        assert verdict.ours == pytest.approx(-1.5, abs=0.25)
    assert verdicts[-1].ours == pytest.approx(1, abs=0.1)
