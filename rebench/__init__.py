"""Re-train, re-query and re-rank NAS-Bench-201 under any learning-rate and init recipe."""

from importlib.metadata import version

__all__ = ["__version__"]

__version__ = version("rebench")
