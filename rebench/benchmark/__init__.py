"""The benchmark's published tables, and the re-trained ones behind the same questions."""

__all__: list[str] = []
