"""Statistics of the cells: all as a data frame, or of one cell. Costs depend on the data set.

`functional_class` is the smallest index among the cells of the published class; `network_class` is
that among the cells that are the same trainable network, which analyses count as equal cells.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cells import Cell, CostModel, all_cells
from cells.classes import functional_classes
from cells.graph import Fact
from cells.table import space_ops
from rebench.data import BENCHMARK, data_spec
from rebench.spaces.nb201 import cost_model

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["cell_facts", "space"]


def space() -> pd.DataFrame:
    """Return one row for each of the 15,625 cells, in index order, with every statistic.

    Columns: `index`, `arch` and `code` name the cell. `n_paths`, `path_depths` (a depth is the
    number of convolutions plus 1), `sum_cubed_depths`, `lr_multiplier` (its power -1/2) and the
    in-degrees of vertices describe its graph. `network_paths`, `network_sum_cubed_depths` (of
    convolutions; both are text, because they can exceed 64 bits) and `network_lr_multiplier`
    describe the network of 15 cells. Cells with the same `network_class` are the same trainable
    network. `functional_class` and `class_size` are the classes that the benchmark published.
    `params_m` and `mflops` are millions of parameters and of multiply-adds for CIFAR-10; other
    data sets follow as suffixes.
    """
    import pandas as pd

    table: pd.DataFrame = pd.DataFrame([cell.describe() for cell in all_cells()])
    table["network_class"] = functional_classes("strict")
    for suffix, model in _cost_models():
        table[f"params_m{suffix}"] = model.params(space_ops()) / 1e6
        table[f"mflops{suffix}"] = model.flops(space_ops()) / 1e6
    return table


def cell_facts(cell: Cell) -> dict[str, Fact]:
    """Return the row of one cell."""
    facts = cell.describe() | {"network_class": cell.functional_class("strict")}
    for suffix, model in _cost_models():
        price = model.of(cell)
        facts |= {f"params_m{suffix}": price.params_m, f"mflops{suffix}": price.mflops}
    return facts


def _cost_models() -> Iterator[tuple[str, CostModel]]:
    """Yield the suffix of a data set's columns, and its cost model."""
    for name in dict.fromkeys(dataset for dataset, _ in BENCHMARK.values()):
        suffix = "" if name == "cifar10" else "_" + name.lower().replace("-", "_")
        yield suffix, cost_model(data_spec(name))
