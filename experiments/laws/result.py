"""Results of the measurement of a law: tidy tables, and verdicts compared with the paper."""

from __future__ import annotations

import dataclasses
import functools
import math
import sys
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pandas as pd

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]  # Python 3.10 only

from rebench.errors import MissingDataError, StoreError
from rebench.intervals import Estimate

_VERDICTS = "verdicts"
# First part of the names of older files, and the current name of their law.
_RENAMED = {"speed": "fsc"}


class Verdict(NamedTuple):
    """Line of the report: a paper's value, ours with its interval, and the verdict."""

    quantity: str
    paper: float  # nan if the paper has no value
    ours: float
    low: float
    high: float
    settings: str
    verdict: str


# Result of a law's module: its tables by name, and its verdicts.
Measured: TypeAlias = tuple[Mapping[str, pd.DataFrame], Sequence[Verdict]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LawResult:
    """Tables of one law by name, and its verdicts; names of its files begin with `law`."""

    law: str
    title: str
    tables: Mapping[str, pd.DataFrame]
    verdicts: Sequence[Verdict]

    def verdict_table(self) -> pd.DataFrame:
        """Return the verdicts as a frame; the first column is the law's title."""
        frame: pd.DataFrame = pd.DataFrame(self.verdicts, columns=Verdict._fields)
        frame.insert(0, "law", self.title)
        return frame

    def save(self, folder: Path) -> list[Path]:
        """Write all tables and the verdicts as CSV; return the paths."""
        folder.mkdir(parents=True, exist_ok=True)
        paths = []
        for name, frame in {**self.tables, _VERDICTS: self.verdict_table()}.items():
            paths.append(folder / f"{self.law}-{name}.csv")
            frame.to_csv(paths[-1], index=False)
        return paths


@functools.cache
def read_toml(name: str) -> dict[str, Any]:
    """Read a data file of the laws."""
    return tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text("utf-8"))


def text(name: str, part: str, /, **values: object) -> str:
    """Return a text of `verdicts.toml`, by LAW.NAME and its part, with values inserted."""
    law, _, of = name.partition(".")
    return str(read_toml("verdicts")[law][of][part]).format_map(values)


def verdict(name: str, ours: Estimate, paper: float | None = None, /, **values: object) -> Verdict:
    """Return the verdict LAW.NAME of `verdicts.toml`; `paper` is used if the file has no value."""
    law, _, of = name.partition(".")
    known = read_toml("verdicts")[law][of].get("paper", paper)
    return Verdict(
        text(name, "quantity", **values),
        math.nan if known is None else known,
        *ours,
        text(name, "settings", **values),
        text(name, "verdict", **values),
    )


def span(values: Sequence[int]) -> str:
    """Return the first and the last depth as text."""
    return f"{values[0]}-{values[-1]}"


def listing(values: Sequence[object]) -> str:
    """Return the values as text."""
    return ", ".join(map(str, values))


def median_and_range(values: pd.Series[float]) -> Estimate:
    """Return the median of values, with the smallest and the largest as its interval."""
    return Estimate(float(values.median()), float(values.min()), float(values.max()))


def median_and_quartiles(values: pd.Series[float]) -> Estimate:
    """Return the median of values, with the quartiles as its interval."""
    return Estimate(*values.quantile([0.5, 0.25, 0.75]).tolist())


def row_estimate(row: pd.Series[float] | Mapping[Hashable, Any], column: str) -> Estimate:
    """Return the estimate in the columns NAME, NAME_low and NAME_high of a row."""
    return Estimate(row[column], row[f"{column}_low"], row[f"{column}_high"])


def load_verdicts(folder: Path) -> pd.DataFrame:
    """Read the verdicts of all laws in `folder`; `file` is the start of their files' names."""
    tables = [
        _table(folder, law, _VERDICTS).assign(file=_RENAMED.get(law, law))
        for law in _saved_laws(folder)
    ]
    return pd.concat(tables, ignore_index=True)


def load_results(folder: Path) -> list[LawResult]:
    """Read all laws that `LawResult.save` wrote to `folder`."""
    results = []
    for law in _saved_laws(folder):
        names = [path.stem.removeprefix(f"{law}-") for path in sorted(folder.glob(f"{law}-*.csv"))]
        tables = {name: _table(folder, law, name) for name in names}
        saved = tables.pop(_VERDICTS)
        verdicts = [Verdict(*row) for row in saved[list(Verdict._fields)].itertuples(index=False)]
        title = str(saved["law"].iloc[0]) if len(saved) else law
        results.append(
            LawResult(law=_RENAMED.get(law, law), title=title, tables=tables, verdicts=verdicts)
        )
    return results


def command(law: str, folder: object = "FOLDER") -> str:
    """Return the command that measures a law into a folder."""
    return f"python -m experiments.laws measure {law} --out {folder}"


def _saved_laws(folder: Path) -> list[str]:
    ending = f"-{_VERDICTS}.csv"
    laws = sorted(path.name.removesuffix(ending) for path in folder.glob(f"*{ending}"))
    if not laws:
        raise MissingDataError(
            f"no saved verdicts in {folder}; run {command('depth', folder)} first"
        )
    return laws


def _table(folder: Path, law: str, name: str) -> pd.DataFrame:
    path = folder / f"{law}-{name}.csv"
    mend = f"{command(law, folder)} writes it again"
    try:
        frame = pd.read_csv(path)
    except ValueError as error:
        raise StoreError(f"{path} is damaged, no table can be read; {mend}") from error
    lacks = sorted({"law", *Verdict._fields} - set(frame)) if name == _VERDICTS else []
    if lacks:
        raise StoreError(f"{path} is damaged, it lacks {', '.join(lacks)}; {mend}")
    return frame
