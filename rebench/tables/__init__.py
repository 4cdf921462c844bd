"""Tables of accuracies, published or re-trained, with the same methods."""

from rebench.tables.answers import CellCost, CellName, Summary
from rebench.tables.layout import CurveArrays, Key, write_table
from rebench.tables.opening import open_any, open_table
from rebench.tables.table import Recipes, Table

__all__ = [
    "CellCost",
    "CellName",
    "CurveArrays",
    "Key",
    "Recipes",
    "Summary",
    "Table",
    "open_any",
    "open_table",
    "write_table",
]
