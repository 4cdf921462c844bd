"""Others' files to one ordinary table."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa

from rebench.errors import InputError, MissingDataError, UnknownNameError
from rebench.surfaces.catalogue import PUBLISHED, SURFACES
from rebench.tables.columns import SURFACE_COLUMNS
from rebench.tables.parquet import write_parquet

__all__ = ["Ingested", "ingest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """What an ingest wrote."""

    path: Path
    cells: int
    rates: int
    runs: int
    rows: int


def ingest(surface: str, source: Path, out: Path) -> Ingested:
    """Write the files of a published surface as one table.

    Args:
        surface: its name, one of `SURFACES`.
        source: the folder of its files.
        out: the Parquet file to write.
    """
    if surface not in SURFACES:
        raise UnknownNameError("surface of others", surface, SURFACES)
    if out.suffix != ".parquet":
        raise InputError(f"the table is a Parquet file, so OUT must end in .parquet, got {out}")
    if not source.exists():
        raise MissingDataError(f"no folder or file at {source}")
    read: Callable[[Path], pd.DataFrame] = pkgutil.resolve_name(PUBLISHED[surface].reader)
    rows = read(source)
    columns = {name: kind for name, kind in SURFACE_COLUMNS.items() if name in rows}
    rows = rows.sort_values(["dataset", "split", "epochs", "index", "learning_rate", "seed"])
    schema = pa.schema(columns, metadata={b"rebench.surface": surface.encode()})
    texts = [name for name, kind in columns.items() if pa.types.is_dictionary(kind)]
    table = pa.Table.from_pandas(rows[list(columns)], schema, preserve_index=False)
    write_parquet(out, [table], schema, use_dictionary=[*texts, "epochs", "seed"])
    return Ingested(
        path=out,
        cells=int(rows["index"].nunique()),
        rates=int(rows["learning_rate"].nunique()),
        runs=len(rows) // int(rows["split"].nunique() or 1),
        rows=len(rows),
    )
