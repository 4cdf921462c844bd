"""The version of the package."""

__all__ = ["version"]


def version() -> str:
    """Return the version, or ``0+unknown`` for a source folder that was never installed.

    The version is looked up here because most commands do not need it.
    """
    import importlib.metadata

    try:
        return importlib.metadata.version("nas-rebench")
    except importlib.metadata.PackageNotFoundError:
        return "0+unknown"
