"""The version of the installed package."""

__all__ = ["version"]


def version() -> str:
    """The version, looked up when it is asked for: most commands never need it."""
    import importlib.metadata

    return importlib.metadata.version("nas-rebench")
