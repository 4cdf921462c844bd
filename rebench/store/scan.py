"""Where every record of a run stands, so that some at a time can be read, in any order."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from pydantic_core import to_json

from rebench.store.results import START, BadLineError, Loaded, parse_record, set_aside
from rebench.store.shards import Line, ShardReader

__all__ = ["Place", "Scan", "read_places", "scan_records"]

# As `Record.to_line` writes a line up to its recipe, and the name before a split's curves.
_TO_RECIPE: Final = re.compile(
    START
    + rb'"cell":"[^"]*","dataset":("[^"]*","split":"[^"]*"),'
    + rb'"recipe":(\{"name":"[^"\\]*","parameters":\{[^{}]*\}\}),'
)
_SPLIT: Final = re.compile(rb'"([^"\\]+)":\{"accuracy":\[')
_CURVE: Final = b'":{"accuracy":['


class Place(NamedTuple):
    """Where a record stands."""

    shard: Path
    number: int
    start: int
    size: int
    plain: bool
    """Whether the line is written as this version writes it."""
    recipe: bytes
    """The recipe, as JSON."""
    curves: int


@dataclass(slots=True, kw_only=True)
class Scan:
    """The records of a run by trial id, and what is wrong with its lines."""

    places: dict[str, Place] = field(default_factory=dict)
    splits: set[bytes] = field(default_factory=set)
    """Names of the evaluated splits, at least from one plain record of each data set."""
    lines: Loaded = field(default_factory=lambda: Loaded(records={}))


def scan_records(run: Path, *, every: bool = False) -> Scan:
    """Find every record of the run; of equal ones of a trial, the first counts.

    A line that begins and ends as a record is not looked into, unless `every` one is to be.
    """
    try:
        return _scan(run, every=every)
    except BadLineError:
        return _scan(run, every=True)


def _scan(run: Path, *, every: bool) -> Scan:
    found = Scan()
    excluded = set_aside(run)
    reader = ShardReader(run / "results")
    kinds: set[bytes] = set()
    recipes: dict[bytes, bytes] = {}
    for path, before, at, text in reader.read_new_text():
        start = at
        suspicious = every or b"\0" in text
        for number, data in enumerate(text.split(b"\n")[:-1], before + 1):
            place, start = start, start + len(data) + 1
            line = Line(path=path, number=number, data=data)
            if excluded and hashlib.sha256(data).hexdigest() in excluded:
                continue
            head = None if suspicious else _TO_RECIPE.match(data)
            if head is not None and data.endswith(b"}}"):
                trial_id, recipe = head[1].decode(), head[3]
                if head[2] not in kinds:
                    kinds.add(head[2])
                    found.splits.update(_SPLIT.findall(data))
                plain, curves = True, data.count(_CURVE)
            else:
                try:
                    trial_id, recipe, names = _look_into(data)
                except (BadLineError, KeyError, TypeError, AttributeError):
                    found.lines.damaged[line.place] = line
                    continue
                found.splits |= names
                plain, curves = False, len(names)
            recipe = recipes.setdefault(recipe, recipe)
            own = Place(path, number, place, len(data), plain, recipe, curves)
            _take(found, trial_id, own, line)
    for trial_id in found.lines.conflicts:
        del found.places[trial_id]
    found.lines.torn = [f"{path.parent.name}/{path.name}" for path in reader.torn]
    return found


def read_places(places: Sequence[Place]) -> list[bytes]:
    """Return the records that stand in these places, in this order, as this version writes them."""
    lines = [b""] * len(places)
    order = sorted(range(len(places)), key=lambda at: places[at][:2])
    for shard, group in itertools.groupby(order, lambda at: places[at].shard):
        with shard.open("rb") as file:
            for at in group:
                data = _read(file, places[at])
                lines[at] = data if places[at].plain else to_json(parse_record(data))
    return lines


def _read(file: IO[bytes], place: Place) -> bytes:
    file.seek(place.start)
    return file.read(place.size)


def _take(found: Scan, trial_id: str, own: Place, line: Line) -> None:
    """Count a record; raise BadLineError if it or another of its trial is damaged inside."""
    known = found.places.setdefault(trial_id, own)
    if known is own:
        return
    with known.shard.open("rb") as file:
        data = _read(file, known)
    if parse_record(data)["outcome"] == parse_record(line.data)["outcome"]:
        found.lines.duplicates += 1
    else:
        first = Line(path=known.shard, number=known.number, data=data)
        found.lines.conflicts.setdefault(trial_id, [first]).append(line)


def _look_into(data: bytes) -> tuple[str, bytes, set[bytes]]:
    record: dict[str, Any] = parse_record(data)
    names = {name.encode() for name in record["outcome"]["curves"]}
    return record["trial_id"], to_json(record["trial"]["recipe"]), names
