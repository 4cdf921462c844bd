"""Is this GPU right, how fast is it, and what does it want? Needs torch and numpy alone."""

from rebench.gpu.parts import Report, check, missing_packages

__all__ = ["Report", "check", "missing_packages"]
