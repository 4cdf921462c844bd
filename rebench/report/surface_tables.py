"""What was asked of a learning-rate surface, as tables whose numbers are as they are shown."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import pandas as pd

from rebench.report.surface import SurfaceAnswers

__all__ = ["Row", "records", "surface_tables", "within"]

Row: TypeAlias = Mapping[str, Any]
Columns: TypeAlias = Mapping[str, tuple[Callable[[Row, str], Any], str]]


def _plain(row: Row, field: str) -> Any:
    return row[field]


def _exact(row: Row, field: str) -> str:
    return f"{row[field]:g}"


def _short(row: Row, field: str) -> str:
    return f"{row[field]:.3g}"


def _known(row: Row, field: str) -> str | None:
    return _short(row, field) if math.isfinite(row[field]) else None


def _share(row: Row, field: str) -> str:
    return f"{row[field]:.0%}"


def _number(row: Row, field: str) -> str | None:
    value = row[field]
    return f"{round(value, 2) + 0.0:.2f}" if math.isfinite(value) else None


def _span(row: Row, field: str) -> str | None:
    low, high = _number(row, f"{field}_low"), _number(row, f"{field}_high")
    return None if low is None or high is None else f"{low} to {high}"


def within(row: Row, field: str) -> str:
    """Return a field's interval as it stands in a sentence; nothing where there is none."""
    span = _span(row, field)
    return f" ({span})" if span else ""


# What each table shows: header -> (how a value is shown, the frame's column).
_RATES: Final[Columns] = {
    "rate": (_exact, "rate"),
    "mean accuracy": (_number, "accuracy"),
    "best for cells": (_plain, "best_for"),
    "tau between seeds": (_number, "tau"),
    "sd of a run": (_number, "seed_sd"),
}
_SINGLE_RATES: Final[Columns] = {
    "rate": (_exact, "rate"),
    "mean accuracy": (_number, "accuracy"),
    "tau": (_number, "tau"),
    "seeds": (_number, "noise"),
    "less": (_number, "reranked"),
    "95 %": (_span, "reranked"),
}
_GAINS: Final[Columns] = {
    "choice": (_plain, "of"),
    "over": (_plain, "over"),
    "top %": (_exact, "top_percent"),
    "cells": (_plain, "n_cells"),
    "gain": (_number, "gain"),
    "95 %": (_span, "gain"),
    "at most": (_number, "in_sample"),
}
_RERANKING: Final[Columns] = {
    "ranking": (_plain, "before"),
    "against": (_plain, "after"),
    "top %": (_exact, "top_percent"),
    "tau": (_number, "tau"),
    "seeds": (_number, "noise"),
    "less": (_number, "reranked"),
    "95 %": (_span, "reranked"),
}
_REGRETS: Final[Columns] = {
    "rule": (_plain, "rule"),
    "base": (_plain, "base"),
    "mean rate": (_short, "mean_rate"),
    "regret": (_number, "regret"),
    "95 %": (_span, "regret"),
    "outside": (_share, "outside"),
}
_SCALED: Final[Columns] = {
    "rule": (_plain, "rule"),
    "base": (_plain, "base"),
    "over best": (_number, "over_constant"),
    "95 %": (_span, "over_constant"),
    "over mean": (_number, "over_same_mean"),
    "its 95 %": (_span, "over_same_mean"),
}
_PREDICTIONS: Final[Columns] = {
    "rule": (_plain, "rule"),
    "slope": (_number, "slope"),
    "95 %": (_span, "slope"),
    "octaves off": (_number, "octaves"),
    "explained": (_number, "explained"),
    "its 95 %": (_span, "explained"),
}
_PICKS: Final[Columns] = {
    "rate": (_plain, "rate_of"),
    "cell": (_plain, "cell"),
    "at rate": (_short, "rate"),
    "accuracy": (_number, "accuracy"),
    "different picks": (_plain, "cells"),
}
_FITS: Final[Columns] = {
    "predictors": (_plain, "predictors"),
    "octaves off": (_number, "octaves"),
    "constant": (_number, "octaves_constant"),
    "gain over constant": (_number, "gain"),
    "95 %": (_span, "gain"),
}
_DIRECT: Final[Columns] = {
    "recipe": (_plain, "recipe"),
    "cells": (_plain, "n_cells"),
    "trained": (_number, "trained"),
    "surface": (_number, "interpolated"),
    "apart": (_number, "difference"),
    "95 %": (_span, "difference"),
    "gain": (_number, "gain"),
    "its 95 %": (_span, "gain"),
}
_DIRECT_RERANKING: Final[Columns] = {
    "recipe": (_plain, "recipe"),
    "rate": (_known, "effective_rate"),
    "top %": (_exact, "top_percent"),
    "cells": (_plain, "n_cells"),
    "tau": (_number, "tau"),
    "seeds": (_number, "noise"),
    "less": (_number, "reranked"),
    "95 %": (_span, "reranked"),
}


def surface_tables(answers: SurfaceAnswers) -> dict[str, pd.DataFrame]:
    """Return what was answered by its title, numbers as they are shown."""
    scaled = answers.regrets
    if len(scaled):
        scaled = scaled[scaled["rule"] != "constant"]
    spread = "" if answers.predictions.empty else answers.predictions["octaves_constant"].iloc[0]
    constant = f" (one rate for all: {spread:.2f} octaves off)" if spread else ""
    asked = (
        ("The surface", answers.rates, _RATES),
        ("What the choice of the rate gains (percentage points)", answers.gains, _GAINS),
        (
            "How far another rate for all re-ranks cells: tau, and tau of seeds alone",
            answers.single_rates,
            _SINGLE_RATES,
        ),
        (
            "How far the best rates re-rank cells: tau, and tau of seeds alone",
            answers.reranking,
            _RERANKING,
        ),
        ("Rules beside the cells' own best rates: regret", answers.regrets, _REGRETS),
        (
            "Scaled, or merely larger? Over the best constant, and that of equal mean",
            scaled,
            _SCALED,
        ),
        (f"Best rates as rules predict them{constant}", answers.predictions, _PREDICTIONS),
        ("Which cell a perfect search would pick", answers.picks, _PICKS),
        ("Best rates predicted for cells that the fit never saw", answers.fits, _FITS),
        (
            "Recipes trained directly, beside the surface; gain over the benchmark's rate",
            answers.direct,
            _DIRECT,
        ),
        (
            "How far they re-rank cells: effective rate, tau, and tau of seeds alone",
            answers.direct_reranking,
            _DIRECT_RERANKING,
        ),
    )
    return {
        title: pd.DataFrame(
            [
                {header: shown(row, field) for header, (shown, field) in columns.items()}
                for row in records(frame)
            ],
            dtype=object,
        )
        for title, frame, columns in asked
        if len(frame)
    }


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a frame's rows by the names of their columns."""
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]
