"""muP's coordinate check."""

import pytest
import torch

from experiments.laws.coordinates import (
    CoordinateSettings,
    coordinate_check,
    width_slopes,
)
from experiments.laws.registry import LAWS
from rebench.errors import InputError


def _slopes(recipe: str) -> dict[str, float]:
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(64, 3, 8, 8, generator=generator)
    labels = torch.randint(10, (64,), generator=generator)
    changes = coordinate_check(CoordinateSettings(recipe=recipe), images, labels)
    assert set(changes["width"]) == {64, 128, 256, 512, 1024}
    return width_slopes(changes).set_index("layer")["exponent"].to_dict()


def test_mup_moves_every_layer_alike_at_widths_64_to_1024():
    slopes = _slopes("mup(base_width=64,base_lr=1.0)")
    assert len(slopes) == 5
    # the readout, and what lies close to it, still has a part from init at width 64
    assert all(abs(slope) < 0.12 for slope in slopes.values()), slopes


def test_one_rate_for_all_widths_does_not():
    slopes = _slopes("fixed(lr=0.1)")
    assert slopes["layers.3_2"] > 0.2
    assert slopes["readout"] > 0.5


def test_measured_layers_have_an_exponent_each():
    result = LAWS["coordinates"].measure(LAWS["coordinates"].small)
    exponents = result.tables["exponents"]
    assert set(exponents["layer"]) == {"stem", "layers.1_0", "layers.2_1", "layers.3_2", "readout"}
    [verdict] = result.verdicts
    assert verdict.ours.low == exponents["exponent"].min()
    assert verdict.ours.high == exponents["exponent"].max()


@pytest.mark.parametrize("widths", [(64,), (-1, 3), ()])
def test_bad_widths_are_refused(widths: tuple[int, ...]):
    with pytest.raises(InputError, match="widths must be two or more positive numbers"):
        CoordinateSettings(widths=widths)
