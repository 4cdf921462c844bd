"""Graph statistics of NAS-Bench-201 cells, from their architecture strings. Needs only numpy."""

from cells.cell import Cell, all_cells
from cells.classes import functional_classes, trainable_networks
from cells.cost import Cost, CostModel
from cells.dag import DagCode
from cells.errors import CellError
from cells.graph import Graph
from cells.ops import EDGES, OP_NAMES, SPACE_SIZE
from cells.paths import moment
from cells.table import Space, compile_space

__all__ = [
    "EDGES",
    "OP_NAMES",
    "SPACE_SIZE",
    "Cell",
    "CellError",
    "Cost",
    "CostModel",
    "DagCode",
    "Graph",
    "Space",
    "all_cells",
    "compile_space",
    "functional_classes",
    "moment",
    "trainable_networks",
]
