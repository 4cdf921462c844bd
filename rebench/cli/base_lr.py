"""``rebench base-lr``: the base maximal learning rate, by the paper's grid."""

from __future__ import annotations

import enum
import json
import math
from pathlib import Path
from typing import Annotated

import torch
import typer

from cells import Cell, DagCode
from rebench.cli.output import AsJson, Value, console, print_rows, progress
from rebench.data import BatchSource, load_data
from rebench.datasets import DataSpec, data_spec
from rebench.figures.recipes import draw_base_lr
from rebench.nets import DagCNN, DagMLP, LayeredNet, TinyNet
from rebench.recipes import BASE_CODE, Architecture, parse_recipe
from rebench.sweep import Protocol
from rebench.theory.base_lr import BaseLearningRate, base_maximal_lr, logarithmic_grid

__all__ = ["app"]

app = typer.Typer()


class Network(enum.Enum):
    """The networks that can be searched."""

    TINY = "tiny"
    DAG_MLP = "dag-mlp"
    DAG_CNN = "dag-cnn"


@app.command()
def base_lr(
    dataset: Annotated[str, typer.Option(help="Data set.")] = "digits",
    network: Annotated[Network, typer.Option(help="The kind of network.")] = Network.TINY,
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
    spec, rule = data_spec(dataset), parse_recipe(init)
    architecture: Architecture
    architecture = Cell.find(graph) if network is Network.TINY else DagCode.parse(graph)
    images, labels = _training_images(spec, samples, device)

    def build() -> LayeredNet:
        return _network(architecture, network, spec, width, cells_per_stage, kernel_size)

    with progress() as bar:
        task = bar.add_task("training")
        found = base_maximal_lr(
            build,
            architecture,
            rule,
            images,
            labels,
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
    for path in draw_base_lr(found, figure) if figure else ():
        typer.echo(f"wrote {path}", err=True)


def _network(
    graph: Architecture,
    network: Network,
    spec: DataSpec,
    width: int,
    cells_per_stage: int,
    kernel_size: int,
) -> LayeredNet:
    if isinstance(graph, Cell):
        return TinyNet(graph, channels=width, cells_per_stage=cells_per_stage, classes=spec.classes)
    if network is Network.DAG_MLP:
        return DagMLP(graph, inputs=3 * spec.size**2, width=width, classes=spec.classes)
    return DagCNN(graph, channels=width, kernel_size=kernel_size, classes=spec.classes)


def _training_images(
    spec: DataSpec, samples: int | None, device: str
) -> tuple[torch.Tensor, torch.Tensor]:
    train = load_data(spec.name).train
    if samples is not None and samples < len(train):
        order = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))
        train = train.select(order[:samples])
    source = BatchSource(train, spec, device=device, channels_last=False)
    batches, labels = zip(*source.plain(1024), strict=True)
    return torch.cat(batches), torch.cat(labels)


def _print(found: BaseLearningRate, as_json: bool) -> None:
    rows: list[dict[str, Value]] = [
        {
            "learning_rate": point.learning_rate,
            "loss": point.mean if math.isfinite(point.mean) else None,
            "diverged": sum(not math.isfinite(loss) for loss in point.losses),
            "within_noise": point.mean <= found.threshold,
        }
        for point in found.curve
    ]
    if as_json:
        page = {
            "base_lr": found.learning_rate,
            "best": found.best,
            "threshold": found.threshold,
            "at_edge": found.at_edge,
            "curve": rows,
        }
        typer.echo(json.dumps(page, indent=1, allow_nan=False))
        return
    print_rows(rows, as_json=False)
    out = console()
    out.print(f"\nbase learning rate  {found.learning_rate:.4g}")
    out.print(f"smallest loss at    {found.best:.4g}; within noise up to {found.threshold:.4g}")
    if found.at_edge:
        out.print("the answer is at the grid's edge: widen the grid")
