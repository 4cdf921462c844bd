"""NAS algorithms that ask and tell on tables with simulated cost."""

__all__: list[str] = []
