"""``rebench train``: trials of one cell in the foreground; prints their records."""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rebench.cli import completion
from rebench.cli.output import AsJson, Value, print_rows, progress
from rebench.errors import InputError

if TYPE_CHECKING:
    from rich.progress import TaskID

    from rebench.store import Record
    from rebench.sweep import Trial
    from rebench.train import EpochReport

__all__ = ["app"]

app = typer.Typer(help="Train trials of one cell in the foreground and print their records.")


@app.command("train")
def train_command(
    cell: Annotated[str, typer.Argument(help="An index, an architecture string or a code.")],
    dataset: Annotated[
        str, typer.Option(help="See `rebench data list`.", autocompletion=completion.datasets)
    ] = "cifar10",
    split: Annotated[str, typer.Option(help="A split of the data set.")] = "full",
    recipe: Annotated[
        list[str] | None,
        typer.Option(help="Default nb201; repeatable.", autocompletion=completion.recipes),
    ] = None,
    seed: Annotated[
        list[int] | None, typer.Option(min=0, max=2**31 - 1, help="Default 777; repeatable.")
    ] = None,
    epochs: Annotated[
        int, typer.Option(min=1, max=100_000, help="The benchmark's are 200 or 12.")
    ] = 200,
    channels: Annotated[int, typer.Option(min=1, max=1024, help="Width of the first stage.")] = 16,
    cells_per_stage: Annotated[int, typer.Option(min=1, max=100, help="Cells in each stage.")] = 5,
    batch_size: Annotated[int, typer.Option(min=1, max=65536, help="Images in a batch.")] = 256,
    precision: Annotated[
        Literal["float32", "bf16"], typer.Option(help="Of arithmetic.")
    ] = "float32",
    augment: Annotated[bool, typer.Option(help="Random crops and flips.")] = True,
    network: Annotated[
        Literal["rebench", "xautodl"], typer.Option(help="Ours, or the benchmark's own code.")
    ] = "rebench",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    stack: Annotated[str, typer.Option(help="Trials in one network: auto or a number.")] = "auto",
    compile_net: Annotated[bool, typer.Option("--compile", help="Use torch.compile.")] = False,
    cuda_graphs: Annotated[bool, typer.Option("--cuda-graphs", help="Replay steps.")] = False,
    checkpoint_dir: Annotated[Path | None, typer.Option(help="Where to resume from.")] = None,
    data_root: Annotated[Path | None, typer.Option(help="Default: REBENCH_DATA.")] = None,
    as_json: AsJson = False,
) -> None:
    """Train one trial, or several recipes and seeds of one cell, and print the records.

    With --checkpoint-dir, Ctrl-C stops after the step that is under way, and the same command
    goes on from there.
    """
    from cells import Cell
    from rebench.recipes import parse_recipe
    from rebench.sweep import Protocol, Skeleton, Trial
    from rebench.train import Speed, train

    protocol = Protocol(batch_size=batch_size, precision=precision, augment=augment)
    found = Cell.find(cell)
    trials = [
        Trial(
            cell=found,
            dataset=dataset,
            split=split,
            recipe=parse_recipe(rule).spec,
            seed=value,
            epochs=epochs,
            skeleton=Skeleton(channels=channels, cells_per_stage=cells_per_stage),
            protocol=protocol,
            network=network,
        )
        for rule in recipe or ["nb201"]
        for value in seed or [777]
    ]
    with _stop_on_signal() as stop, _shown(trials) as show:
        records = train(
            trials,
            device=_device(device),
            checkpoint_dir=checkpoint_dir,
            data_root=data_root,
            stack=_stack(stack),
            speed=Speed(compile=compile_net, cuda_graphs=cuda_graphs),
            on_epoch=show,
            stop=stop,
        )
    if as_json:
        for record in records:
            typer.echo(record.to_line())
        return
    for record in records:
        _print_record(record)


def _device(name: str) -> str:
    import torch

    if name != "auto":
        return name
    return "cuda" if torch.cuda.is_available() else "cpu"


def _stack(text: str) -> Literal["auto"] | int:
    if text == "auto":
        return "auto"
    if not text.isascii() or not text.isdigit():
        raise InputError(f"--stack must be auto or a whole number, got {text!r}")
    return int(text)


@contextlib.contextmanager
def _stop_on_signal() -> Iterator[Callable[[], bool]]:
    """Turn the first SIGINT or SIGTERM into a request; the second acts as usual."""
    asked: list[int] = []

    def ask(number: int, _: FrameType | None) -> None:
        asked.append(number)
        signal.signal(number, before[signal.Signals(number)])

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _shown(trials: list[Trial]) -> Iterator[Callable[[EpochReport], None]]:
    """Show a bar for each trial on a terminal, and plain lines in a log."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    columns = ["{task.fields[shown]}", "{task.fields[rate]:.0f} images/s"]
    with progress(columns) as bars:
        tasks: dict[str, TaskID] = {
            trial.trial_id: bars.add_task(
                trial.describe(), total=trial.epochs, shown="", rate=float("nan")
            )
            for trial in trials
        }

        def show(report: EpochReport) -> None:
            if bars.disable:
                typer.echo(report.line, err=True)
                return
            accuracy, loss = report.metrics["train"]
            bars.update(
                tasks[report.trial.trial_id],
                completed=report.epoch,
                shown=f"loss {loss:.3f}  {accuracy:.1f} %",
                rate=report.images_per_s,
            )

        yield show


def _print_record(record: Record) -> None:
    rows: list[dict[str, Value]] = []
    for split, curve in record.outcome.curves.items():
        best = record.best_epoch(split)
        rows.append(
            {
                "split": split,
                "accuracy": curve.accuracy[-1],
                "loss": curve.loss[-1],
                "best_accuracy": curve.accuracy[best - 1],
                "in_epoch": best,
            }
        )
    print_rows(rows, as_json=False, title=f"{record.trial.describe()}  {record.trial_id}")
    outcome, cost = record.outcome, record.cost
    ended = "done" if outcome.diverged_epoch is None else f"diverged in {outcome.diverged_epoch}"
    typer.echo(
        f"{ended}; learning rate {outcome.learning_rate:.6g}; {cost.seconds:.0f} s, "
        f"{cost.images_per_s:.0f} images/s in a stack of {cost.stack} on "
        f"{record.provenance.device}"
    )
