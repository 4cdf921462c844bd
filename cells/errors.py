"""The one exception of `cells`, and how its messages show a text."""

__all__ = ["CellError", "shown"]


class CellError(ValueError):
    """An architecture string, code or index that names no cell or network."""


def shown(value: object) -> str:
    """A value as ASCII, or its beginning where it is longer than any cell's text."""
    told = ascii(value[:120] if isinstance(value, str) else value)
    return told if len(told) <= 120 else f"{told[:120]}..."
