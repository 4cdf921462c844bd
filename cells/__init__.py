"""Architecture strings of NAS-Bench-201 to graph statistics; needs numpy alone."""

from cells.cell import Cell, all_cells
from cells.errors import CellError
from cells.ops import EDGES, OP_NAMES, SPACE_SIZE

__all__ = ["EDGES", "OP_NAMES", "SPACE_SIZE", "Cell", "CellError", "all_cells"]
