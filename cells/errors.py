"""The one exception of `cells`, and how its messages show a text."""

__all__ = ["CellError", "shown"]


class CellError(ValueError):
    """An architecture string, code or index that names no cell or network."""


def shown(text: str) -> str:
    """A text as ASCII, or its beginning where it is longer than any cell's."""
    told = ascii(text[:120])
    return told if len(told) <= 120 else f"{told[:120]}..."
