from .write import Written, write_report

__all__ = ["Written", "write_report"]
