"""The version of the installed package."""

__all__ = ["version"]


def version() -> str:
    """Return the version; it is looked up here because most commands do not need it."""
    import importlib.metadata

    return importlib.metadata.version("nas-rebench")
