"""The one exception of `cells`."""

__all__ = ["CellError"]


class CellError(ValueError):
    """An architecture string, code or index that names no cell or network."""
