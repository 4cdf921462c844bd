from .explorer import write_explorer
from .figures.drawers import draw
from .write import Written, write_report

__all__ = ["Written", "draw", "write_explorer", "write_report"]
