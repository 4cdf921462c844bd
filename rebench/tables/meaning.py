"""Meaning of a table's numbers: their space, their measure, and the settings that select rows.

A Parquet file contains this as metadata. A file without it is of NAS-Bench-201, in percent.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rebench.errors import StoreError
from rebench.spaces import NB201, NamedItems, Space, space_of

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

_Values = TypeVar("_Values", float, "NDArray[np.float64]")

__all__ = ["PERCENT", "Meaning", "Measure"]

_KEY: Final = b"rebench.meaning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """The measure in the column `accuracy`.

    Attributes:
        name: its name, such as ``accuracy`` or ``validation loss``.
        unit: its unit: ``%`` for accuracies, otherwise any text; values may then be any numbers.
        lower_is_better: whether smaller values are better.
    """

    name: str = "accuracy"
    unit: str = "%"
    lower_is_better: bool = False

    @property
    def is_percent(self) -> bool:
        """Whether the values are percentages, from 0 to 100."""
        return self.unit == "%"

    def goodness(self, values: _Values) -> _Values:
        """Return values of which larger ones are better; of such values, the values."""
        return -values if self.lower_is_better else values

    def text(self, value: float) -> str:
        """Return a value as text: percentages with two decimals, others with four digits."""
        return f"{value:.2f}" if self.is_percent else f"{value:.4g}"

    @property
    def points(self) -> str:
        """The unit of a difference, such as ``points of accuracy``."""
        if self.is_percent:
            return f"points of {self.name}"
        return self.unit or self.name


PERCENT: Final = Measure()


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """Space and measure of a table; `settings` are the usual values of columns that select rows."""

    space: Space = NB201
    measure: Measure = PERCENT
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def metadata(self) -> dict[bytes, bytes]:
        """The entry of a Parquet file's metadata; empty for accuracies of NAS-Bench-201."""
        told: dict[str, Any] = {}
        if self.space is not NB201:
            told["space"] = self.space.name
        if self.measure != PERCENT:
            told["measure"] = dataclasses.asdict(self.measure)
        if self.settings:
            told["settings"] = dict(self.settings)
        return {_KEY: json.dumps(told).encode()} if told else {}

    def on(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return rows that tell their meaning to `of_frame`, also after rows were selected."""
        if self.metadata:
            # Pandas copies these attributes often, so they are a text.
            frame.attrs["rebench"] = self.metadata[_KEY].decode()
        return frame

    @classmethod
    def of_frame(cls, frame: pd.DataFrame) -> Meaning:
        """Return the meaning of rows of a table."""
        told = frame.attrs.get("rebench")
        return cls() if told is None else cls.of_file({_KEY: told.encode()}, "the table")

    @classmethod
    def of_file(cls, metadata: Mapping[bytes, bytes], path: object) -> Meaning:
        """Return the meaning in the metadata of the Parquet file at `path`."""
        try:
            told = json.loads(metadata.get(_KEY, b"{}"))
            name = told.get("space", NB201.name)
            return cls(
                space=NamedItems(()) if name == NamedItems.name else space_of(name),
                measure=Measure(**told.get("measure", {})),
                settings={str(key): str(value) for key, value in told.get("settings", {}).items()},
            )
        except (AttributeError, TypeError, ValueError) as error:
            raise StoreError(
                f"{path} is damaged (invalid description of its space): fetch it again"
            ) from error

    def of_rows(self, rows: pd.DataFrame) -> tuple[Meaning, pd.DataFrame]:
        """Return the meaning and the rows with `index`, if a column `item` names the items."""
        if "item" not in rows.columns or "arch" in rows.columns:
            return self, rows
        names = rows["item"].astype(str)
        space = NamedItems(names.unique())
        index = names.map({label: space.find(label) for label in names.unique()})
        measure = self.measure
        if self.space is NB201 and measure == PERCENT:
            measure = Measure(name="score", unit="")
        named = dataclasses.replace(self, space=space, measure=measure)
        return named, rows.assign(item=names, index=index.astype("int64"))
