"""The exception of `cells`, and the form of a value in its messages."""

__all__ = ["CellError", "shown"]


class CellError(ValueError):
    """Invalid architecture, code or index, or another invalid argument of `cells`."""


def shown(value: object) -> str:
    """Return a value as ASCII text, cut after 120 characters."""
    told = ascii(value[:120] if isinstance(value, str) else value)
    return told if len(told) <= 120 else f"{told[:120]}..."
