#!/usr/bin/env python
"""Draw the cells of the learning-rate surface, or new cells, and write them into a sweep's file.

usage: draw.py PUBLISHED.csv [SPEC]            the sixty cells of mini.toml
       draw.py PUBLISHED.csv SPEC --fresh      the 120 cells of mini-proxy.toml
       draw.py PUBLISHED.csv --plan-f          the cells of every sweep of plan-f.md
       draw.py PUBLISHED.csv --plan-h          the cells of every sweep of plan-h.md

PUBLISHED.csv has the columns `index` and `cifar10_ori_test`: the mean published accuracy of every
cell. Only cells with a path are drawn (the rules have no rate for other cells), one per functional
class of the coarsest partition. Six strata of published accuracy give ten cells each; the outer
strata are narrow, so that weak and strong cells are drawn too. Inside a stratum the cells have
equal distances in the order of the rule's multiplier.

Fresh cells share no functional class with those of mini.toml: 40 from the best 5 % of the space by
published accuracy, 80 from the rest. All classes have the same probability.

The cells of plan-f.md: 120 cells from the upper half of the space by published accuracy, without
the functional classes of the cells above (90 of the 120 cells, drawn at random, are trained for
sixty epochs); one cell of each class of equal networks; and, for a second seed, 500 of these
classes at random and the whole best tenth. The published accuracy of a class is the mean over its
members.

The cells of plan-h.md: 72 classes at random from the published best fifth of all classes with a
path, and the 500 random classes of plan-f.md.
"""

from __future__ import annotations

import itertools
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from cells import compile_space
from cells.classes import functional_classes

QUANTILES = (0, 0.1, 0.3, 0.5, 0.7, 0.9, 1)
PER_STRATUM = 10
SEED = 13
FRESH_SEED = 26
FRESH = ((0.95, 40), (0.0, 80))  # (lowest quantile of published accuracy, number of cells)
PLAN_F_SEED = 35
PLAN_H_SEED = 39


def draw(published: pd.Series) -> list[int]:
    """Return the indices of the drawn cells, ascending; `published` is by index."""
    space, classes = compile_space(), functional_classes("exact")
    first = np.flatnonzero((classes == np.arange(len(classes))) & (space.n_paths > 0))
    accuracy = published.reindex(first)
    by_accuracy = first[np.argsort(accuracy.to_numpy(), kind="stable")]
    edges = [round(share * len(first)) for share in QUANTILES]
    rng = np.random.default_rng(SEED)
    drawn: list[int] = []
    for low, high in itertools.pairwise(edges):
        stratum = rng.permutation(by_accuracy[low:high])
        ordered = stratum[np.argsort(space.lr_multiplier[stratum], kind="stable")]
        places = (rng.random() + np.arange(PER_STRATUM)) * len(ordered) / PER_STRATUM
        drawn += ordered[places.astype(int)].tolist()
    return sorted(drawn)


def draw_fresh(published: pd.Series) -> list[int]:
    """Return the indices of 120 cells that `draw` does not draw, ascending."""
    space, classes = compile_space(), functional_classes("exact")
    seen = set(classes[draw(published)].tolist())
    free = np.flatnonzero((classes == np.arange(len(classes))) & (space.n_paths > 0))
    free = np.array([cell for cell in free.tolist() if cell not in seen])
    accuracy = published.reindex(free).to_numpy()
    rng = np.random.default_rng(FRESH_SEED)
    drawn: list[int] = []
    upper = float("inf")
    for quantile, count in FRESH:
        lower = float(published.quantile(quantile))
        stratum = free[(accuracy >= lower) & (accuracy < upper)]
        drawn += rng.choice(stratum, count, replace=False).tolist()
        upper = lower
    return sorted(drawn)


def draw_plan_f(published: pd.Series) -> dict[str, list[int]]:
    """Return the cells of each sweep of plan-f.md, ascending; `published` is by index.

    The key `random 500` has the classes that were drawn at random for a second seed.
    """
    rng = np.random.default_rng(PLAN_F_SEED)
    space, exact = compile_space(), functional_classes("exact")
    seen = set(exact[draw(published) + draw_fresh(published)].tolist())
    first = np.flatnonzero((exact == np.arange(len(exact))) & (space.n_paths > 0))
    fresh = np.array([cell for cell in first.tolist() if exact[cell] not in seen])
    upper = fresh[published[fresh].to_numpy() >= published.median()]
    proxy = rng.choice(upper, 120, replace=False).tolist()
    longer = rng.choice(proxy, 90, replace=False).tolist()

    strict = pd.Series(functional_classes("strict"))
    of_class = published.groupby(strict).mean()  # smallest index of a class -> mean accuracy
    classes = of_class.index[space.n_paths[of_class.index] > 0].to_numpy()
    sample = rng.choice(classes, 500, replace=False).tolist()
    best = of_class[classes].nlargest(round(len(classes) / 10)).index
    drawn = {
        "mini-proxy-upper": proxy,
        "mini-proxy-60ep": longer,
        "mini-all": classes.tolist(),
        "mini-all-888": best.union(sample).tolist(),
        "random 500": sample,
    }
    return {name: sorted(cells) for name, cells in drawn.items()}


def draw_plan_h(published: pd.Series) -> dict[str, list[int]]:
    """Return the cells of each sweep of plan-h.md, ascending; `published` is by index."""
    rng = np.random.default_rng(PLAN_H_SEED)
    strict = pd.Series(functional_classes("strict"))
    of_class = published.groupby(strict).mean()  # smallest index of a class -> mean accuracy
    drawn = draw_plan_f(published)
    classes = of_class[drawn["mini-all"]]
    best = classes.nlargest(round(len(classes) / 5)).index.to_numpy()
    return {
        "mini-best-60ep": sorted(rng.choice(best, 72, replace=False).tolist()),
        "mini-all-999": drawn["random 500"],
        "mini-all-lower": drawn["random 500"],
    }


def main() -> None:
    """Write the drawn cells into the sweep's file."""
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    if len(words) not in (1, 2):
        sys.exit(__doc__)
    published = pd.read_csv(words[0]).set_index("index")["cifar10_ori_test"]
    here = Path(__file__).parent
    if "--plan-f" in sys.argv:
        for name, cells in draw_plan_f(published).items():
            if name != "random 500":
                write(here / f"{name}.toml", cells)
        return
    if "--plan-h" in sys.argv:
        for name, cells in draw_plan_h(published).items():
            write(here / f"{name}.toml", cells)
        return
    chosen = draw_fresh if "--fresh" in sys.argv else draw
    write(Path(words[1]) if len(words) == 2 else here / "mini.toml", chosen(published))


def write(spec: Path, cells: list[int]) -> None:
    """Replace the list `indices` of a sweep's file."""
    lines = [", ".join(map(str, cells[at : at + 10])) for at in range(0, len(cells), 10)]
    listed = "indices = [\n" + "".join(f"    {line},\n" for line in lines) + "]"
    text, found = re.subn(r"indices = \[[^]]*\]", listed, spec.read_text())
    if found != 1:
        sys.exit(f"{spec} has no single list `indices = [...]` to write the cells into")
    spec.write_text(text)


if __name__ == "__main__":
    main()
