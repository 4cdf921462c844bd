"""What papers and their code state and rules refer to: the base graph, and two learning rates."""

from typing import Final

__all__ = ["BASE_CODE", "BENCHMARK_LR", "DEFAULT_BASE_LR"]

BASE_CODE: Final = "1_01_001"
"""The graph whose only path is a chain of skips: every rule's learning rate is relative to it."""

BENCHMARK_LR: Final = 0.1
"""The benchmark's own learning rate."""

DEFAULT_BASE_LR: Final = 0.46
"""Base learning rate of the paper's released code, found for the base network."""
