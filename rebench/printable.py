"""Texts of others (names, messages, logs) without characters that a terminal or a page obeys."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["CONTROL", "printable"]

CONTROL: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""One control character, mark of the direction of writing, end of a line or half of a character."""


def printable(text: str, keep: str = "\t\n") -> str:
    """Return a text with every control character, but for those in `keep`, spelt as an escape."""
    return CONTROL.sub(lambda one: one[0] if one[0] in keep else repr(one[0])[1:-1], text)
