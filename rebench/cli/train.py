"""``rebench train``: train trials of one cell in the foreground and print their records."""

from __future__ import annotations

import contextlib
import functools
import logging
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from rebench.cli import options
from rebench.cli.output import print_rows, say
from rebench.errors import InputError

if TYPE_CHECKING:
    from rebench.runs import Record

__all__ = ["train"]


def train(
    cell: options.CellName,
    dataset: Annotated[str, typer.Option(help="Name in `rebench data list`.")] = "cifar10",
    split: Annotated[
        str,
        typer.Option(
            help="full: train on all training images. valid: train on half of them; the other half "
            "is for validation (for cifar10, the benchmark calls this cifar10-valid). halved "
            "(cifar100 and ImageNet16-120): as full, but half of the test set is for validation."
        ),
    ] = "full",
    recipe: Annotated[
        list[str] | None,
        typer.Option(help="Recipe, as in `rebench recipe list`; repeatable (default: nb201)."),
    ] = None,
    seed: Annotated[
        list[int] | None,
        typer.Option(min=0, max=2**31 - 1, help="Seed; repeatable (default: 777)."),
    ] = None,
    epochs: Annotated[
        int, typer.Option(min=1, max=100_000, help="Number of epochs; the benchmark has 200 or 12.")
    ] = 200,
    assignments: options.SomeSettings = None,
    device: Annotated[str, typer.Option(help="Device: auto, cpu, cuda or cuda:N.")] = "auto",
    checkpoint_dir: Annotated[Path | None, typer.Option(help="Folder for checkpoints.")] = None,
    keep: Annotated[
        Path | None, typer.Option(help="Folder in which the trained networks are stored.")
    ] = None,
    longer: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Train stored networks for N more epochs. --keep names their folder, and --epochs "
            "the number of epochs that they are already trained for.",
        ),
    ] = None,
    data_root: options.DataRoot = None,
    space: Annotated[str, typer.Option(help="Search space of the cell.")] = "nb201",
    as_json: options.AsJson = False,
) -> None:
    """Train one cell, with one or several recipes and seeds, and print the results.

    With --checkpoint-dir, Ctrl-C stops after the current step, and the same command resumes.
    --longer continues networks that an earlier command has stored with --keep. The learning-rate
    schedule starts again, and the momentum starts at 0. To continue with the stored momentum, give
    --set train.keep=state to the earlier command, and --set start.what=state to the command with
    --longer.

    Example: rebench train 11 --dataset digits --set skeleton.channels=4
    """
    from rebench.launch.devices import find_device, set_threads
    from rebench.recipes import make_recipe
    from rebench.spaces import space_of
    from rebench.train import Speed, save_network
    from rebench.train import train as train_trials

    if longer and keep is None:
        raise InputError("--longer needs the folder of the stored networks: add --keep FOLDER")
    chosen = space_of(space).item_of(cell)
    sweep = options.sweep_of(
        assignments,
        space=space,
        cells={"indices": [chosen.index]},
        datasets=[dataset],
        split=split,
        recipes=recipe or ["nb201"],
        seeds=seed or [777],
        epochs=epochs + (longer or 0),
        start={"run": keep, "epochs": epochs} if longer else None,
        train={"keep": "weights" if keep else "nothing"},
        slurm={"device": device},
    )
    # Specs of the built recipes, so that the trial's id does not depend on a recipe's spelling.
    rules = [make_recipe(rule).spec for rule in sweep.recipes]
    families = sweep.model_copy(update={"recipes": rules}).families([chosen])
    trials = [trial for family in families for trial in family]
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    set_threads(sweep.slurm)
    with _stop_on_signal() as stop:
        records = train_trials(
            trials,
            device=find_device(sweep.slurm),
            checkpoint_dir=checkpoint_dir,
            data_root=data_root,
            stack=sweep.stack,
            speed=Speed(compile=sweep.slurm.compile_net, cuda_graphs=sweep.slurm.cuda_graphs),
            on_epoch=lambda report: typer.echo(report.line, err=True),
            stop=stop,
            on_network=functools.partial(save_network, keep, sweep.train) if keep else None,
            start_from=keep,
        )
    for record in records:
        if as_json:
            typer.echo(record.model_dump_json(by_alias=True))
        else:
            _print_record(record)


@contextlib.contextmanager
def _stop_on_signal() -> Iterator[Callable[[], bool]]:
    """Turn the first SIGINT or SIGTERM into a request to stop; the second acts as usual."""
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


def _print_record(record: Record) -> None:
    rows = [
        {"split": split, "accuracy": curve.accuracy[-1], "loss": curve.loss[-1]}
        for split, curve in record.outcome.curves.items()
    ]
    print_rows(rows, as_json=False, title=f"{record.trial.describe()}  {record.trial_id}")
    outcome, cost = record.outcome, record.cost
    ended = (
        "done" if outcome.diverged_epoch is None else f"diverged in epoch {outcome.diverged_epoch}"
    )
    say(
        f"{ended}; learning rate {outcome.learning_rate:.6g}; {cost.seconds:.0f} s, "
        f"{cost.images_per_s:.0f} images/s in a stack of {cost.stack} on "
        f"{record.provenance.device}"
    )
