from .explorer import write_explorer
from .write import Written, write_report

__all__ = ["Written", "write_explorer", "write_report"]
