"""``rebench cells``: show one cell, or write all cells as a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rebench.cli import options
from rebench.cli.groups import App
from rebench.cli.output import print_facts, print_json, say
from rebench.errors import InputError

if TYPE_CHECKING:
    from cells import Cell

__all__ = ["app"]

app = App(help="Show cells (architectures) and the statistics of their graphs.")


@app.command()
def show(
    cell: options.CellName,
    figure: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Save a drawing of the graph (.svg, .pdf or .png) to this file."
        ),
    ] = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Show one cell: its drawing, paths, degrees, learning-rate multipliers, class and cost.

    Example: rebench cells show 1696
    """
    from cells import Cell
    from rebench.spaces import statistics

    chosen = Cell.find(cell)
    if figure is not None:
        _save_drawing(chosen, figure, force)
    facts = statistics.cell_facts(chosen)
    if as_json:
        print_json(facts)
        return
    typer.echo(f"cell {chosen.index}  {chosen.code}")
    # Not wrapped here, so that the architecture string can be copied.
    typer.echo(f"{chosen}\n\n{draw(chosen)}\n")
    shown = list(facts.items())[3:]
    print_facts({name.replace("_", " "): value for name, value in shown})


def _save_drawing(cell: Cell, path: Path, force: bool) -> None:
    """Save the drawing of a cell; an SVG file is that of notebooks."""
    if path.suffix not in (".svg", ".pdf", ".png"):
        raise InputError(f"--figure takes FILE.svg, FILE.pdf or FILE.png, got {path}")
    options.refuse_existing(path, force)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".svg":
        from cells.drawing import svg

        path.write_text(svg(cell), encoding="utf-8")
    else:
        from rebench.report.figures.cells import draw_cell  # loads matplotlib

        draw_cell(cell).save(path.with_suffix(""), formats=[path.suffix[1:]])
    say(f"wrote {path}", err=True)


def draw(cell: Cell) -> str:
    """Return the cell as text: the inputs of each vertex, with marks for dead edges."""
    from cells import OP_NAMES

    lines = ["0  input"]
    live = cell.edges(live=True)
    for vertex in (1, 2, 3):
        terms = [
            f"{edge[1]} ──{OP_NAMES[edge[2]]}──>{'' if edge in live else ' (dead)'}"
            for edge in cell.edges()
            if edge[0] == vertex
        ]
        lines.append(f"{vertex}  " + ("  +  ".join(terms) if terms else "zero: no inputs"))
    return "\n".join(lines) + "   (3 is the output)"


@app.command()
def export(
    out: Annotated[Path, typer.Option(help="Output file: .parquet or .csv.")],
    force: options.Force = False,
) -> None:
    """Write one row for each cell, with all statistics, to a file.

    Example: rebench cells export --out cells.csv
    """
    from rebench.spaces import statistics

    if out.suffix not in (".parquet", ".csv"):
        raise InputError(f"--out must end in .parquet or .csv, got {out.name!r}")
    options.refuse_existing(out, force)
    table = statistics.space()
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.suffix == ".csv":
        table.to_csv(out, index=False)
    else:
        table.to_parquet(out, index=False, compression="zstd")
    typer.echo(f"wrote {len(table):,} cells to {out}")
