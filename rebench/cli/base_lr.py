"""``rebench base-lr``: the base maximal learning rate, by the paper's grid."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rebench.cli.output import AsJson, console, print_json, print_rows, progress
from rebench.recipes.reference import BASE_CODE
from rebench.theory.network_kind import NetworkKind

if TYPE_CHECKING:
    from rebench.theory.base_lr import BaseLearningRate

__all__ = ["app"]

app = typer.Typer()


@app.command()
def base_lr(
    dataset: Annotated[str, typer.Option(help="Data set.")] = "digits",
    network: Annotated[NetworkKind, typer.Option(help="The kind of network.")] = NetworkKind.TINY,
    graph: Annotated[str, typer.Option(help="A cell, or a graph code for dag-*.")] = BASE_CODE,
    width: Annotated[int, typer.Option(min=1, help="Channels (of the first stage).")] = 16,
    cells_per_stage: Annotated[int, typer.Option(min=1, help="Of tiny.")] = 5,
    kernel_size: Annotated[int, typer.Option(min=1, help="Of dag-cnn.")] = 3,
    init: Annotated[str, typer.Option(help="The recipe whose init is used.")] = "nb201",
    low: Annotated[float, typer.Option(help="Smallest learning rate.")] = 0.01,
    high: Annotated[float, typer.Option(help="Largest learning rate.")] = 10.0,
    points: Annotated[int, typer.Option(help="Learning rates on the grid.")] = 13,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each.")] = 3,
    samples: Annotated[int | None, typer.Option(min=1, help="Images of the epoch.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Images in a batch.")] = 128,
    momentum: Annotated[float, typer.Option(min=0, max=0.999, help="Nesterov's.")] = 0.9,
    weight_decay: Annotated[float, typer.Option(min=0, help="On every parameter.")] = 5e-4,
    device: Annotated[str, typer.Option(help="Where to train, such as cuda.")] = "cpu",
    figure: Annotated[Path | None, typer.Option(help="Save the curve; no suffix.")] = None,
    as_json: AsJson = False,
) -> None:
    """Find the base learning rate: the largest that trains best for one epoch, within noise."""
    from rebench.datasets import data_spec
    from rebench.figures.recipes import draw_base_lr
    from rebench.recipes import parse_recipe
    from rebench.sweep import Protocol
    from rebench.theory.base_lr import BaseNetwork, base_maximal_lr, logarithmic_grid
    from rebench.theory.images import training_images

    base = BaseNetwork(
        kind=network,
        graph=graph,
        spec=data_spec(dataset),
        width=width,
        cells_per_stage=cells_per_stage,
        kernel_size=kernel_size,
    )
    with progress() as bar:
        task = bar.add_task("training")
        found = base_maximal_lr(
            base.build,
            base.architecture,
            parse_recipe(init),
            *training_images(dataset, samples, device),
            grid=logarithmic_grid(low, high, points),
            seeds=range(seeds),
            protocol=Protocol(
                batch_size=batch_size,
                momentum=momentum,
                nesterov=momentum > 0,
                weight_decay=weight_decay,
            ),
            on_step=lambda done, total: bar.update(task, completed=done, total=total),
        )
    _print(found, as_json)
    for path in draw_base_lr(found).save(figure) if figure else ():
        typer.echo(f"wrote {path}", err=True)


def _print(found: BaseLearningRate, as_json: bool) -> None:
    if as_json:
        page = {
            "base_lr": found.learning_rate,
            "best": found.best,
            "threshold": found.threshold,
            "at_edge": found.at_edge,
            "curve": found.rows(),
        }
        print_json(page)
        return
    print_rows(found.rows(), as_json=False)
    out = console()
    out.print(f"\nbase learning rate  {found.learning_rate:.4g}")
    out.print(f"smallest loss at    {found.best:.4g}; within noise up to {found.threshold:.4g}")
    if found.at_edge:
        out.print("the answer is at the grid's edge: widen the grid")
