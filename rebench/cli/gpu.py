"""``rebench gpu``: whether this GPU computes what it should, how fast, and what it wants."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Check a GPU: right, fast, and how to use it.")


@app.callback()
def _group() -> None:
    pass


@app.command("check")
def check_command(
    minutes: Annotated[float, typer.Option(min=0.0, help="When it should have ended.")] = 9.0,
    out: Annotated[Path, typer.Option(help="Folder of the results; the same one goes on.")] = Path(
        "gpu-check"
    ),
    device: Annotated[str, typer.Option(help="cuda, cuda:N or cpu.")] = "cuda",
    small: Annotated[bool, typer.Option("--small", help="Tiny: see that all of it runs.")] = False,
) -> None:
    """Compare the device with the CPU, time every way of running, and say which to use.

    Each part leaves a JSON file in --out as it ends, and `tuned.toml` holds the lines of a sweep's
    file that this GPU wants. Where packages of the command line are missing, `python -m
    rebench.gpu` is the same check.
    """
    from rebench.gpu import check
    from rebench.gpu.report_text import report_text

    report = check(
        out,
        device=device,
        minutes=minutes,
        small=small,
        on_part=lambda name, state: typer.echo(f"{name}: {state}", err=True),
    )
    typer.echo(report_text(report))
    if not report.passed:
        raise typer.Exit(1)
