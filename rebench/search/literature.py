"""What papers report on NAS-Bench-201, as quoted facts: each with its source and where it was read.

One-shot methods train a weight-sharing network, so they cannot be replayed on a table. None of
these numbers is a measurement of ours, and where public tables disagree, both are here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pandas as pd

from rebench.extensions import entries

__all__ = ["PROXY_SOURCE", "PROXY_SPEARMAN", "REPORTED_DATASETS", "reported_frame"]

REPORTED_DATASETS: Final = ("cifar10", "cifar100", "ImageNet16-120")

_NB201: Final = "NAS-Bench-201 (Dong and Yang, ICLR 2020)"
_READ: Final = entries(__file__, "literature.toml")
PROXY_SOURCE: Final[str] = _READ["proxies"]["source"]
PROXY_SPEARMAN: Final[Mapping[str, Mapping[str, float]]] = _READ["proxies"]["spearman"]


def reported_frame(dataset: str) -> pd.DataFrame:
    """The test accuracies (percent) that are reported for a data set, a row per method and table.

    Columns: `method`; `kind`, which tells weight sharing ("one-shot"), which is not re-run here,
    from algorithms that `rebench.search` replays; `reported` and `std`, mean and spread over runs
    (None: not known); `source`, who measured it; `read in`, the public table that it was read in.
    """
    place = REPORTED_DATASETS.index(dataset)
    rows = []
    for entry in _READ["reported"]:
        mean, *spread = entry["accuracies"][place]
        row = {"method": entry["method"], "kind": entry["kind"], "reported": mean}
        row |= {"std": spread[0] if spread else None, "source": entry.get("source", _NB201)}
        rows.append(row | {"read in": entry["read_in"]})
    return pd.DataFrame(rows)
