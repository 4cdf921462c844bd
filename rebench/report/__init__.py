"""One page about a run that a researcher can send to a colleague: self-contained HTML, Markdown."""

from rebench.report.study import Study, study
from rebench.report.write import Written, write_report

__all__ = ["Study", "Written", "study", "write_report"]
