"""muP's coordinate check."""

import json

import pytest
import torch

from cells import DagCode
from rebench.cli import main
from rebench.nets import DagMLP
from rebench.recipes import Recipe, make_recipe
from rebench.theory.coordinates import coordinate_check, width_slopes

CHAIN = DagCode.parse("2_02_002")


def _slopes(rule: Recipe) -> dict[str, float]:
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(64, 3, 8, 8, generator=generator)
    labels = torch.randint(10, (64,), generator=generator)
    found = coordinate_check(
        lambda width: DagMLP(CHAIN, inputs=192, width=width), CHAIN, rule, images, labels
    )
    assert {coordinate.width for coordinate in found} == {64, 128, 256, 512, 1024}
    return width_slopes(found)


def test_mup_moves_every_layer_alike_at_widths_64_to_1024():
    slopes = _slopes(make_recipe("mup", base_width=64, base_lr=1.0))
    assert len(slopes) == 5
    # the readout, and what lies close to it, still has a part from init at width 64
    assert all(abs(slope) < 0.12 for slope in slopes.values()), slopes


def test_one_rate_for_all_widths_does_not():
    slopes = _slopes(make_recipe("fixed", lr=0.1))
    assert slopes["layers.3_2"] > 0.2
    assert slopes["readout"] > 0.5


def test_command_prints_exponents_and_saves_a_figure(capsys, tmp_path):
    arguments = ["--widths", "16,64", "--seeds", "1", "--steps", "2", "--json"]
    assert main(["recipe", "coordinates", *arguments, "--figure", str(tmp_path / "c")]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 5
    assert set(rows[0]) == {"layer", "exponent", "at_16", "at_64"}
    assert {path.suffix for path in tmp_path.iterdir()} == {".pdf", ".svg", ".png", ".csv"}


@pytest.mark.parametrize("widths", ["64", "a,b", "-1,3", ""])
def test_command_refuses_bad_widths(widths: str, capsys):
    assert main(["recipe", "coordinates", "--widths", widths]) == 2
    assert "widths must be two or more positive numbers" in capsys.readouterr().err
