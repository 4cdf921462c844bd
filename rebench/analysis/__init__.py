"""Questions asked of tables: how rankings moved, and what noise alone would do."""

__all__: list[str] = []
