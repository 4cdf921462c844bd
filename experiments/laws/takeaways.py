"""What a busy reader takes away from the measured laws: one sentence each, from their tables."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import pandas as pd

from experiments.laws.result import read_toml, row_estimate

Row: TypeAlias = Mapping[Hashable, Any]
# What a sentence of `page.toml` is filled in with.
Values: TypeAlias = Mapping[str, object]


class _Measured(NamedTuple):
    """Verdicts in rows; scores of predictors by experiment and predictor, where there are any."""

    verdicts: Sequence[Row]
    scores: Mapping[str, Mapping[str, Row]]
    released: Mapping[str, Mapping[str, Row]]  # in the released network, by the epoch's average

    def rows(self, beginning: str) -> list[Row]:
        """The verdicts on quantities of this beginning."""
        return [row for row in self.verdicts if str(row["quantity"]).startswith(beginning)]


def takeaways(folder: Path, verdicts: pd.DataFrame) -> list[str]:
    """The sentences that the laws measured into a folder give, the hardest first."""
    dag, cells, released = (
        _scores(folder / f"{name}.csv")
        for name in ("dag-predictors", "cells-predictors", "released-scores")
    )
    # More cells, on CIFAR-10, where they were measured: their name is that of the few.
    measured = _Measured(verdicts.to_dict("records"), dag | cells, released)
    sentences = read_toml("page")["takeaways"]
    said = [
        sentences[name].format_map(values)
        for name, values_of in _VALUES.items()
        if (values := values_of(measured))
    ]
    # Of several verdicts alike the last, of the widest networks.
    headlines = [
        _headline(row)
        for beginning in read_toml("page")["headlines"]["quantities"]
        for row in measured.rows(beginning)[-1:]
    ]
    return said + headlines


def _scores(path: Path) -> dict[str, dict[str, Row]]:
    """Scores by experiment and predictor; of two criteria, those of the first."""
    scores: dict[str, dict[str, Row]] = {}
    if path.is_file():
        for row in pd.read_csv(path).to_dict("records"):
            scores.setdefault(str(row["experiment"]), {}).setdefault(str(row["predictor"]), row)
    return scores


def _cells(measured: _Measured) -> Values | None:
    if "cells" not in measured.scores:
        return None
    rules = dict(measured.scores["cells"])
    constant = rules.pop("constant")["factor"]
    rules.pop("perfect rule", None)
    better = [name for name, row in rules.items() if row["factor_high"] < constant]
    best = min(rules, key=lambda name: float(rules[name]["factor"]))
    known = {name: float(row["r"]) for name, row in rules.items() if pd.notna(row["r"])}
    most = max(known, key=known.__getitem__, default="eq. 8, L+1")
    return {
        "found": f"{' and '.join(better)} did" if better else "no rule for the rate is shown to do",
        "count": len(rules),
        "best": best,
        "off": row_estimate(rules[best], "factor"),
        "constant": constant,
        "r": row_estimate(rules["eq. 8, L+1"], "r"),
        "most": "" if most == "eq. 8, L+1" else f", {most} {row_estimate(rules[most], 'r')}",
    }


def _released(measured: _Measured) -> Values | None:
    if "graphs" not in measured.released:
        return None
    scores = measured.released["graphs"]
    rows = measured.rows("r of equation 8, depths as the code counts them: MLP graphs with skips")
    transferred = []  # by what the released code computes from the base's rate
    for name, title in (("graphs", "graphs"), ("chains", "chains"), ("cnn", "CNNs")):
        if name in measured.released:
            rule, constant = (
                row_estimate(measured.released[name][predictor], "off")
                for predictor in ("eq. 8, L+3, base counted 3", "constant")
            )
            transferred.append(f"{rule} in {title} (the base's rate for all: {constant})")
    return {
        "as_written": row_estimate(scores["eq. 8, L"], "r"),
        "as_counted": row_estimate(scores["eq. 8, L+3"], "r"),
        "paper": rows[0]["paper"],
        "paths": row_estimate(scores["path count"], "r"),
        "transferred": ", ".join(transferred),
    }


def _calibrated(measured: _Measured) -> Values | None:
    better, worse = [], []
    for name, scores in measured.scores.items():
        rule = scores["eq. 8, L+1" if name == "cells" else "eq. 8, L"]
        constant = scores["constant"]["factor"]
        if rule["factor_high"] < constant:
            better.append(name)
        if rule["factor_low"] > constant:
            worse.append(name)
    return measured.scores and {
        "better": len(better),
        "better_names": ", ".join(better) or "none",
        "count": len(measured.scores),
        "worse": len(worse),
        "worse_names": ", ".join(worse) or "none",
    }


def _recursion(measured: _Measured) -> Values | None:
    gains = {name: scores["exact recursion"] for name, scores in measured.scores.items()}
    above = [name for name, row in gains.items() if row["gain_low"] > 0]
    return gains and {
        "above": len(above),
        "above_names": ", ".join(above) or "none",
        "count": len(gains),
        "below": sum(row["gain_high"] < 0 for row in gains.values()),
    }


def _am_mup(measured: _Measured) -> Values | None:
    at_init = measured.rows("exponent of the rate in minimal depth L")
    trained = measured.rows("exponent of the best one-epoch rate in depth, trained")
    if not (at_init and trained):
        return None
    return {
        "paper": at_init[0]["paper"],
        "at_init": _agreeing(at_init),
        "trained": _agreeing(trained),
    }


def _agreeing(rows: Sequence[Row]) -> str:
    inside = sum(row["low"] <= row["paper"] <= row["high"] for row in rows)
    return f"{inside} of {len(rows)} families"


def _headline(row: Row) -> str:
    quantity = str(row["quantity"])
    paper: str = f" (the paper: {row['paper']:g})" if pd.notna(row["paper"]) else ""
    return (
        f"{quantity[:1].upper()}{quantity[1:]}: {row['ours']:.3g} [{row['low']:.3g},"
        f" {row['high']:.3g}]{paper}; {row['verdict']}."
    )


_VALUES: Final[Mapping[str, Callable[[_Measured], Values | None]]] = {
    "cells": _cells,
    "released": _released,
    "calibrated": _calibrated,
    "recursion": _recursion,
    "am_mup": _am_mup,
}
