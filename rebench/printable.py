"""Texts and numbers for readers, without control characters."""

from __future__ import annotations

import math
import re
from numbers import Real
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "CONTROL",
    "is_number",
    "number",
    "printable",
    "probability",
    "shown",
    "signed",
    "span",
    "without_formulas",
]

_Value = TypeVar("_Value")

_LONGEST: Final = 120

CONTROL: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""One control character, direction mark, line separator or surrogate."""


_NUMBER: Final = re.compile(r"(-|(< )?-?[\d.,]+(e[+-]?\d+)?)( ?%|[ *])?")


def shown(value: object) -> str:
    """Return a value as ASCII text, cut after 120 characters, for messages."""
    text = ascii(value[:_LONGEST] if isinstance(value, str) else value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def printable(text: str, keep: str = "\t\n") -> str:
    """Return a text with all control characters, except those in `keep`, as escapes."""
    return CONTROL.sub(lambda one: one[0] if one[0] in keep else repr(one[0])[1:-1], text)


def without_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame for a CSV file, with ' before each text that is a formula in a spreadsheet.

    A text is a formula if it begins with =, +, -, @, a tab or a new line.
    """
    safe = frame.rename(columns=_without_formula)
    for place, kind in enumerate(frame.dtypes):
        if kind.kind not in "biuf":
            safe.isetitem(place, frame.iloc[:, place].map(_without_formula))
    return safe


def _without_formula(value: _Value) -> _Value | str:
    is_formula = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
    return f"'{value}" if is_formula else value


def number(value: object, digits: int = 2) -> str | None:
    """Return a number with `digits` decimals, never a negative zero; None if it is not finite."""
    if not isinstance(value, Real) or not math.isfinite(value):
        return None
    plain = float(value)
    return f"{round(plain, digits) + 0.0:.{digits}f}" if abs(plain) < 1e5 else f"{plain:.3g}"


def signed(value: float) -> str:
    """Return a difference with its sign and two decimals, never a negative zero."""
    return f"{round(value, 2) + 0.0:+.2f}"


def span(low: object, high: object, digits: int = 2) -> str | None:
    """Return an interval as text, never "0.00 to 0.00"; None if an end is not finite."""
    first, last = number(low, digits), number(high, digits)
    if first == last == number(0.0, digits):
        first, last = f"{low:.3g}", f"{high:.3g}"
    return None if first is None or last is None else f"{first} to {last}"


def is_number(text: str) -> bool:
    """Return whether a text is a number of a printed table, or the dash for a missing number."""
    return _NUMBER.fullmatch(text) is not None


def probability(value: float) -> str:
    """Return a p-value as text: three decimals, or "< 0.001"."""
    return f"{value:.3f}" if value >= 0.001 else "< 0.001"
