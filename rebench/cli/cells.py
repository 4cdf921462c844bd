"""``rebench cells``: one cell as a page, the space as a table or a figure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

import cells
from cells import EDGES, OP_NAMES, Cell
from cells.cost import IMAGE_SHAPES
from rebench.cli.output import AsJson, Force, Value, console, print_rows, refuse_existing
from rebench.errors import InputError

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Architecture strings and their graph statistics.")

CellName = Annotated[str, typer.Argument(help="An index, an architecture string or a code.")]


@app.command()
def show(cell: CellName, as_json: AsJson = False) -> None:
    """Show one cell: its drawing, paths, degrees, learning-rate multipliers, class and cost."""
    found = Cell.find(cell)
    facts = describe(found)
    if as_json:
        typer.echo(json.dumps(facts, indent=1))
        return
    out = console()
    out.print(f"[bold]cell {found.index}[/]  {found.code}")
    out.print(f"{found}\n", markup=False)
    out.print(draw(found) + "\n", markup=False)
    width = max(map(len, facts))
    for name, value in list(facts.items())[3:]:
        text = "-" if value is None else f"{value:.6g}" if isinstance(value, float) else value
        out.print(f"{name.replace('_', ' '):<{width}}  {text}", markup=False)


def describe(cell: Cell) -> dict[str, Value]:
    """Return everything that is known of one cell, as flat facts."""
    depths = cells.path_depths(cell)
    cubed = sum((1 + depth) ** 3 for depth in depths)
    network = cells.network_polynomial(cell)
    network_cubed = cells.moment(network, 3)
    members = cells.class_members(cell)
    facts: dict[str, Value] = {
        "index": cell.index,
        "arch": str(cell),
        "code": cell.code,
        "n_paths": len(depths),
        "path_depths": _joined(depths),
        "sum_cubed_depths": cubed,
        "lr_multiplier": cubed**-0.5 if cubed else None,
        "network_paths": str(sum(network)),
        "network_sum_cubed_depths": str(network_cubed),
        "network_lr_multiplier": network_cubed**-0.5 if network_cubed else None,
        "in_degree_source": _joined(cells.source_degrees(cell)),
        "in_degree_target": _joined(cells.in_degrees(cell)),
        "in_degree_target_live": _joined(cells.in_degrees(cell, live=True)),
        "functional_class": members[0],
        "class_size": len(members),
    }
    for dataset, suffix in _SUFFIXES.items():
        price = cells.cost(cell, dataset)
        facts[f"params_m{suffix}"] = price.params_m
        facts[f"mflops{suffix}"] = price.mflops
    return facts


def draw(cell: Cell) -> str:
    """Return the cell as text: what flows into each vertex; dead edges are marked."""
    lines = ["0  input"]
    edges = list(zip(EDGES, cell.ops, cells.live_edges(cell), strict=True))
    for vertex in (1, 2, 3):
        inward = [(source, op, live) for (target, source), op, live in edges if target == vertex]
        terms = [
            f"{source} ──{OP_NAMES[op]}──>{'' if live else ' (dead)'}"
            for source, op, live in inward
            if op
        ]
        lines.append(f"{vertex}  " + ("  +  ".join(terms) if terms else "zero: nothing flows in"))
    return "\n".join(lines) + "   (3 is the output)"


@app.command()
def export(
    file: Annotated[Path, typer.Argument(help="Where to write: .parquet or .csv.")],
    force: Force = False,
) -> None:
    """Write one row per cell, with every statistic, to a file."""
    import pandas as pd

    if file.suffix not in (".parquet", ".csv"):
        raise InputError(f"the file must end in .parquet or .csv, got {file.name!r}")
    refuse_existing(file, force)
    if not file.absolute().parent.is_dir():
        raise InputError(f"there is no folder {file.absolute().parent}; create it first")
    table = pd.DataFrame(space_columns())
    try:
        if file.suffix == ".csv":
            table.to_csv(file, index=False)
        else:
            table.to_parquet(file, index=False, compression="zstd")
    except OSError as error:
        raise InputError(f"cannot write {file}: {error.strerror or error}") from error
    typer.echo(f"wrote {len(table):,} cells to {file}")


def space_columns() -> dict[str, object]:
    """Return the columns of the exported table, one entry per cell in index order."""
    space = cells.compile_space()
    network = cells.compile_network(space)
    named = list(cells.all_cells())
    polynomials, which = space.polynomials()
    depth_texts = [
        _joined([depth for depth, count in enumerate(polynomial) for _ in range(count)])
        for polynomial in polynomials
    ]
    columns: dict[str, object] = {
        "index": np.arange(len(space)),
        "arch": [str(cell) for cell in named],
        "code": [cell.code for cell in named],
        "n_paths": space.n_paths,
        "path_depths": [depth_texts[number] for number in which],
        "sum_cubed_depths": space.sum_cubed_depths,
        "lr_multiplier": space.lr_multiplier,
        "network_paths": network.paths.astype(str),
        "network_sum_cubed_depths": network.sum_cubed_depths.astype(str),
        "network_lr_multiplier": network.lr_multiplier,
        "in_degree_source": [_joined((1, *row, 1)) for row in space.in_degree.tolist()],
        "in_degree_target": [_joined(row) for row in space.in_degree.tolist()],
        "in_degree_target_live": [_joined(row) for row in space.in_degree_live.tolist()],
        "functional_class": space.functional_class,
        "class_size": space.class_size,
    }
    for dataset, suffix in _SUFFIXES.items():
        columns[f"params_m{suffix}"] = space.params[dataset] / 1e6
        columns[f"mflops{suffix}"] = space.flops[dataset] / 1e6
    return columns


@app.command()
def stats(
    as_json: AsJson = False,
    figure: Annotated[
        Path | None, typer.Option(help="Also save a figure here (.pdf, .svg or .png).")
    ] = None,
) -> None:
    """Show the space at a glance: path counts, multipliers, degrees, classes."""
    space = cells.compile_space()
    network = cells.compile_network(space)
    network_spread = np.nanmax(network.lr_multiplier) / np.nanmin(network.lr_multiplier)
    convolves = np.isin(space.ops, (2, 3)) & space.live_edges
    rows: list[dict[str, Value]] = [{"what": "cells", "value": len(space)}]
    rows += [
        {"what": f"cells with {count} paths", "value": int((space.n_paths == count).sum())}
        for count in range(5)
    ]
    rows += [
        {
            "what": "cells with a path but no convolution on any",
            "value": int(((space.n_paths > 0) & ~convolves.any(axis=1)).sum()),
        },
        {
            "what": "distinct multipliers, cell level",
            "value": int(np.unique(space.lr_multiplier[space.n_paths > 0]).size),
        },
        {"what": "mean multiplier, cell level", "value": float(np.nanmean(space.lr_multiplier))},
        {
            "what": "largest / smallest multiplier, cell level",
            "value": float(np.nanmax(space.lr_multiplier) / np.nanmin(space.lr_multiplier)),
        },
        {
            "what": "largest / smallest multiplier, network level",
            "value": float(network_spread),
        },
        {
            "what": "cells whose in-degree changes without dead edges",
            "value": int((space.in_degree != space.in_degree_live).any(axis=1).sum()),
        },
    ]
    for partition in ("benchmark", "exact", "strict"):
        classes = cells.functional_classes(partition)
        rows.append(
            {"what": f"functional classes, {partition}", "value": int(np.unique(classes).size)}
        )
    print_rows(rows, as_json=as_json, title="NAS-Bench-201")
    if figure:
        from rebench.figures.space import draw_space

        formats = (figure.suffix[1:],) if figure.suffix else ("pdf", "svg", "png")
        if not set(formats) <= {"pdf", "svg", "png"}:
            raise InputError(f"a figure ends in .pdf, .svg or .png, got {figure.name!r}")
        written = draw_space(space, network, figure.with_suffix(""), formats=formats)
        typer.echo(f"wrote {', '.join(map(str, written))}", err=True)


_SUFFIXES = {
    dataset: "" if dataset == "cifar10" else "_" + dataset.lower().replace("-", "_")
    for dataset in IMAGE_SHAPES
}


def _joined(values: tuple[int, ...] | list[int]) -> str:
    return ";".join(map(str, values))
