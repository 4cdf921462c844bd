"""Write the tables of runs that come with the package again, and the card of all tables.

Run: ``python -m experiments.published.released``. Each table is made again from the packed records
named in `released.toml`. If its rows or curves would change, the program stops. ``--card`` writes
only the card ``README.md`` and the Croissant file ``croissant.json``, in the folder of the tables.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from rebench.errors import StoreError
from rebench.extensions import entries
from rebench.tables.layout import curves_path
from rebench.tables.opening import released_tables
from rebench.tables.release import Release, release, release_of

__all__ = ["FOLDER", "TABLES", "card", "croissant", "made_again", "main"]

PROJECT: Final = Path(__file__).parents[2]
FOLDER: Final = PROJECT / "rebench" / "tables" / "released"
_SURFACE: Final = PROJECT / "experiments" / "surface"
_SHARED: Final = entries(__file__, "released.toml")
TABLES: Final[dict[str, dict[str, Any]]] = _SHARED["tables"]
_INTRODUCTION: Final = """\
# Tables that come with rebench

A row per cell of NAS-Bench-201, data set, split, number of epochs and seed (in `tables`), or a row
per epoch (in `curves`). Every file describes itself: key `rebench.release` of its metadata, and
`meaning` and `unit` of each column.

    datasets.load_dataset("rebench/tables/released", "nb201", split="train")
"""
_PARQUET: Final = "application/x-parquet"
_TERMS: Final = (
    "citeAs column equivalentProperty extract field fileObject fileProperty fileSet format "
    "includes isLiveDataset jsonPath key md5 parentField path recordSet references regex repeated "
    "replace samplingRate separator source subField transform"
)
# The context of Croissant 1.0.
_CONTEXT: Final = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    **{term: f"cr:{term}" for term in _TERMS.split()},
}


def made_again(name: str, out: Path) -> Release:
    """Make a table of a run again from its packed records; return its description."""
    table = TABLES[name]
    told = _SHARED | table
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        for records in table["records"]:
            unpack = [str(_SURFACE / "shards.py"), "unpack", str(run), str(_SURFACE / records)]
            subprocess.run([sys.executable, *unpack], check=True, cwd=PROJECT)  # noqa: S603 - ours
        return release(
            run,
            out,
            title=f"{table['title']}; {told['setting']}",
            licence=_SHARED["licence"],
            cite=_SHARED["cite"],
            notes=told["notes"] + table.get("further_notes", []),
        )


def _rewrite(name: str, folder: Path) -> None:
    shipped = released_tables()[name]
    out = folder / f"{name}.parquet"
    made_again(name, out)
    pairs = ((shipped, out), (curves_path(shipped), curves_path(out)))
    for old, new in pairs:
        if not pq.read_table(old).equals(pq.read_table(new)):
            raise StoreError(f"{old} would change: its rows are not those of its records")
    for old, new in pairs:
        old.write_bytes(new.read_bytes())


def _files() -> Iterator[tuple[str, str, Path, Release]]:
    """Yield config, kind of content, file and description of each table and of its curves."""
    for name, path in released_tables().items():
        about = release_of(path) or Release(title=name)
        yield name, "accuracies", path, about
        if curves_path(path).is_file():
            yield f"{name}-curves", "curves, a row an epoch", curves_path(path), about


def card() -> str:
    """Return the card of the tables: configurations, descriptions and meanings of columns."""
    files = list(_files())
    lines = ["---", "license: mit", "pretty_name: rebench tables", "configs:"]
    for config, _, path, _ in files:
        lines += [f"- config_name: {config}", f"  data_files: {path.relative_to(FOLDER)}"]
    lines += ["---", "", _INTRODUCTION]
    for config, held, path, about in files:
        rows = pq.read_metadata(path).num_rows
        lines += [f"## {config}", "", f"{about.title}. {rows} rows of {held}.", ""]
        if path.parent.name == "tables":
            lines += [f"- licence: {about.licence}"]
            lines += [f"- cite: {cited}" for cited in about.cite]
            lines += [f"- source: {source}" for source in about.source]
            lines += [f"- trained by: {environment}" for environment in about.environments]
            settings = about.training.items()
            lines += [f"- {name.replace('_', ' ')}: {told}" for name, told in settings]
            lines += [f"- {note}" for note in about.notes] + [""]
    lines += ["## Columns", "", "| column | unit | meaning |", "|---|---|---|"]
    seen: dict[str, str] = {}
    for config, _, path, _ in files:
        for field in pq.read_schema(path):
            told = field.metadata or {}
            unit, meaning = (told.get(key, b"").decode() for key in (b"unit", b"meaning"))
            name = f"{field.name} (curves)" if config.endswith("-curves") else field.name
            seen.setdefault(name, f"| {name} | {unit} | {meaning} |")
    return "\n".join([*lines, *seen.values(), ""])


def croissant() -> dict[str, Any]:
    """Return the tables as a Croissant 1.0 description."""
    distribution, record_sets = [], []
    for config, held, path, about in _files():
        file = f"{config}.parquet"
        distribution.append(
            {
                "@type": "cr:FileObject", "@id": file, "name": file,
                "description": f"{about.title}: {held}", "encodingFormat": _PARQUET,
                "contentUrl": str(path.relative_to(FOLDER)),
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            }
        )  # fmt: skip
        fields = [
            {
                "@type": "cr:Field", "@id": f"{config}/{field.name}", "name": field.name,
                "description": (field.metadata or {}).get(b"meaning", b"").decode(),
                "dataType": _data_type(field.type),
                "source": {"fileObject": {"@id": file}, "extract": {"column": field.name}},
            }
            for field in pq.read_schema(path)
        ]  # fmt: skip
        record_sets.append(
            {"@type": "cr:RecordSet", "@id": config, "name": config, "field": fields}
        )
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": "rebench-tables",
        "description": "Accuracies of cells of NAS-Bench-201: published, and re-trained.",
        "license": "https://spdx.org/licenses/MIT.html",
        "url": "https://pypi.org/project/nas-rebench/",
        "version": "0.1.0",
        "datePublished": "2026-11-26",
        "citeAs": _SHARED["cite"][0],
        "distribution": distribution,
        "recordSet": record_sets,
    }


def _data_type(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind):
        return "sc:Integer"
    return "sc:Float" if pa.types.is_floating(kind) else "sc:Text"


def main(words: list[str]) -> None:
    """Write the tables, the card and the Croissant file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--card", action="store_true", help="leave the tables as they are")
    if not parser.parse_args(words).card:
        with tempfile.TemporaryDirectory() as folder:
            for name in TABLES:
                _rewrite(name, Path(folder))
    (FOLDER / "README.md").write_text(card(), "utf-8")
    (FOLDER / "croissant.json").write_text(json.dumps(croissant(), indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
