"""``rebench theory``: each law measured, with its table, its figure and its data."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from rebench.cli.options import takes
from rebench.cli.output import AsJson, Value, frame_rows, print_json, print_rows, progress, say

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from rebench.theory import LawResult, Pieces

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="The laws behind the recipes, measured.")

DataRoot = Annotated[Path | None, typer.Option(help="Folder of data sets.")]

Settings = TypeVar("Settings", bound="DataclassInstance")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Measuring:
    """How a law is measured: the options of every command."""

    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, under a minute.")] = False
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the figure, its data and finished pieces: a rerun resumes."),
    ] = None
    workers: Annotated[
        int,
        typer.Option(min=1, help="Processes that share the work, one thread each; needs --out."),
    ] = 1
    seed: Annotated[int, typer.Option(min=0, help="Seed of every draw.")] = 0
    as_json: AsJson = False

    def run(
        self,
        measure: Callable[[Settings, Pieces], LawResult],
        full: Settings,
        small: Settings,
        **chosen: object,
    ) -> None:
        """Measure at the full or the small settings, as chosen; print and write what is found."""
        from rebench.figures.theory import draw_law
        from rebench.theory import Pieces
        from rebench.theory.sharing import pieces_of, share_work

        settings = dataclasses.replace(small if self.quick else full, seed=self.seed, **chosen)
        out = self.out
        with progress() as bar, share_work(measure, settings, out, self.workers):
            task = bar.add_task("measuring", total=None)
            pieces = Pieces(
                pieces_of(out) if out else None,
                lambda done, expected: bar.update(task, completed=done, total=expected),
            )
            result = measure(settings, pieces)
        _print_result(result, as_json=self.as_json)
        if out is not None:
            for path in [*result.save(out), *draw_law(result, out)]:
                typer.echo(f"wrote {path}", err=True)


@app.command()
@takes(how=_Measuring)
def depth(how: _Measuring) -> None:
    """Depth law: one step's update grows like L^3, so the learning rate falls like L^-3/2."""
    from rebench.theory import depth as depth_law

    how.run(depth_law.measure_depth_law, depth_law.FULL, depth_law.QUICK)


@app.command()
@takes(how=_Measuring)
def dag(
    data: Annotated[
        str | None, typer.Option(help="Data set; Fashion-MNIST if it is here, else digits.")
    ] = None,
    data_root: DataRoot = None,
    only: Annotated[
        list[str] | None, typer.Option(help="An experiment to search; may be repeated.")
    ] = None,
    *,
    how: _Measuring,
) -> None:
    """Architecture-aware rule: init, one step, kernels, and maximal rates of one epoch."""
    from rebench.theory import dag as dag_law

    chosen = {"only": tuple(only)} if only else {}
    law = dag_law.measure_dag_law
    how.run(law, dag_law.FULL, dag_law.QUICK, dataset=data, data_root=data_root, **chosen)


@app.command()
@takes(how=_Measuring)
def bafu(data_root: DataRoot = None, *, how: _Measuring) -> None:
    """Backward-aligned feature updates: the identity, alignment with depth, training control."""
    from rebench.theory import alignment

    law = alignment.measure_alignment_law
    how.run(law, alignment.FULL, alignment.QUICK, data_root=data_root)


@app.command("am-mup")
@takes(how=_Measuring)
def am_mup(data_root: DataRoot = None, *, how: _Measuring) -> None:
    """AM-muP: the network-wide mean update of CNNs and ResNets, and transfer across depth."""
    from rebench.theory import am_mup as am_mup_law

    law = am_mup_law.measure_am_mup_law
    how.run(law, am_mup_law.FULL, am_mup_law.QUICK, data_root=data_root)


@app.command()
def verdicts(
    folder: Annotated[Path, typer.Argument(help="A folder that --out wrote.")],
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a page of tables and figures instead.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the verdicts of every law measured into a folder."""
    from rebench.report.theory import theory_page
    from rebench.theory import load_verdicts

    if markdown:
        typer.echo(theory_page(folder), nl=False)
        return
    rows = frame_rows(load_verdicts(folder))
    if as_json:
        print_rows(rows, as_json=True)
    else:
        _print_verdicts(rows)


def _print_result(result: LawResult, *, as_json: bool) -> None:
    from rebench.theory import verdict_table

    if as_json:
        frames = {"verdicts": verdict_table(result.verdicts), **result.tables}
        print_json({name: frame_rows(frame) for name, frame in frames.items()})
        return
    for name, frame in result.tables.items():
        print_rows(frame_rows(frame), as_json=False, title=f"{result.law}: {name}")
        typer.echo()
    _print_verdicts(frame_rows(verdict_table(result.verdicts)))


def _print_verdicts(rows: list[dict[str, Value]]) -> None:
    law = None
    for row in rows:
        if row["law"] != law:
            law = row["law"]
            typer.echo(f"{law}")
        paper = "no figure" if row["paper"] is None else f"{row['paper']:.3g}"
        ours = f"{row['ours']:.3g} [{row['low']:.3g}, {row['high']:.3g}]"
        say(f"{row['quantity']}: paper {paper}, ours {ours}", indent="  ")
        say(f"{row['verdict']} ({row['settings']})", indent="    ")
