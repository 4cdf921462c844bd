"""An error in the rule of a user names the recipe, the cell and the line."""

import dataclasses
import re
from typing import ClassVar

import pytest

from cells import Cell
from rebench.errors import InputError
from rebench.recipes import HyperParameters, Recipe, register

CELL = Cell.from_index(11)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Own(Recipe):
    """A rule with several mistakes; it is not registered."""

    name: ClassVar[str] = "own"
    summary: ClassVar[str] = "mistakes"
    paper: ClassVar[str] = "none"

    mistake: str = "zero rate"

    def hyperparameters(self, cell):
        if self.mistake == "zero rate":
            return HyperParameters(learning_rate=0.0)
        if self.mistake == "division":
            return HyperParameters(learning_rate=0.1 / (cell.index - 11))
        return 0.1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Derived(Own):
    """A rule that calls the rule of its base class."""

    name: ClassVar[str] = "derived"

    def hyperparameters(self, cell):
        return super().hyperparameters(cell)


@pytest.mark.parametrize(("mistake", "message"), [
    ("zero rate", "learning_rate must be from .*, got 0.0"),
    ("division", r"ZeroDivisionError \(.*\) at test_own_rule.py:30; repair the rule"),
    ("number", r"a rule must return HyperParameters\(.*\), got 0.1"),
])  # fmt: skip
@pytest.mark.parametrize("rule", [Own, Derived])
def test_mistake_of_a_rule_is_said_in_one_line(rule, mistake, message):
    own = rule(mistake=mistake)
    with pytest.raises(InputError) as caught:
        own.hyperparameters(CELL)
    named, _, told = str(caught.value).partition(": ")
    assert named == f"recipe {own.spec.label!r}, cell 11"
    assert re.fullmatch(message, told)


def test_rule_without_an_argument_for_the_cell_is_named():
    class Short(Own):
        def hyperparameters(self):
            return HyperParameters(learning_rate=0.1)

    with pytest.raises(InputError, match=r"recipe 'own', cell 11: TypeError .*positional argument"):
        Short().hyperparameters(CELL)


def test_class_without_a_name_is_told_what_every_recipe_has():
    class Nameless(Recipe):
        summary: ClassVar[str] = "no name"

    with pytest.raises(InputError, match="Nameless has no name, paper: every recipe has"):
        register(Nameless)
