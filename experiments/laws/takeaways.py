"""What a busy reader takes away from the measured laws: one sentence each, from their tables."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import pandas as pd

from rebench.intervals import Estimate

Row: TypeAlias = Mapping[Hashable, Any]


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
    said = [text for sentence in _SENTENCES if (text := sentence(measured))]
    return [*said, *_headlines(measured)]


def _scores(path: Path) -> dict[str, dict[str, Row]]:
    """Scores by experiment and predictor; of two criteria, those of the first."""
    scores: dict[str, dict[str, Row]] = {}
    if path.is_file():
        for row in pd.read_csv(path).to_dict("records"):
            scores.setdefault(str(row["experiment"]), {}).setdefault(str(row["predictor"]), row)
    return scores


def _cells(measured: _Measured) -> str | None:
    if "cells" not in measured.scores:
        return None
    rules = dict(measured.scores["cells"])
    constant = rules.pop("constant")["factor"]
    rules.pop("perfect rule", None)
    better = [name for name, row in rules.items() if row["factor_high"] < constant]
    found = f"{' and '.join(better)} did" if better else "no rule for the rate is shown to do"
    best = min(rules, key=lambda name: float(rules[name]["factor"]))
    return (
        f"NAS-Bench-201 cells with batch normalisation: {found} better than one rate for all. The"
        f" best of {len(rules)} predictors, {best}, is off by a factor of"
        f" {_estimate(rules[best], 'factor')}, a constant by {constant:.2f}. {_correlated(rules)}"
    )


def _correlated(rules: Mapping[str, Row]) -> str:
    """Say how equation 8 correlates with cells' best rates, and what does so most."""
    known = {name: float(row["r"]) for name, row in rules.items() if pd.notna(row["r"])}
    most = max(known, key=known.__getitem__, default="eq. 8, L+1")
    said = f"Equation 8 has r {_estimate(rules['eq. 8, L+1'], 'r')} with the best rates"
    return f"{said}." if most == "eq. 8, L+1" else f"{said}, {most} {_estimate(rules[most], 'r')}."


def _released(measured: _Measured) -> str | None:
    if "graphs" not in measured.released:
        return None
    scores = measured.released["graphs"]
    rows = measured.rows("r of equation 8, depths as the code counts them: MLP graphs with skips")
    return (
        f"MLP graphs with skips in the released code's network: equation 8 has r"
        f" {_estimate(scores['eq. 8, L'], 'r')} with depths as the paper writes them,"
        f" {_estimate(scores['eq. 8, L+3'], 'r')} as its code counts them, and"
        f" {rows[0]['paper']:g} in the paper; the number of paths alone has"
        f" {_estimate(scores['path count'], 'r')}. {_transferred(measured)}"
    )


def _transferred(measured: _Measured) -> str:
    """Say how the base's rate transfers, by what the released code computes from it."""
    said = []
    for name, title in (("graphs", "graphs"), ("chains", "chains"), ("cnn", "CNNs")):
        if name in measured.released:
            scores = measured.released[name]
            rule = _estimate(scores["eq. 8, L+3, base counted 3"], "off")
            constant = _estimate(scores["constant"], "off")
            said.append(f"{rule} in {title} (the base's rate for all: {constant})")
    return (
        "From the rate of the base graph, equation 8 is off by a factor of " + ", ".join(said) + "."
    )


def _calibrated(measured: _Measured) -> str | None:
    better, worse = [], []
    for name, scores in measured.scores.items():
        rule = scores["eq. 8, L+1" if name == "cells" else "eq. 8, L"]
        constant = scores["constant"]["factor"]
        if rule["factor_high"] < constant:
            better.append(name)
        if rule["factor_low"] > constant:
            worse.append(name)
    if not measured.scores:
        return None
    return (
        "A high r is no calibration: set as a rate, equation 8 is better than a constant in"
        f" {len(better)} of {len(measured.scores)} experiments ({', '.join(better) or 'none'}) and"
        f" worse in {len(worse)} ({', '.join(worse) or 'none'})."
    )


def _recursion(measured: _Measured) -> str | None:
    gains = {name: scores["exact recursion"] for name, scores in measured.scores.items()}
    above = [name for name, row in gains.items() if row["gain_low"] > 0]
    below = [name for name, row in gains.items() if row["gain_high"] < 0]
    if not gains:
        return None
    return (
        f"The exact recursion for a graph correlates better than equation 8 in {len(above)} of"
        f" {len(gains)} experiments ({', '.join(above) or 'none'}), worse in {len(below)}."
    )


def _headlines(measured: _Measured) -> Iterator[str]:
    """Verdicts that say enough by themselves: of several alike the last, of the widest networks."""
    for beginning in _HEADLINES:
        for row in measured.rows(beginning)[-1:]:
            paper: str = f" (the paper: {row['paper']:g})" if pd.notna(row["paper"]) else ""
            yield (
                f"{_capital(row['quantity'])}: {row['ours']:.3g} [{row['low']:.3g},"
                f" {row['high']:.3g}]{paper}; {row['verdict']}."
            )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _am_mup(measured: _Measured) -> str | None:
    at_init = measured.rows("exponent of the rate in minimal depth L")
    trained = measured.rows("exponent of the best one-epoch rate in depth, trained")
    if not (at_init and trained):
        return None
    return (
        f"AM-muP's exponent {at_init[0]['paper']:g} lies in the interval of {_agreeing(at_init)} at"
        f" init and {_agreeing(trained)} trained."
    )


def _agreeing(rows: Sequence[Row]) -> str:
    inside = sum(row["low"] <= row["paper"] <= row["high"] for row in rows)
    return f"{inside} of {len(rows)} families"


def _estimate(row: Row, name: str) -> Estimate:
    return Estimate(row[name], row[f"{name}_low"], row[f"{name}_high"])


_SENTENCES: Final[Sequence[Callable[[_Measured], str | None]]] = (
    _cells,
    _released,
    _calibrated,
    _recursion,
    _am_mup,
)
# How the quantities of these begin.
_HEADLINES: Final = (
    "norm of pre-activations under equation 4",
    "exponent of the rate in kernel side, 2-D",
    "exponent of the maximal learning rate in L, width",
    "E dz^2 over eta^2 L^3 / 3 at fixed L/n",
    "aligned update / (S sum C) at cuts",
    "exponent of the alignment in depth, MLP",
)
