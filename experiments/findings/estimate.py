"""A number with its confidence interval, and how a page shows it."""

from __future__ import annotations

from rebench import intervals
from rebench.analysis.concordance import Floats
from rebench.analysis.ranking import with_interval
from rebench.printable import number

__all__ = ["Estimate"]


class Estimate(intervals.Estimate):
    """A value and the limits of its confidence interval."""

    __slots__ = ()

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
