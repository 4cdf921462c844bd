"""The benchmark's published tables, and the re-trained ones behind the same questions."""

from rebench.benchmark.answers import CellCost, CellName, Summary, cell_index
from rebench.benchmark.api import ReBench, create
from rebench.benchmark.curves import Curve
from rebench.benchmark.layout import Key, write_table
from rebench.benchmark.table import BenchmarkTable

__all__ = [
    "BenchmarkTable",
    "CellCost",
    "CellName",
    "Curve",
    "Key",
    "ReBench",
    "Summary",
    "cell_index",
    "create",
    "write_table",
]
