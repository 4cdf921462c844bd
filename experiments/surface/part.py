#!/usr/bin/env python
"""Write one part of a long sweep: a random share of its cells, the same at every call.

usage: part.py SPEC NUMBER OF OUT

The parts 1 to OF together contain every cell of SPEC once. Submitted one after the other into one
run, they leave a random sample of the cells whenever training stops between two parts.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np

from rebench.runs import read_spec

SEED = 35


def main(spec: str, number: int, of: int, out: str) -> None:
    """Write part `number` of `of` of the sweep in `spec` to `out`."""
    if not 1 <= number <= of:
        sys.exit(f"NUMBER must be between 1 and OF = {of}, got {number}")
    cells = np.random.default_rng(SEED).permutation(read_spec(Path(spec)).cells.indices)
    part = sorted(np.array_split(cells, of)[number - 1].tolist())
    text, found = re.subn(r"indices = \[[^]]*\]", f"indices = {part}", Path(spec).read_text())
    if found != 1:
        sys.exit(f"{spec} has no single list `indices = [...]` to take a part of")
    Path(out).write_text(text)


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
