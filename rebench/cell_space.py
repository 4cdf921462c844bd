"""The cells as a data frame, and one cell as facts: its graph, its network, its cost.

The graph's part is `cells`'; what a network costs depends on the data set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cells import Cell, compile_space, cost
from cells.cost import IMAGE_SHAPES
from cells.graph import Fact

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["cell_facts", "space"]


def space() -> pd.DataFrame:
    """Return one row for each of the 15,625 cells, in index order, with every statistic."""
    import pandas as pd

    compiled = compile_space()
    table: pd.DataFrame = pd.DataFrame(compiled.columns())
    for dataset in IMAGE_SHAPES:
        table[f"params_m{_suffix(dataset)}"] = compiled.params[dataset] / 1e6
        table[f"mflops{_suffix(dataset)}"] = compiled.flops[dataset] / 1e6
    return table


def cell_facts(cell: Cell) -> dict[str, Fact]:
    """Return the row of one cell."""
    facts = cell.describe()
    for dataset in IMAGE_SHAPES:
        price = cost(cell, dataset)
        facts[f"params_m{_suffix(dataset)}"] = price.params_m
        facts[f"mflops{_suffix(dataset)}"] = price.mflops
    return facts


def _suffix(dataset: str) -> str:
    return "" if dataset == "cifar10" else "_" + dataset.lower().replace("-", "_")
