"""Re-train, re-query and re-rank NAS-Bench-201 under any learning-rate and init recipe."""

__all__ = ["__version__"]

__version__: str


def __getattr__(name: str) -> str:
    """Look the version up when it is asked for: most commands never do, and it takes time."""
    if name == "__version__":
        from importlib.metadata import version

        return version("nas-rebench")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
