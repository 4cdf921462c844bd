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

Images = Annotated[
    str | None, typer.Option(help="Data set; Fashion-MNIST if it is here, else digits.")
]
Only = Annotated[list[str] | None, typer.Option(help="An experiment to search; may be repeated.")]
Device = Annotated[str, typer.Option(help="Where to train, such as cuda.")]
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
        result = self.measure(measure, full, small, **chosen)
        _print_result(result, as_json=self.as_json)

    def measure(
        self,
        measure: Callable[[Settings, Pieces], LawResult],
        full: Settings,
        small: Settings,
        **chosen: object,
    ) -> LawResult:
        """Measure at the full or the small settings, as chosen, and write what is found."""
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
        if out is not None:
            for path in [*result.save(out), *draw_law(result, out)]:
                typer.echo(f"wrote {path}", err=True)
        return result


@app.command()
@takes(how=_Measuring)
def depth(how: _Measuring) -> None:
    """Depth law: one step's update grows like L^3, so the learning rate falls like L^-3/2."""
    from rebench.theory import depth as depth_law

    how.run(depth_law.measure_depth_law, depth_law.FULL, depth_law.QUICK)


@app.command()
@takes(how=_Measuring)
def dag(
    data: Images = None,
    data_root: DataRoot = None,
    only: Only = None,
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
def released(
    data: Images = None,
    data_root: DataRoot = None,
    only: Only = None,
    graphs: Annotated[int | None, typer.Option(min=2, help="Random MLP graphs.")] = None,
    kernel_graphs: Annotated[int | None, typer.Option(min=2, help="Random CNN graphs.")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Runs of each.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Of an MLP; else an epoch.")] = None,
    kernel_steps: Annotated[
        int | None, typer.Option(min=1, help="Of a CNN; else an epoch.")
    ] = None,
    device: Device = "cpu",
    *,
    how: _Measuring,
) -> None:
    """The same rule in the network of its released code: graphs with skips, from one base rate."""
    from rebench.theory import released as released_law

    sizes = {"graphs": graphs, "kernel_graphs": kernel_graphs, "seeds": seeds, "steps": steps,
             "kernel_steps": kernel_steps, "only": tuple(only) if only else None}  # fmt: skip
    chosen = {name: value for name, value in sizes.items() if value is not None}
    law = released_law.measure_released_law
    how.run(
        law, released_law.FULL, released_law.QUICK,
        dataset=data, data_root=data_root, device=device, **chosen,
    )  # fmt: skip


@app.command()
@takes(how=_Measuring)
def cells(
    data: Images = None,
    data_root: DataRoot = None,
    count: Annotated[int | None, typer.Option("--cells", min=2, help="Random cells.")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Runs of each.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Of an epoch, at most.")] = None,
    channels: Annotated[int | None, typer.Option(min=1, help="Of the first stage.")] = None,
    cells_per_stage: Annotated[int | None, typer.Option(min=1, help="5 in the benchmark.")] = None,
    side: Annotated[int | None, typer.Option(min=8, help="Of the images, in pixels.")] = None,
    device: Device = "cpu",
    *,
    how: _Measuring,
) -> None:
    """Cells with batch normalisation: their maximal rates, and every rule beside a constant.

    Hours on a processor; --out keeps every finished cell, and a rerun goes on.
    """
    from rebench.theory import cell_law

    sizes = {"cells": count, "seeds": seeds, "steps": steps, "channels": channels,
             "cells_per_stage": cells_per_stage, "side": side}  # fmt: skip
    chosen = {name: value for name, value in sizes.items() if value is not None}
    full, small = (
        dataclasses.replace(one, cells=dataclasses.replace(one.cells, **chosen))
        for one in (cell_law.FULL, cell_law.QUICK)
    )
    law = cell_law.measure_cell_law
    how.run(law, full, small, dataset=data, data_root=data_root, device=device)


@app.command()
@takes(how=_Measuring)
def bafu(data: Images = None, data_root: DataRoot = None, *, how: _Measuring) -> None:
    """Backward-aligned feature updates: the identity, alignment with depth, training control.

    Images are for the identity and for training; alignment with depth draws its own inputs.
    """
    from rebench.theory import alignment

    law = alignment.measure_alignment_law
    how.run(law, alignment.FULL, alignment.QUICK, dataset=data, data_root=data_root)


@app.command()
@takes(how=_Measuring)
def speed(how: _Measuring) -> None:
    """Feature speed: updates and sensitivity by layer, and scalings of readout and rate.

    It takes no data set: behind a random first layer that stays, one input is as good as another.
    """
    from rebench.theory import speed as speed_law

    how.run(speed_law.measure_speed_law, speed_law.FULL, speed_law.QUICK)


@app.command("am-mup")
@takes(how=_Measuring)
def am_mup(data: Images = None, data_root: DataRoot = None, *, how: _Measuring) -> None:
    """AM-muP: the network-wide mean update of CNNs and ResNets, and transfer across depth.

    Images are for the transfer alone; updates at init are of random inputs.
    """
    from rebench.theory import am_mup as am_mup_law

    law = am_mup_law.measure_am_mup_law
    how.run(law, am_mup_law.FULL, am_mup_law.QUICK, dataset=data, data_root=data_root)


@app.command("all")
@takes(how=_Measuring)
def everything(
    data: Images = None,
    data_root: DataRoot = None,
    long: Annotated[
        bool,
        typer.Option("--long", help="Also what takes hours: cells, all of the released network."),
    ] = False,
    *,
    how: _Measuring,
) -> None:
    """Every law into one folder, one after the other; a rerun goes on where one was killed."""
    from rebench.errors import InputError
    from rebench.theory import alignment, am_mup, cell_law, dag, depth, load_verdicts, released
    from rebench.theory import speed as speed_law

    if how.out is None:
        raise InputError("all laws are measured into a folder: give --out FOLDER")
    images = {"dataset": data, "data_root": data_root}
    how.measure(depth.measure_depth_law, depth.FULL, depth.QUICK)
    how.measure(dag.measure_dag_law, dag.FULL, dag.QUICK, **images)
    part = released.FULL if long else released.PART
    how.measure(released.measure_released_law, part, released.QUICK, **images)
    how.measure(alignment.measure_alignment_law, alignment.FULL, alignment.QUICK, **images)
    how.measure(speed_law.measure_speed_law, speed_law.FULL, speed_law.QUICK)
    how.measure(am_mup.measure_am_mup_law, am_mup.FULL, am_mup.QUICK, **images)
    if long:
        how.measure(cell_law.measure_cell_law, cell_law.FULL, cell_law.QUICK, **images)
    _show_verdicts(frame_rows(load_verdicts(how.out)), as_json=how.as_json)


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
    _show_verdicts(frame_rows(load_verdicts(folder)), as_json=as_json)


@app.command()
def draw(
    folder: Annotated[Path, typer.Argument(help="A folder that --out wrote.")],
) -> None:
    """Draw the figures of a folder anew, from its tables: nothing is measured."""
    from rebench.figures.theory import draw_law
    from rebench.theory import load_results

    for result in load_results(folder):
        for path in draw_law(result, folder):
            typer.echo(f"wrote {path}", err=True)


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


def _show_verdicts(rows: list[dict[str, Value]], *, as_json: bool) -> None:
    if as_json:
        print_rows(rows, as_json=True)
    else:
        _print_verdicts(rows)


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
