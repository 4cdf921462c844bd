"""Numbers of the rankings of search algorithms on the full-size tables.

`scripts/bench/search_orders.py` measures them; its file of results is read here.
"""

from __future__ import annotations

import functools
import json
import math
from pathlib import Path
from typing import Any, Final

from cells import SPACE_SIZE
from experiments.findings.estimate import Estimate
from rebench.tables.opening import open_table

__all__ = [
    "SEARCHED",
    "SPACE_SIZE",
    "agreement_of_orders",
    "agreements_of_seeds",
    "cells_of_mini",
    "pairs_of_algorithms",
    "searched",
]

# Tables of the comparison by their names in the file, with their names on the page.
SEARCHED: Final = {
    "nb201": "published",
    "baseline": "the same recipe",
    "ptq": "quantised after training",
    "qat": "quantisation-aware",
    "analog": "hardware-aware",
    "analog_drift_2592000": "hardware-aware, 30 days of drift",
}
_MEASURED: Final = Path(__file__).parents[2] / "scripts" / "bench" / "results"


@functools.cache
def _measured() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((_MEASURED / "search_orders.json").read_text())
    return content


def searched(table: str | None = None) -> Any:
    """Return a table's final accuracies by algorithm; without a table, the stored measurements."""
    if table is None:
        return _measured()
    rows = [row for row in _measured()["rows"] if row["table"] == table]
    return {row["algorithm"]: Estimate(row["mean"], row["low"], row["high"]) for row in rows}


def agreement_of_orders(table: str) -> dict[str, Any]:
    """Return the comparison of a table's ranking of the algorithms with the published ranking."""
    [row] = [one for one in _measured()["orders"] if one["second"] == table]
    return {**row, "tau": Estimate(row["tau"], row["low"], row["high"])}


def agreements_of_seeds(table: str) -> list[dict[str, Any]]:
    """Return the comparisons of the rankings on tables of single seeds of a table."""
    return [one for one in _measured()["orders"] if one["first"].startswith(f"{table} seed ")]


def pairs_of_algorithms() -> int:
    """Return the number of pairs of algorithms."""
    return math.comb(len(searched("nb201")), 2)


def cells_of_mini() -> int:
    """Return the number of cells of the table `mini`."""
    return len(open_table("mini@fixed").means())
