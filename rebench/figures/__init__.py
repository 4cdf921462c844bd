"""Figures, and the data behind each one."""

__all__: list[str] = []
