"""Tables of accuracies: published, re-trained or generated, behind the same questions."""

from rebench.tables.answers import CellCost, CellName, Summary, cell_index
from rebench.tables.curves import Curve
from rebench.tables.layout import Key, write_table
from rebench.tables.table import Table

__all__ = [
    "CellCost",
    "CellName",
    "Curve",
    "Key",
    "Summary",
    "Table",
    "cell_index",
    "write_table",
]
