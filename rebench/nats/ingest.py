"""Conversion of untrusted files, of the benchmark or of a learning-rate surface, to one table.

The benchmark's files are read in parallel, in parts of a few cells. A finished part is kept next to
the output until all are finished, so that an interrupted ingest can resume.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import re
import stat
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import joblib
import pandas as pd
import pyarrow as pa

from cells import SPACE_SIZE
from rebench.errors import InputError, RebenchError, StoreError, UnknownNameError, UnsafeFileError
from rebench.machine import bounded_memory, cores
from rebench.nats.files import LARGEST_BYTES, CellResults, file_index, read_results
from rebench.nats.nas_hpo_bench import read_nas_hpo_bench
from rebench.spaces import space_of
from rebench.tables.checks import check_values, one_a_run
from rebench.tables.columns import BENCHMARK_COLUMNS, BENCHMARK_CURVES
from rebench.tables.foreign import Naming
from rebench.tables.layout import curves_path, write_rows, write_table
from rebench.tables.longfile import TEXTS, read_long_file
from rebench.tables.meaning import Meaning
from rebench.tables.parquet import ParquetFile, write_parquet
from rebench.tables.retrained import in_words_of_benchmark
from rebench.tables.table import Table

__all__ = ["Ingested", "ingest", "ingest_surface", "ingested"]

_PART_CELLS: Final = 64
_FORMAT: Final = "2"
# Names of finished and of interrupted parts.
_PART_FILE: Final = re.compile(r"\.?[0-9a-f]{64}\.(curves\.)?parquet(\..*)?")
_SHOWN_PROBLEMS: Final = 5
_SURFACES: Final = {"nas-hpo-bench-ii": read_nas_hpo_bench}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """Result of an ingest; `missing` is the number of cells that the source does not have."""

    path: Path
    curves: Path | None = None
    cells: int
    missing: int
    rows: int


def ingested(
    path: Path, rows: pd.DataFrame, curves: Path | None = None, space: str = "nb201"
) -> Ingested:
    """Return the result of an ingest that wrote `rows`."""
    cells = int(rows["index"].nunique())
    missing = space_of(space).size - cells
    return Ingested(path=path, curves=curves, cells=cells, missing=missing, rows=len(rows))


@dataclass(frozen=True, slots=True)
class _Member:
    """One file of the benchmark, in a folder or inside a tar."""

    path: Path
    name: str
    offset: int
    size: int
    modified_ns: int

    def read(self) -> bytes:
        if not 0 <= self.size <= LARGEST_BYTES:
            raise UnsafeFileError(f"{self.name}: claims {self.size} bytes; refused")
        with self.path.open("rb") as stream:
            stream.seek(self.offset)
            return stream.read(self.size)


@dataclass(frozen=True, slots=True)
class _Part:
    """Cells that one worker reads, and the files with its result until all parts are finished."""

    members: tuple[tuple[int, _Member], ...]
    rows: Path
    curves: Path | None

    @property
    def is_done(self) -> bool:
        return all(path.is_file() for path in (self.rows, self.curves) if path is not None)


def ingest(
    source: Path,
    out: Path,
    *,
    jobs: int | None = None,
    curves: bool = True,
    epochs: int | None = None,
    fractions: bool = False,
    naming: Naming | None = None,
    unit: str | None = None,
    lower_is_better: bool = False,
    on_start: Callable[[int], None] = lambda _: None,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Ingested:
    """Write the benchmark's files, or a CSV or Parquet of its values, as one table.

    Args:
        source: the ``NATS-tss-v1_0-*-simple`` folder, its ``.tar``, the ``-full`` folder, or a
            long table (see `read_long_file`).
        out: the Parquet file to write.
        jobs: number of processes that read; by default, the number of cores.
        curves: also write the per-epoch curves, to a second file next to `out`.
        epochs: number of epochs of the means in a file (see `read_long_file`).
        fractions: whether a file's accuracies are shares of 1, not percent.
        naming: other names of a file's columns, and constant values for all rows.
        unit: the unit of the values of a file with a column `item` (see `Table.from_frame`).
        lower_is_better: whether smaller values of such a file are better.
        on_start: called once with the number of cells that will be read.
        on_progress: called with the number of cells that were read since the last call.
    """
    _check_places(source, out)
    if source.suffix in (*TEXTS, ".parquet"):
        frame = read_long_file(source, epochs=epochs, fractions=fractions, naming=naming)
        if "item" in frame.columns and "arch" not in frame.columns:
            return _ingest_items(frame, source, out, unit, lower_is_better)
        if unit is not None or lower_is_better:
            raise InputError(
                "--unit and --lower-is-better are for files with a column of names: name it, such "
                "as --columns item=model,accuracy=score"
            )
        is_plain = not (naming or epochs or fractions)
        return _ingest_cells(frame, source, out, is_plain, "given" if naming else "published")
    if epochs is not None or fractions or naming:
        raise InputError(
            f"{source} is in the benchmark's format: names of columns, epochs and --fractions do "
            "not apply; leave them out"
        )
    members = _members(source)
    work = out.with_name(f"{out.name}.parts")
    parts = list(_parts(members, work, curves=curves))
    try:
        work.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot write {work}: {error.strerror or error}") from error
    on_start(len(members))
    problems = _read_parts(parts, jobs or cores(), on_progress)
    if problems:
        raise UnsafeFileError(
            "; ".join(problems[:_SHOWN_PROBLEMS]) + f"; {len(problems)} of {len(members)} "
            f"files were refused and no table was written. Fetch them again or remove them, then "
            f"repeat: finished parts are kept"
        )
    rows = pa.concat_tables([ParquetFile(part.rows).read() for part in parts]).to_pandas()
    if curves:
        read = (ParquetFile(part.curves).read() for part in parts if part.curves is not None)
        write_parquet(curves_path(out), read, pa.schema(BENCHMARK_CURVES))
    write_table(out, rows, name=source.name.removesuffix(".tar"), origin="published")
    _remove_parts(work)
    return ingested(out, rows, curves_path(out) if curves else None)


def _ingest_cells(
    frame: pd.DataFrame, source: Path, out: Path, is_plain: bool, origin: str
) -> Ingested:
    """Write rows of cells; rows of recipes in a file that needs no conversion are refused."""
    if "recipe" in frame.columns:
        frame = check_values(frame, str(source))
        known = in_words_of_benchmark(frame).dropna(subset="accuracy")
        for recipe, runs in known.groupby("recipe", observed=True):
            one_a_run(runs, f"{source}@{recipe}")
        if is_plain:
            raise InputError(
                f"{source} contains re-trained results; it needs no ingest: use it directly"
            )
    out.parent.mkdir(parents=True, exist_ok=True)
    if "recipe" in frame.columns:
        write_rows(out, frame)
    else:
        write_table(out, frame, name=source.stem, origin=origin)
    return ingested(out, frame)


def _ingest_items(
    frame: pd.DataFrame, source: Path, out: Path, unit: str | None, lower_is_better: bool
) -> Ingested:
    """Write rows of items that have only names."""
    table = Table.from_frame(frame, name=source.stem, unit=unit, lower_is_better=lower_is_better)
    rows = table.frame()
    out.parent.mkdir(parents=True, exist_ok=True)
    meaning = Meaning(space=table.space, measure=table.measure)
    write_rows(out, rows, meaning.metadata)
    return Ingested(path=out, curves=None, cells=rows["item"].nunique(), missing=0, rows=len(rows))


def ingest_surface(surface: str, source: Path, out: Path) -> Ingested:
    """Write the files of a published surface as one table.

    Args:
        surface: name of the surface, one of `SURFACES`.
        source: the folder of its files.
        out: the Parquet file to write.
    """
    if surface not in _SURFACES:
        raise UnknownNameError("published surface", surface, _SURFACES)
    _check_places(source, out)
    rows = check_values(_SURFACES[surface](source), str(source))
    rows = rows.sort_values(["dataset", "split", "epochs", "index", "learning_rate", "seed"])
    write_rows(out, rows, {b"rebench.surface": surface.encode()})
    return ingested(out, rows)


def _check_places(source: Path, out: Path) -> None:
    if out.suffix != ".parquet":
        raise InputError(f"the table is a Parquet file, so OUT must end in .parquet, got {out}")
    if not source.exists():
        raise InputError(f"no folder or file at {source}")


def _members(source: Path) -> dict[int, _Member]:
    """Return the files of the cells by index."""
    found: dict[int, _Member] = {}
    for member in _tar_members(source) if source.is_file() else _folder_members(source):
        index = file_index(member.name)
        if index is not None and index in found:
            raise InputError(f"{source} contains cell {index} twice: {member.name}")
        if index is not None:
            found[index] = member
    if not found:
        raise InputError(
            f"{source} contains no NNNNNN.pickle.pbz2 files; SRC is the folder "
            f"NATS-tss-v1_0-3ffb9-simple (or -full), its .tar, or a .csv or .parquet table"
        )
    if max(found) >= SPACE_SIZE:
        raise InputError(f"{source} contains a cell {max(found)}; the topology space ends at 15624")
    return dict(sorted(found.items()))


def _folder_members(folder: Path) -> Iterator[_Member]:
    for path in folder.iterdir():
        if file_index(path.name) is None:
            continue
        try:
            told = path.stat()
        except OSError as error:
            raise InputError(f"{path}: {error.strerror or error}") from error
        if stat.S_ISREG(told.st_mode):
            yield _Member(path, path.name, 0, told.st_size, told.st_mtime_ns)


def _tar_members(archive: Path) -> list[_Member]:
    modified_ns = archive.stat().st_mtime_ns
    try:
        with bounded_memory(archive.name), tarfile.open(archive, "r:") as tar:
            return [
                _Member(archive, Path(entry.name).name, entry.offset_data, entry.size, modified_ns)
                for entry in tar
                if entry.isreg()
            ]
    except (OSError, ValueError, tarfile.TarError) as error:
        raise InputError(
            f"{archive} is not an uncompressed tar ({error}); unpack it and give the folder"
        ) from error


def _parts(members: dict[int, _Member], work: Path, *, curves: bool) -> Iterator[_Part]:
    for _, cells in itertools.groupby(members.items(), lambda cell: cell[0] // _PART_CELLS):
        held = tuple(cells)
        # The name of a part depends on its files and on the version of the format.
        told = (_FORMAT, [(index, m.name, m.size, m.modified_ns) for index, m in held])
        rows = work / f"{hashlib.sha256(repr(told).encode()).hexdigest()}.parquet"
        yield _Part(held, rows, curves_path(rows) if curves else None)


def _remove_parts(work: Path) -> None:
    for path in work.iterdir():
        if _PART_FILE.fullmatch(path.name):
            path.unlink()
    with contextlib.suppress(OSError):  # the folder contains other files
        work.rmdir()


def _read_parts(parts: list[_Part], jobs: int, on_progress: Callable[[int], None]) -> list[str]:
    states = [(part, part.is_done) for part in parts]
    on_progress(sum(len(part.members) for part, done in states if done))
    pending = [part for part, done in states if not done]
    pool = joblib.Parallel(n_jobs=min(jobs, max(len(pending), 1)), return_as="generator_unordered")
    problems: list[str] = []
    for cells, found in pool(joblib.delayed(_read_part)(part) for part in pending):
        problems += found
        on_progress(cells)
    return sorted(problems)


def _read_part(part: _Part) -> tuple[int, list[str]]:
    """Read a part's files and write its rows; return their number and the problems."""
    results, problems = CellResults(), []
    for index, member in part.members:
        try:
            with bounded_memory(member.name):
                read_results(member.read(), index, member.name, results)
        except RebenchError as error:  # noqa: PERF203 - one bad file does not hide the next
            problems.append(str(error))
        except OSError as error:
            problems.append(f"{member.path}: {error.strerror or error}")
    if problems:
        return len(part.members), problems
    if part.curves is not None:
        schema = pa.schema(BENCHMARK_CURVES)
        write_parquet(part.curves, [pa.table(results.curves, schema)], schema)
    schema = pa.schema(BENCHMARK_COLUMNS)
    write_parquet(part.rows, [pa.table(results.rows, schema)], schema)
    return len(part.members), []
