"""What the check has found, as plain text: for a terminal that may have nothing but Python."""

from __future__ import annotations

from collections.abc import Sequence

from rebench.gpu.correctness import Row
from rebench.gpu.parts import Report

__all__ = ["report_text"]


def report_text(report: Report) -> str:
    """Return the tables, what is missing or left, and the lines for a sweep's file."""
    blocks = []
    kinds: dict[tuple[str, ...], list[Row]] = {}
    for rows in report.parts.values():
        for row in rows:
            kinds.setdefault(tuple(row), []).append(row)
    blocks += [_table(list(columns), rows) for columns, rows in kinds.items()]
    blocks += [f"{name} failed: {why}" for name, why in report.errors.items()]
    if report.missing:
        lines = [f"{name}: {without}" for name, without in report.missing.items()]
        blocks.append("\n".join(["not installed:", *lines]))
    if report.left:
        blocks.append(f"no time for {', '.join(report.left)}: the same command again goes on")
    blocks.append(report.tuned.rstrip())
    blocks.append("passed" if report.passed else "FAILED: see above")
    return "\n\n".join(blocks)


def _table(columns: Sequence[str], rows: Sequence[Row]) -> str:
    cells = [list(columns), *([_shown(row[column]) for column in columns] for row in rows)]
    widths = [max(len(line[place]) for line in cells) for place in range(len(columns))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    )


def _shown(value: str | float | bool | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) and abs(value) < 1e4 else str(value)
