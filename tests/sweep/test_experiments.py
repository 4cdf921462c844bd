"""The sweep files of experiments/surface ask the same of the same cells."""

from __future__ import annotations

import pytest
from support import PROJECT

from rebench.report.surface import fixed_rate
from rebench.sweep import parse_spec

FOLDER = PROJECT / "experiments" / "surface"


@pytest.fixture(scope="module")
def specs():
    return {path.stem: parse_spec(path.read_text(), str(path)) for path in FOLDER.glob("*.toml")}


def test_every_file_has_the_same_nine_rates_and_seeds(specs):
    assert set(specs) == {"rates", "surface", "full"}
    for spec in specs.values():
        rates = [fixed_rate(recipe.label) for recipe in spec.recipes[:9]]
        assert rates == [0.0125 * 2**place for place in range(9)]
        assert spec.seeds == [777, 888, 999]


def test_rules_are_trained_on_the_cells_of_the_rates(specs):
    assert specs["rates"].cells == specs["surface"].cells
    assert specs["rates"].skeleton == specs["surface"].skeleton
    assert specs["rates"].protocol == specs["surface"].protocol
    assert specs["full"].cells.all
