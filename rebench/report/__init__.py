"""One page about a run that a researcher can send to a colleague: self-contained HTML, Markdown."""

from rebench.report.write import Written, write_report

__all__ = ["Written", "write_report"]
