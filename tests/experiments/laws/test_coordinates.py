"""muP's coordinate check."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from support import PROJECT

SCRIPT = PROJECT / "experiments" / "checks" / "coordinates.py"


@pytest.fixture
def exponents(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    from coordinates import exponents

    generator = torch.Generator().manual_seed(0)
    images = torch.randn(64, 3, 8, 8, generator=generator)
    labels = torch.randint(10, (64,), generator=generator)
    return lambda recipe: exponents(recipe, "2_02_002", (64, 128, 256, 512, 1024), images, labels)


def test_mup_moves_every_layer_alike_at_widths_64_to_1024(exponents):
    slopes = exponents("mup(base_width=64,base_lr=1.0)")
    assert set(slopes.index) == {"stem", "layers.1_0", "layers.2_1", "layers.3_2", "readout"}
    # Slopes are not exactly 0: at width 64, the init still affects the layers near the readout.
    assert (slopes.abs() < 0.12).all(), slopes


def test_one_rate_for_all_widths_does_not(exponents):
    slopes = exponents("fixed(lr=0.1)")
    assert slopes["layers.3_2"] > 0.2
    assert slopes["readout"] > 0.5


@pytest.mark.parametrize(
    ("widths", "code", "said"), [(["16", "32"], 0, "readout"), (["64"], 2, "two or more positive")]
)
def test_the_script_prints_an_exponent_a_layer_or_what_is_wrong(widths, code, said):
    done = subprocess.run(
        [sys.executable, SCRIPT, "--widths", *widths], capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    assert said in done.stdout + done.stderr
