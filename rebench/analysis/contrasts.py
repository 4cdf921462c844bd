"""Recipes against each other: is it the rule, or merely a larger rate?"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from cells.classes import trainable_networks
from rebench.analysis.accuracies import Accuracies
from rebench.analysis.improvement import improvement
from rebench.analysis.movement import holm
from rebench.analysis.reranking import pair

__all__ = ["contrasts"]


def contrasts(tables: Mapping[str, Accuracies], *, against: str | None = None) -> pd.DataFrame:
    """Compare recipes pairwise on their common cells: the two names, and `improvement`'s keys.

    `p_adjusted` allows for all pairs (Holm).

    With controls among the tables this separates the rule from its parts: against a `fixed`
    recipe at a larger rate ("scaled, or merely larger?"), `topology-lr` and `topology-init` alone.

    Args:
        tables: accuracies by recipe, on one data set.
        against: only pairs with this recipe as `after`; all pairs if None.
    """
    names = list(tables)
    rows = []
    for place, name in enumerate(names):
        for other in names[place + 1 :]:
            before, after = (other, name) if name == against else (name, other)
            if against is not None and after != against:
                continue
            one, two, _ = pair(tables[before], tables[after])
            found = improvement(one.runs, two.runs, classes=trainable_networks(one.cells))
            rows.append({"before": before, "after": after, **found})
    table: pd.DataFrame = pd.DataFrame(rows)
    if rows:
        place = list(table.columns).index("p_value")
        table.insert(place + 1, "p_adjusted", holm(table["p_value"]))
    return table
