"""Command line ``python -m experiments.laws``: measurements, tables, figures and page of laws."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from experiments.laws import registry
from experiments.laws.figures import draw_law
from experiments.laws.page import theory_page
from experiments.laws.pieces import Pieces
from experiments.laws.result import LawResult, load_results, load_verdicts
from rebench.cli.app import main as run
from rebench.cli.groups import App
from rebench.cli.options import AsJson
from rebench.cli.output import frame_rows, print_json, print_rows, progress, say
from rebench.errors import InputError

app = App(help="Measure the laws behind the recipes and compare them with the papers.")

Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting; `list LAW` shows them."),
]
Small = Annotated[bool, typer.Option("--small", help="Small sizes: less than a minute per law.")]
Out = Annotated[
    Path | None,
    typer.Option(help="Folder for the figure, its data and finished pieces: a rerun resumes."),
]
Workers = Annotated[int, typer.Option(min=1, help="Processes that share the work.")]
Folder = Annotated[Path, typer.Argument(help="Folder written by --out.")]


@app.command("list")
def list_laws(
    law: Annotated[str | None, typer.Argument(help="Show the settings of this law.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the laws, or the settings of a law: `list dag`."""
    rows: list[dict[str, object]]
    if law is None:
        rows = [{"law": name, "what": known.summary} for name, known in registry.LAWS.items()]
    else:
        full, small = (
            {key: str(value) if isinstance(value, tuple | Path) else value
             for key, value in registry.listed_settings(settings).items()}
            for settings in (registry.law(law).full, registry.law(law).small)
        )  # fmt: skip
        rows = [{"setting": key, "full": full[key], "small": small[key]} for key in full]
    print_rows(rows, as_json=as_json)


@app.command()
def measure(
    law: Annotated[str, typer.Argument(help="Law to measure; `list` shows the names.")],
    chosen: Set = None,
    small: Small = False,
    out: Out = None,
    workers: Workers = 1,
    as_json: AsJson = False,
) -> None:
    """Measure a law: `measure depth --small`, `measure dag --set dataset=cifar10 --out laws`."""
    known = registry.law(law)
    settings = registry.with_settings(known.small if small else known.full, chosen or ())
    result = _measure(known, settings, out, workers)
    if as_json:
        print_json({"verdicts": result.verdict_table(), **result.tables})
        return
    for name, frame in result.tables.items():
        print_rows(frame, as_json=False, title=f"{result.law}: {name}")
        typer.echo()
    _show_verdicts(result.verdict_table())


@app.command("all")
def measure_all(
    out: Annotated[Path, typer.Option(help="Output folder; a rerun resumes.")],
    chosen: Set = None,
    small: Small = False,
    long: Annotated[
        bool, typer.Option("--long", help="Also measure laws that take hours: cells, released.")
    ] = False,
    workers: Workers = 1,
    as_json: AsJson = False,
) -> None:
    """Measure every law into one folder, one after the other: `all --small --out laws`.

    A setting applies to the laws that have it.
    """
    laws = [law for law in registry.LAWS.values() if law.paper]
    every = {key for law in laws for key in registry.listed_settings(law.full)}
    for text in chosen or ():
        if text.partition("=")[0] not in every:
            raise InputError(f"no law has the setting {text.partition('=')[0]!r}")
    for law in laws:
        full = law.full if long or not law.hours else law.part
        if full is None and not small:
            continue
        keys = registry.listed_settings(law.full)
        own = [text for text in chosen or () if text.partition("=")[0] in keys]
        _measure(law, registry.with_settings(law.small if small else full, own), out, workers)
    _show_verdicts(load_verdicts(out), as_json=as_json)


@app.command()
def verdicts(
    folder: Folder,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a page of tables and figures instead.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the verdicts of every law measured into a folder: `verdicts laws --markdown`."""
    if markdown:
        typer.echo(theory_page(folder), nl=False)
    else:
        _show_verdicts(load_verdicts(folder), as_json=as_json)


@app.command()
def draw(folder: Folder) -> None:
    """Draw the figures of a folder again from its tables, without measuring."""
    for result in load_results(folder):
        for path in draw_law(result, folder):
            typer.echo(f"wrote {path}", err=True)


def _measure(law: registry.Law, settings: object, out: Path | None, workers: int) -> LawResult:
    """Measure a law, and write the results."""
    with progress(law.name) as update:
        pieces = Pieces(
            out / "pieces" if out else None,
            lambda done, asked: update(completed=done, total=asked),
            workers,
        )
        result = law.measure(settings, pieces)
    if out is not None:
        for path in [*result.save(out), *draw_law(result, out)]:
            typer.echo(f"wrote {path}", err=True)
    return result


def _show_verdicts(frame: pd.DataFrame, *, as_json: bool = False) -> None:
    if as_json:
        print_rows(frame, as_json=True)
        return
    for law, rows in frame.groupby("law", sort=False):
        typer.echo(law)
        for row in frame_rows(rows):
            paper = "no figure" if row["paper"] is None else f"{row['paper']:.3g}"
            ours = f"{row['ours']:.3g} [{row['low']:.3g}, {row['high']:.3g}]"
            say(f"{row['quantity']}: paper {paper}, ours {ours}", indent="  ")
            say(f"{row['verdict']} ({row['settings']})", indent="    ")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code: 0 done, 1 something failed, 2 bad input."""
    return run(arguments, app, "python -m experiments.laws")


if __name__ == "__main__":
    sys.exit(main())
