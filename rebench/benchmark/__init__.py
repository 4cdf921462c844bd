"""The benchmark's published tables, and the re-trained ones behind the same questions."""

from rebench.benchmark.layout import Key, write_table
from rebench.benchmark.table import BenchmarkTable, CellCost, Summary

__all__ = ["BenchmarkTable", "CellCost", "Key", "Summary", "write_table"]
