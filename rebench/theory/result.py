"""What the measurement of a law leaves: tidy tables, and verdicts that stand beside the paper."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path

import pandas as pd

from rebench.errors import MissingDataError, StoreError
from rebench.intervals import Estimate

__all__ = [
    "LawResult",
    "Verdict",
    "load_results",
    "load_verdicts",
    "median_and_range",
    "verdict_table",
]

_VERDICTS = "verdicts"
_COLUMNS = ["law", "quantity", "paper", "ours", "low", "high", "settings", "verdict"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One line of the report: a paper's value, ours with its interval, and what follows."""

    law: str
    quantity: str
    paper: float | None
    ours: Estimate
    settings: str
    verdict: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LawResult:
    """The tables of one law by name, and its verdicts."""

    law: str
    tables: Mapping[str, pd.DataFrame]
    verdicts: tuple[Verdict, ...]

    def save(self, folder: Path) -> list[Path]:
        """Write every table and the verdicts as CSV; return the paths."""
        folder.mkdir(parents=True, exist_ok=True)
        frames = {**self.tables, _VERDICTS: verdict_table(self.verdicts)}
        paths = []
        for name, frame in frames.items():
            path = folder / f"{self.law}-{name}.csv"
            frame.to_csv(path, index=False)
            paths.append(path)
        return paths


def median_and_range(values: pd.Series[float]) -> Estimate:
    """Return the median of values, with the smallest and the largest for its interval."""
    return Estimate(float(values.median()), float(values.min()), float(values.max()))


def verdict_table(verdicts: Iterable[Verdict]) -> pd.DataFrame:
    """Return verdicts as a frame: law, quantity, paper, ours, low, high, settings, verdict."""
    rows = [
        (v.law, v.quantity, v.paper, v.ours.value, v.ours.low, v.ours.high, v.settings, v.verdict)
        for v in verdicts
    ]
    frame: pd.DataFrame = pd.DataFrame(rows, columns=_COLUMNS)
    frame["paper"] = pd.to_numeric(frame["paper"])
    return frame


def load_verdicts(folder: Path) -> pd.DataFrame:
    """Return the verdicts of every law saved under `folder`; `file` begins its files' names."""
    tables = [_table(folder, law, _VERDICTS).assign(file=law) for law in _saved_laws(folder)]
    return pd.concat(tables, ignore_index=True)


def load_results(folder: Path) -> list[LawResult]:
    """Return every law saved under `folder`, as `LawResult.save` wrote it."""
    results = []
    for law in _saved_laws(folder):
        names = [path.stem.removeprefix(f"{law}-") for path in sorted(folder.glob(f"{law}-*.csv"))]
        verdicts = tuple(
            Verdict(
                law=str(row["law"]),
                quantity=str(row["quantity"]),
                paper=None if pd.isna(row["paper"]) else float(row["paper"]),
                ours=Estimate(float(row["ours"]), float(row["low"]), float(row["high"])),
                settings=str(row["settings"]),
                verdict=str(row["verdict"]),
            )
            for row in _table(folder, law, _VERDICTS).to_dict("records")
        )
        tables = {name: _table(folder, law, name) for name in names if name != _VERDICTS}
        results.append(LawResult(law=law, tables=tables, verdicts=verdicts))
    return results


def _saved_laws(folder: Path) -> list[str]:
    ending = f"-{_VERDICTS}.csv"
    found = sorted(path.name.removesuffix(ending) for path in folder.glob(f"*{ending}"))
    if not found:
        raise MissingDataError(
            f"no saved verdicts in {folder}; run rebench theory depth --out {folder} first"
        )
    return found


def _table(folder: Path, law: str, name: str) -> pd.DataFrame:
    path = folder / f"{law}-{name}.csv"
    mend = f"rebench theory {law} --out {folder} writes it again"
    try:
        frame = pd.read_csv(path)
    except ValueError as error:
        raise StoreError(f"{path} is damaged, no table can be read; {mend}") from error
    lacks = sorted(set(_COLUMNS) - set(frame)) if name == _VERDICTS else []
    if lacks:
        raise StoreError(f"{path} is damaged, it lacks {', '.join(lacks)}; {mend}")
    return frame
