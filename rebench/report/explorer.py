"""The page to explore a table, or two tables: one HTML file with every item as a point.

All numbers come from `rebench.analysis`; the script of the page (`explorer.js`) only shows them.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rebench.analysis import Reliability, Reranking, compare, rank_intervals, reliability
from rebench.analysis.paired import Accuracies
from rebench.analysis.tau import MIN_CELLS, top_sizes
from rebench.printable import number, printable, probability, span
from rebench.runs import write_atomically
from rebench.spaces import NamedItems
from rebench.tables import Table, open_table
from rebench.tables.columns import seed_name
from rebench.tables.seed_effects import ranks_of

__all__ = ["TOP_PERCENT", "write_explorer"]

TOP_PERCENT: Final = (100, 90, 80, 70, 60, 50, 40, 30, 25, 20, 15, 10, 7.5, 5, 3, 2, 1)
"""The values of K of the slider."""
_START: Final = 10.0
# Name of an item in texts.
_COST: Final = "million multiply-adds"


def write_explorer(
    path: Path,
    baseline: str | Table,
    other: str | Table | None = None,
    *,
    dataset: str | None = None,
    against_dataset: str | None = None,
    split: str | None = None,
    epochs: int | None = None,
    draws: int = 1000,
    seed: int = 0,
) -> int:
    """Write the page of one table, or of two tables, and return its number of items.

    Args:
        path: the HTML file.
        baseline: a table of one recipe, or its name (NAME@RECIPE). Its K % best items are marked.
        other: the table to compare with the baseline.
        dataset: data set; see `rebench.compare`.
        against_dataset: data set of `other`, if it differs.
        split: images of the accuracies.
        epochs: number of epochs; if None, the longest training.
        draws: bootstrap draws, and permutations for the p-values.
        seed: seed of all random draws.
    """
    opened = baseline if isinstance(baseline, Table) else open_table(baseline)
    chosen: dict[str, Any] = {"dataset": dataset, "split": split, "epochs": epochs}
    chosen |= {"top_percent": TOP_PERCENT, "draws": draws, "seed": seed}
    found: Reliability | Reranking
    if other is None:
        found = reliability(baseline, **chosen)
        tables = [found.accuracies]
    else:
        found = compare(baseline, other, against_dataset=against_dataset, **chosen)
        tables = [found.baseline, found.other]
    if dataset is None and " against " not in found.dataset:
        dataset = found.dataset  # else the baseline has a single data set
    costs = np.full(len(tables[0].cells), np.nan)
    if not isinstance(opened.space, NamedItems):
        costs = opened.group(dataset).network_cost("mflops")[tables[0].cells]
    page = _page(tables, costs)
    page["title"] = found.name
    page["levels"] = _levels(found.by_k, tables)
    write_atomically(path, _html(page, found.sentence).encode())
    return len(costs)


def _page(tables: Sequence[Accuracies], costs: NDArray[np.float64]) -> dict[str, Any]:
    """Return the items, the best of the first table first, their columns and the views of them."""
    columns: dict[str, NDArray[Any]] = {}
    sides = [_add_side(table, columns) for table in tables]
    first, last = sides[0], sides[-1]
    views = []
    if len(sides) == 2:
        views.append({"name": "ranks", "x": first["rank"], "y": last["rank"]})
        views.append({"name": "accuracies", "x": first["mean"], "y": last["mean"]})
    if np.isfinite(costs).any():
        columns[_COST] = costs
        views.append({"name": "accuracy and cost", "x": _COST, "y": last["mean"]})
    if len(sides) == 1 and len(first["runs"]) > 1:
        # The two seeds that most items have.
        labels = list(first["runs"].values())
        labels.sort(key=lambda label: np.isfinite(columns[label]).sum())
        x, y = labels[-2:]
        views.append({"name": "two seeds", "x": x, "y": y})
    order = np.argsort(-tables[0].centred_means, kind="stable")
    space, measure = tables[0].space, tables[0].measure
    items = tables[0].cells[order].tolist()
    labels = list(map(str, items))
    pictures: list[list[str]] = [[] for _ in items]
    if not isinstance(space, NamedItems):
        labels = [space.label(item) for item in items]
        pictures = [space.picture(item) for item in items]
    ordered = {}
    for label, values in columns.items():
        ordered[label] = _plain(values[order])
    return {
        "word": space.item,
        "measure": {"name": measure.name, "unit": measure.unit, "percent": measure.is_percent},
        "items": labels,
        "columns": ordered,
        "sides": sides,
        "views": views,
        "pictures": _numbered(pictures),
    }


def _add_side(table: Accuracies, columns: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Add the columns of a table, and return its name and the labels of its columns."""
    name = printable(table.name)
    measure = table.measure
    unit = f" ({measure.unit})" if measure.unit else ""
    side: dict[str, Any] = {"name": name, "mean": f"{measure.name} in {name}{unit}", "runs": {}}
    columns[side["mean"]] = measure.goodness(table.means)
    for column, values in _ranks(table).items():
        side[str(column)] = f"{column} in {name}"
        columns[side[str(column)]] = values.to_numpy()
    # Unknown seeds are negative; run 1 comes before run 2.
    for seed in sorted(table.seeds, key=lambda seed: (seed < 0, abs(seed))):
        run = seed_name(seed)
        if seed >= 0:
            run = f"seed {run}"
        label = f"{measure.name} in {name}, {run}{unit}"
        side["runs"][run] = label
        columns[label] = measure.goodness(table.runs[:, table.seeds.index(seed)])
    return side


def _ranks(table: Accuracies) -> pd.DataFrame:
    """Return the ranks `rank`, with `rank_low` and `rank_high` if the table has seeds."""
    if table.has_seeds:
        return rank_intervals(table)[["rank", "rank_low", "rank_high"]]
    means = table.centred_means
    return pd.DataFrame({"rank": ranks_of(means, np.sort(means))})


def _numbered(pictures: Sequence[Sequence[str]]) -> dict[str, list[Any]]:
    """Return all distinct parts of pictures, and for each item the numbers of its parts."""
    numbers: dict[str, int] = {}
    drawn: list[list[int]] = []
    for pieces in pictures:
        drawn.append([])
        for piece in pieces:
            drawn[-1].append(numbers.setdefault(piece, len(numbers)))
    return {"pieces": list(numbers), "items": drawn}


def _levels(by_k: pd.DataFrame, tables: Sequence[Accuracies]) -> list[dict[str, Any]]:
    """Return the numbers at each K as texts; a K with too few items is omitted."""
    n_items = len(tables[0].cells)
    levels = []
    for row in by_k.to_dict("records"):
        [size] = top_sizes(n_items, [row["top_percent"]])
        if size < MIN_CELLS:
            continue
        texts = {tables[0].space.items: f"{size:,} of {n_items:,}"}
        for name in ("tau", "seed_tau", "drop"):
            if name in row and math.isfinite(row[name]):
                text = f"{number(row[name])}"
                interval = span(row[f"{name}_low"], row[f"{name}_high"])
                if interval:
                    text += f" (95 % CI {interval})"
                texts[name.replace("_", " ")] = text
        if math.isfinite(row.get("p_family", math.nan)):
            texts["p, for all K"] = probability(row["p_family"])
        if len(tables) == 2:
            texts["overlap"] = f"{100 * _overlap(tables, size):.0f} %"
        levels.append({"percent": row["top_percent"], "size": size, "texts": texts})
    return levels


def _overlap(tables: Sequence[Accuracies], size: int) -> float:
    """Return the share of the best items of one table that are among the best of the other."""
    orders = [np.argsort(-table.centred_means, kind="stable") for table in tables]
    return len(np.intersect1d(orders[0][:size], orders[1][:size])) / size


def _plain(values: NDArray[Any]) -> list[float | None]:
    """Return numbers for JSON: three decimals, or four digits of small numbers; None for NaN."""
    numbers = values.astype(np.float64)
    rounded = np.round(numbers, 3)
    small = np.abs(numbers) < 1
    rounded[small] = [float(f"{value:.4g}") for value in numbers[small].tolist()]
    plain: NDArray[Any] = rounded.astype(object)
    plain[~np.isfinite(rounded)] = None
    return plain.tolist()


def _html(page: dict[str, Any], verdict: str) -> str:
    """Return the page with its data, style and script; a browser runs no other script."""
    here = Path(__file__)
    script = here.with_name("explorer.js").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # A closing tag in a name must not end the data.
    data = json.dumps(page, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    headings = [page["word"]]
    for side in page["sides"]:
        headings += [side["mean"], side["rank"]]
    wider = [level for level in page["levels"] if level["percent"] > _START]
    texts = {
        "title": page["title"],
        "verdict": verdict,
        "word": page["word"],
        "baseline": page["sides"][0]["name"],
        "last": str(len(page["levels"]) - 1),
        "start": str(len(wider)),
    }
    return Template(here.with_name("explorer.html").read_text("utf-8")).substitute(
        {name: html.escape(printable(text)) for name, text in texts.items()},
        views=_tags("option", [view["name"] for view in page["views"]]),
        head=_tags("th", headings),
        style=here.with_name("page.css").read_text("utf-8"),
        digest=digest,
        data=data,
        script=script,
    )


def _tags(tag: str, texts: Sequence[str]) -> str:
    return "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in texts)
