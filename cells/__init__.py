"""Architecture strings of NAS-Bench-201 to graph statistics; needs numpy alone."""

from cells.cell import Cell, all_cells
from cells.classes import (
    class_members,
    functional_class,
    functional_classes,
    trainable_networks,
)
from cells.cost import Cost, CostModel, cost
from cells.dag import DagCode
from cells.errors import CellError
from cells.graph import edge_degrees, in_degrees, live_edges, live_vertices, source_degrees
from cells.ops import EDGES, OP_NAMES, SPACE_SIZE
from cells.paths import depth_polynomial, moment, network_polynomial, path_depths
from cells.table import Network, Space, compile_network, compile_space

__all__ = [
    "EDGES",
    "OP_NAMES",
    "SPACE_SIZE",
    "Cell",
    "CellError",
    "Cost",
    "CostModel",
    "DagCode",
    "Network",
    "Space",
    "all_cells",
    "class_members",
    "compile_network",
    "compile_space",
    "cost",
    "depth_polynomial",
    "edge_degrees",
    "functional_class",
    "functional_classes",
    "in_degrees",
    "live_edges",
    "live_vertices",
    "moment",
    "network_polynomial",
    "path_depths",
    "source_degrees",
    "trainable_networks",
]
