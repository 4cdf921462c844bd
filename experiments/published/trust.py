"""Measure how far the ranking of each public table with seeds can be trusted.

usage: python -m experiments.published.trust [--tables FOLDER] [--only NAME]

A row is a table and a data set: how well the rankings by two seeds agree among the best K %.
FOLDER contains the tables of ``rebench table fetch``: `fcnet`, `mlp`, `macro`, `analog-nasbench`.
The numbers are in ``results/trust.json``. ``--only`` computes the rows of one table again and keeps
the others. `pages` writes the page.

- *seed tau*: Kendall's tau-b between the runs of two seeds, among the best K % by one of them;
- *overlap*: the share of the best K % of one seed that is in the best K % of another, averaged over
  the ordered pairs of seeds;
- *not separable*: the number of networks that cannot be separated from the best (`rank_intervals`).

Intervals are percentile bootstraps over networks. A K with fewer than ten networks has no numbers.
Losses are compared on a logarithmic scale, which changes no rank.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from experiments.published.by_network import goodness
from rebench.analysis import MIN_CELLS, compare, read_accuracies
from rebench.analysis.cell_ranks import rank_intervals
from rebench.analysis.equal_cells import EqualCells, equal_cell_tau, partners
from rebench.analysis.paired import Accuracies, Paired
from rebench.analysis.result import Reranking
from rebench.analysis.seed_tau import affordable, resampled, seed_agreement
from rebench.analysis.tau import Floats, Ints, top_mask
from rebench.report.figures.style import (
    COLUMN_IN,
    Drawing,
    new_figure,
    series_style,
    styled,
)
from rebench.spaces import space_of
from rebench.tables import open_any
from rebench.tables.opening import read_rows

__all__ = [
    "RESULTS",
    "best_rate",
    "draw",
    "drops",
    "main",
    "overlap",
    "row_of_equal_cells",
    "row_of_seeds",
]

RESULTS: Final = Path(__file__).parent / "results" / "trust.json"
_TOP: Final = (100.0, 50.0, 20.0, 10.0, 5.0)
_DRAWS: Final = 400
_PAIRINGS: Final = 10
_DIGITS: Final = 4
_OVERLAP_PAIRINGS: Final = 2
# Settings of a table, each with two values that are compared.
_CHANGED: Final = {
    "fcnet": {"schedule": ("cosine", "const"), "batch_size": ("8", "64")},
    "mlp": {"batch_size": ("16", "256"), "weight_decay": ("1e-08", "0.016681006")},
}
_ALL: Final[dict[str, Any]] = {"top_percent": [100.0], "draws": 200}
_PROCEDURES: Final = {
    "baseline": "benchmark's recipe",
    "ptq": "quantised after training",
    "qat": "quantisation-aware",
    "analog": "hardware-aware",
    "analog_drift_2592000": "hardware-aware, 30 days",
}


def overlap(first: Floats, second: Floats, top_percent: float) -> float:
    """Return the share of the best K % of one run that is in the best K % of the other.

    Both runs are [networks], larger is better. It is the mean of both directions; they differ if
    networks are tied with the last one of the best.
    """
    one = top_mask(first, top_percent)
    other = top_mask(second, top_percent)
    common = (one & other).sum()
    return float((common / one.sum() + common / other.sum()) / 2)


def row_of_seeds(own: Accuracies, classes: Ints) -> dict[str, Any]:
    """Return the row of a table with seeds.

    Args:
        own: the runs; larger values are better.
        classes: [networks] networks with equal numbers are drawn together in the bootstrap.
    """
    paired = Paired(baseline=own, other=own, classes=np.unique(classes, return_inverse=True)[1])
    curve = seed_agreement(paired, _TOP, draws=_DRAWS, rng=0)
    runs, _ = paired.repeated.baseline.side_by_side
    # Where some networks have fewer runs, only the first runs are used.
    runs = runs[:, np.isfinite(runs).all(axis=0)]
    pairs = [(runs[:, i], runs[:, j]) for i, j in itertools.combinations(range(runs.shape[1]), 2)]
    told = _row(curve, pairs, paired.repeated.classes)
    ranked = rank_intervals(own)
    return {
        "networks": len(own.cells),
        "seeds": f"{own.counts.min()}" if np.ptp(own.counts) == 0 else "2 or 3",
        "not_separable": int(ranked["may_be_best"].sum()),
        **told,
    }


def row_of_equal_cells(values: Floats) -> dict[str, Any]:
    """Return the row of a table with one run [cells] of each cell of NAS-Bench-201."""
    equal = EqualCells.among(np.arange(len(values)))
    curve = equal_cell_tau(values, equal, _TOP, draws=_PAIRINGS, rng=0)
    curve = curve.rename(columns=lambda name: str(name).replace("tau", "seed_tau"))
    own = values[equal.rows]
    rng = np.random.default_rng(0)
    pairs = [(own, own[partners(equal.classes, rng)]) for _ in range(_OVERLAP_PAIRINGS)]
    told = _row(curve, pairs, equal.classes)
    return {"networks": len(own), "seeds": "equal cells", "not_separable": None, **told}


def _row(curve: pd.DataFrame, pairs: list[tuple[Floats, Floats]], classes: Ints) -> dict[str, Any]:
    """Return seed tau and overlap at each K, with the interval of the overlap over classes."""
    sample = resampled(classes, affordable(_DRAWS, len(classes)), np.random.default_rng(0))
    top = []
    known: list[dict[str, Any]] = curve.to_dict("records")  # type: ignore[assignment]  # names
    for row in known:
        percent = float(row["top_percent"])
        if len(classes) * percent < 100 * MIN_CELLS:
            continue
        drawn = np.zeros(len(sample))
        for number, rows in enumerate(sample):
            drawn[number] = np.mean([overlap(x[rows], y[rows], percent) for x, y in pairs])
        low, high = np.quantile(drawn[1:], [0.025, 0.975])
        limits = {"overlap": drawn[0], "overlap_low": low, "overlap_high": high}
        top.append({key: float(value) for key, value in (row | limits).items()})
    return {"top": top}


def best_rate(rows: pd.DataFrame) -> tuple[pd.DataFrame, float]:
    """Return the runs [networks, seeds] at the rate that is best for all networks, and this rate.

    `rows` are those of one data set and setting; larger values are better.
    """
    means = rows.groupby("learning_rate")["goodness"].mean()
    rate = float(means.index.to_numpy()[means.to_numpy().argmax()])
    own = rows[rows["learning_rate"] == rate]
    return own.pivot_table(index="index", columns="seed", values="goodness"), rate


def _accuracies(runs: pd.DataFrame) -> Accuracies:
    seeds = tuple(map(int, runs.columns))
    return Accuracies(name="", cells=runs.index.to_numpy(), seeds=seeds, runs=runs.to_numpy())


def _read(table: Path | str, name: str) -> pd.DataFrame:
    rows = read_rows(table)
    return rows.assign(goodness=goodness(name, rows["accuracy"].to_numpy()))


def _rows_of_rates(name: str, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of `fcnet` or `mlp`: usual settings, the best rate for all networks."""
    every = _read(folder / f"{name}.parquet", name)
    for dataset, rows in every.groupby("dataset", observed=True):
        runs, rate = best_rate(rows)
        found = row_of_seeds(_accuracies(runs), np.arange(len(runs)))
        yield {"name": f"{name}, {dataset}", "protocol": f"learning rate {rate:g}", **found}


def _rows_of_nb201(folder: Path) -> Iterator[dict[str, Any]]:  # noqa: ARG001 - comes along
    rows = read_rows("nb201")
    for dataset in ("cifar10-valid", "cifar100", "ImageNet16-120"):
        own = read_accuracies(rows, dataset=dataset, split="x-valid", epochs=200)
        classes = space_of("nb201").equal_networks(own.cells)
        yield {"name": f"nb201, {dataset}", "protocol": "200 epochs", **row_of_seeds(own, classes)}


def _rows_of_macro(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the row of `macro`, with one network of each class."""
    rows = read_rows(folder / "macro.parquet")
    cells = np.unique(rows["index"])
    _, first = np.unique(space_of("macro").equal_networks(cells), return_index=True)
    rows = rows[rows["index"].isin(cells[first])]
    runs = rows.pivot_table(index="index", columns="seed", values="accuracy")
    found = row_of_seeds(_accuracies(runs), np.arange(len(runs)))
    yield {"name": "macro, CIFAR-10", "protocol": "best of 50 epochs", **found}


def _rows_of_analog(folder: Path) -> Iterator[dict[str, Any]]:
    for recipe, told in _PROCEDURES.items():
        values = open_any(f"{folder / 'analog-nasbench'}@{recipe}").means()
        found = row_of_equal_cells(values.reindex(range(len(values))).to_numpy())
        yield {"name": f"analog-nasbench, {recipe}", "protocol": told, **found}


def _rows_of_ours(name: str) -> Iterator[dict[str, Any]]:
    rows = read_rows(name)
    own = read_accuracies(rows, dataset=rows["dataset"].iloc[0], recipe="fixed")
    classes = space_of("nb201").equal_networks(own.cells)
    found = row_of_seeds(own, classes)
    yield {"name": f"{name}, small CIFAR-10", "protocol": f"{own.epochs} epochs", **found}


_TABLES: Final[dict[str, Callable[[Path], Iterator[dict[str, Any]]]]] = {
    "nb201": _rows_of_nb201,
    "fcnet": lambda folder: _rows_of_rates("fcnet", folder),
    "mlp": lambda folder: _rows_of_rates("mlp", folder),
    "macro": _rows_of_macro,
    "analog-nasbench": _rows_of_analog,
    "mini": lambda _: _rows_of_ours("mini"),
    "mini-60ep": lambda _: _rows_of_ours("mini-60ep"),
    "mini-all": lambda _: _rows_of_ours("mini-all"),
}


def drops(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the drop between two protocols of one table, over all networks."""
    for name, settings in _CHANGED.items():
        for setting, (first, second) in settings.items():
            tables = [
                _read(f"{folder / name}:{setting}={value}", name) for value in (first, second)
            ]
            for dataset in tables[0]["dataset"].unique():
                pair = [best_rate(rows[rows["dataset"] == dataset])[0] for rows in tables]
                told = {"table": name, "changed": f"{setting} {first} to {second}"}
                yield told | {"dataset": str(dataset)} | _drop(compare(*pair, **_ALL))
    for name in ("mini", "mini-60ep", "mini-all"):
        found = compare(f"{name}@fixed", f"{name}@topology", **_ALL)
        yield {"table": name, "changed": "fixed to topology", "dataset": "", **_drop(found)}


def _drop(found: Reranking) -> dict[str, float]:
    [row] = found.frame().to_dict("records")
    kept = ("tau", "seed_tau", "drop", "drop_low", "drop_high")
    return {name: float(row[name]) for name in kept}


@styled
def draw(rows: list[dict[str, Any]]) -> Drawing:
    """Draw seed tau and overlap over K, a curve a row and a colour a benchmark."""
    figure, [panels] = new_figure(columns=2, width_in=2 * COLUMN_IN, height_in=2.8)
    shown = []
    for axes, measure in zip(panels, ("seed_tau", "overlap"), strict=True):
        families: list[str] = []
        for row in rows:
            family = row["name"].partition(",")[0]
            label = None
            if family not in families:
                families.append(family)
                label = family
            frame = pd.DataFrame(row["top"])
            _curve(axes, frame, measure, families.index(family), label)
            limits = frame[["top_percent", measure, f"{measure}_low", f"{measure}_high"]]
            limits.columns = ["top_percent", "value", "low", "high"]
            shown.append(limits.assign(name=row["name"], measure=measure))
        axes.set_xscale("log")
        axes.set_xticks(_TOP, [f"{percent:g}" for percent in _TOP])
        axes.minorticks_off()
        axes.invert_xaxis()
        axes.set(xlabel="top K % of the networks", ylabel=measure.replace("_", " "), ylim=(0, 1))
    panels[1].legend(loc="lower left", ncols=2)
    return figure.with_data(pd.concat(shown))


def _curve(axes: Axes, frame: pd.DataFrame, measure: str, at: int, label: str | None) -> None:
    style = series_style(at)
    axes.plot(frame["top_percent"], frame[measure], **style, markersize=3, linewidth=0.8,
              label=label)  # fmt: skip
    low, high = frame[f"{measure}_low"], frame[f"{measure}_high"]
    axes.fill_between(
        frame["top_percent"], low, high, color=style["color"], alpha=0.12, linewidth=0
    )


def main(words: list[str]) -> None:
    """Compute the rows and store them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tables", type=Path, default=Path(), help="folder of fetched tables")
    parser.add_argument("--only", choices=[*_TABLES, "drops"], action="append")
    asked = parser.parse_args(words)
    stored: dict[str, Any] = {"rows": [], "drops": []}
    if RESULTS.exists():
        stored = json.loads(RESULTS.read_text())
    for name in asked.only or [*_TABLES, "drops"]:
        if name == "drops":
            stored["drops"] = list(drops(asked.tables))
        else:
            others = [row for row in stored["rows"] if row["table"] != name]
            found = [{"table": name, **row} for row in _TABLES[name](asked.tables)]
            ordered = sorted(others + found, key=lambda row: list(_TABLES).index(row["table"]))
            stored["rows"] = ordered
        text = json.dumps(stored)
        rounded = json.loads(text, parse_float=lambda number: round(float(number), _DIGITS))
        RESULTS.write_text(json.dumps(rounded, indent=1) + "\n")
        sys.stderr.write(f"{name} is computed\n")


if __name__ == "__main__":
    main(sys.argv[1:])
