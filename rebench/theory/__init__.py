"""The laws behind the recipes, measured."""

__all__: list[str] = []
