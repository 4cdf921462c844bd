"""One page about a run that a researcher can send to a colleague: self-contained HTML, Markdown."""

from typing import TYPE_CHECKING

from rebench.lazy_package import load_on_demand

if TYPE_CHECKING:
    from rebench.report.write import Written, write_report

__all__ = ["Written", "write_report"]

load_on_demand(__name__)
