"""``rebench rank``: how far recipes move the ranking, beside what seed noise alone would do."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import typer

from rebench.analysis.choices import Choices
from rebench.cli.options import takes
from rebench.cli.output import LEVEL, AsJson, Value, print_rows, say
from rebench.cli.study_options import Run, choices

if TYPE_CHECKING:
    from rebench.analysis import Reranking

__all__ = ["app"]

app = typer.Typer()


@app.command()
@takes(chosen=choices)
def rank(
    run: Run,
    chosen: Choices,
    as_json: AsJson = False,
) -> None:
    """Print Kendall's tau at each top K %, its interval, and the tau of seed noise alone."""
    from rebench.analysis import study, verdict

    found = study(run, chosen)
    if as_json:
        rows = [
            {"dataset": one.dataset, "recipe": one.after.name, **row}
            | {"against": one.before.name, "differs_by": one.contrast}
            | {"p_adjusted": one.p_adjusted, "comparisons": one.comparisons}
            | {"n_classes": int(one.improvement["n_classes"])}
            for one in found.rerankings
            for row in _rows(one)
        ]
        print_rows(rows, as_json=True)
        return
    for one in found.rerankings:
        print_rows(_shown(one), as_json=False, title=one.name)
        say(verdict(one) + "\n", style="green" if one.p_judged <= LEVEL else "")
    for note in dict.fromkeys([*found.notes, *(n for one in found.rerankings for n in one.notes)]):
        say(note, err=True)


def _rows(found: Reranking) -> list[dict[str, Value]]:
    columns = ["top_percent", "n_cells", "tau", "tau_low", "tau_high", "spearman", "weighted_tau"]
    columns += ["null_tau", "null_low", "null_high", "effect", "p_value", "p_family"]
    shown = found.curve[[name for name in columns if name in found.curve]]
    return [
        {str(name): _value(value) for name, value in row.items()}
        for row in shown.to_dict(orient="records")
    ]


def _shown(found: Reranking) -> list[dict[str, Value]]:
    """Return the curve in few columns: intervals beside their values."""
    rows = []
    for row in _rows(found):
        line: dict[str, Value] = {"top %": row["top_percent"], "cells": row["n_cells"]}
        if row["tau"] is None:
            line |= {"tau": "too few", "95 %": None}
        else:
            line |= {"tau": f"{row['tau']:.3f}", "95 %": _span(row["tau_low"], row["tau_high"])}
        if "null_tau" in row:
            known = row["null_tau"] is not None
            line |= {
                "noise": f"{row['null_tau']:.3f}" if known else None,
                "its 95 %": _span(row["null_low"], row["null_high"]),
                "p": row["p_value"],
                "p, all K": row["p_family"],
            }
        rows.append(line)
    return rows


def _span(low: Value, high: Value) -> str | None:
    return None if low is None or high is None else f"{low:.2f} to {high:.2f}"


def _value(value: float) -> Value:
    if not math.isfinite(value):
        return None  # too few cells
    return int(value) if float(value).is_integer() and abs(value) > 1 else round(float(value), 4)
