#!/usr/bin/env python
"""Keep the shards of a run in the repository: pack new records, or unpack all of them.

usage: shards.py pack RUN FOLDER
       shards.py unpack RUN FOLDER

`pack` writes the complete lines of RUN/results/NAME.jsonl that FOLDER does not have to
FOLDER/NAME.LINE.jsonl.xz, where LINE is the number of the first line: a packed file is never
written again. `unpack` appends the lines of FOLDER that RUN/results lacks.
"""

from __future__ import annotations

import lzma
import sys
from pathlib import Path

from rebench.errors import StoreError
from rebench.runs import write_atomically


def packed_lines(folder: Path) -> dict[str, bytes]:
    """Return the packed lines of every shard, by its name."""
    found: dict[str, bytes] = {}
    for path in sorted(folder.glob("*.jsonl.xz")):
        name, _, first = path.name.removesuffix(".jsonl.xz").rpartition(".")
        before = found.get(name, b"")
        if before.count(b"\n") != int(first):
            raise StoreError(f"{path} does not begin where {name} ends: a file is missing")
        found[name] = before + lzma.decompress(path.read_bytes())
    return found


def pack(run: Path, folder: Path) -> int:
    """Pack the complete lines that are not packed yet; return their number."""
    known = packed_lines(folder)
    total = 0
    for shard in sorted((run / "results").glob("*.jsonl")):
        content = shard.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        before = known.get(shard.stem, b"")
        _check(shard, whole, before)
        new = whole[len(before) :]
        if new:
            first = before.count(b"\n")
            name = f"{shard.stem}.{first:06d}.jsonl.xz"
            write_atomically(folder / name, lzma.compress(new, preset=9 | lzma.PRESET_EXTREME))
            total += new.count(b"\n")
    return total


def unpack(run: Path, folder: Path) -> int:
    """Write the packed lines that the run lacks; return their number."""
    total = 0
    for name, lines in packed_lines(folder).items():
        shard = run / "results" / f"{name}.jsonl"
        content = shard.read_bytes() if shard.exists() else b""
        _check(shard, content, lines)
        if len(content) < len(lines):
            write_atomically(shard, lines)
            total += lines.count(b"\n") - content.count(b"\n")
    return total


def _check(shard: Path, one: bytes, other: bytes) -> None:
    shared = min(len(one), len(other))
    if one[:shared] != other[:shared]:
        raise StoreError(f"{shard} is not the shard that was packed under its name")


def main() -> None:
    """Run the command line."""
    actions = {"pack": pack, "unpack": unpack}
    if len(sys.argv) != 4 or sys.argv[1] not in actions:
        sys.exit(__doc__)
    _, action, run, folder = sys.argv
    try:
        lines = actions[action](Path(run), Path(folder))
    except StoreError as error:
        sys.exit(str(error))
    sys.stdout.write(f"{action}ed {lines} records\n")


if __name__ == "__main__":
    main()
