"""AM-muP: exponents within stated tolerances; -3/2 is not asserted where it does not hold."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rebench.theory import am_mup
from rebench.theory.conv_step import ConvNetwork, sample_conv_updates
from rebench.theory.estimate import log_slope
from rebench.theory.pieces import Pieces


def exponent(family: am_mup.Family, draws: int) -> float:
    generator = torch.Generator().manual_seed(0)
    rates = [
        float(sample_conv_updates(family.at(depth), draws=draws, generator=generator).mean())
        ** -0.5
        for depth in family.depths
    ]
    return log_slope(family.depths, rates)


def test_plain_cnn_exponent_is_near_minus_three_halves():
    family = am_mup.Family(
        name="1-D", network=ConvNetwork(depth=1, channels=96, side=32), depths=(3, 5, 8, 12)
    )
    assert exponent(family, 24) == pytest.approx(-1.5, abs=0.25)


def test_pre_activation_resnet_exponent_is_near_minus_one_not_three_halves():
    network = ConvNetwork(depth=1, channels=96, kernel=1, side=1, block="pre")
    family = am_mup.Family(name="pre", network=network, depths=(12, 20, 32))
    assert -1.15 < exponent(family, 60) < -0.85


def test_residual_branches_shrink_with_their_number():
    deep = ConvNetwork(depth=9, channels=64, kernel=3, block="pre")
    weights = deep.draw_weights(4, torch.Generator().manual_seed(0))
    ratio = float(weights[1].var() / weights[0].var())
    assert ratio == pytest.approx(1 / 8, rel=0.05)


def test_loss_between_grid_points_is_interpolated():
    import pandas as pd

    searched = pd.DataFrame({"learning_rate": [0.1, 1.0], "seed": 0, "loss": [2.0, 4.0]})
    assert am_mup._loss_at(searched, 0.1) == pytest.approx(2)
    assert am_mup._loss_at(searched, 0.1 * 10**0.5) == pytest.approx(3)
    assert np.isfinite(am_mup._loss_at(searched, 1e-9))


@pytest.mark.slow
def test_quick_law_has_a_verdict_for_every_family_and_network(tmp_path):
    result = am_mup.measure_am_mup_law(am_mup.QUICK, Pieces(tmp_path))
    assert len(result.verdicts) == len(am_mup.families(quick=True)) + 2
    assert {"moments", "exponents", "transfer"} == set(result.tables)
