"""A number with its confidence interval, and how a page shows it."""

from __future__ import annotations

from typing import NamedTuple

from rebench.analysis.concordance import Floats
from rebench.analysis.ranking import with_interval

__all__ = ["Estimate", "number"]


def number(value: float, digits: int = 2) -> str:
    """Return the number with a fixed number of digits, and zero without a sign."""
    return f"{round(value, digits) + 0.0:.{digits}f}"


class Estimate(NamedTuple):
    """A value and the limits of its confidence interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, drawn: Floats, level: float = 0.95) -> Estimate:
        """Return the first value, with the percentile interval of the other values."""
        return cls(*with_interval("value", drawn, level=level).values())

    def to(self, digits: int) -> str:
        """Return the value and its interval as text with this number of digits."""
        value, low, high = (number(one, digits) for one in self)
        return f"{value} ({low} to {high})"

    def __str__(self) -> str:
        """Return the value and its interval as text with two digits."""
        return self.to(2)
