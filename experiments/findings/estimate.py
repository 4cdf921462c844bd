"""A number with its confidence interval, and how a page shows it."""

from __future__ import annotations

from rebench import intervals
from rebench.analysis.seed_tau import with_interval
from rebench.analysis.tau import Floats
from rebench.printable import number

__all__ = ["Estimate"]


class Estimate(intervals.Estimate):
    """A value and the limits of its confidence interval."""

    __slots__ = ()

    @classmethod
    def of(cls, drawn: Floats, level: float = 0.95) -> Estimate:
        """Return the first value, with the percentile interval of the other values."""
        return cls(*with_interval("value", drawn, level=level).values())

    def above(self, limit: float) -> str:
        """Return the verdict on the claim that the value is above a limit: yes, no or open."""
        return "yes" if self.low > limit else "no" if self.high < limit else "open"

    def below(self, limit: float) -> str:
        """Return the verdict on the claim that the value is below a limit: yes, no or open."""
        return "yes" if self.high < limit else "no" if self.low > limit else "open"

    def to(self, digits: int) -> str:
        """Return the value and its interval as text with this number of digits.

        A number that rounds to 0 gets one digit more, because its sign decides a verdict.
        """
        value, low, high = (
            number(one, digits if one == 0 or round(one, digits) else digits + 1) for one in self
        )
        return f"{value} ({low} to {high})"

    def __str__(self) -> str:
        """Return the value and its interval as text with two digits."""
        return self.to(2)
