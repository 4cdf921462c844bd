"""Compare the rankings of the search algorithms on `nb201` and on other training procedures.

Run: ``python scripts/bench/search_orders.py TABLE``, in about a minute on one core.
TABLE is the file that ``rebench table fetch analog-nasbench`` writes; some of its recipes are
compared with `nb201`. For one recipe ``rebench search compare nb201 TABLE@RECIPE --dataset cifar10
--repeats 60`` gives the same tau. There are two seed baselines: `nb201` with the runs of equal
cells, and two published validation runs of each cell, searched as two tables. Two recipes of the
small table `mini` are compared with 20 evaluations, and every two seeds of the first recipe.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from results_file import SCALE, publish, scaled

from rebench.search import Budget, Fidelity, SearchSpace, SearchTable
from rebench.search.comparison import Comparison, OrderAgreement, compare, order_agreement, run_all
from rebench.search.run import affordable, paper_budget
from rebench.search.seeds import seed_tables
from rebench.search.tabular import search_table
from rebench.tables import open_table
from rebench.tables.opening import open_recipes

MEASURES = ("rebench/search",)
DATASET = "cifar10"
PROCEDURES = ("baseline", "ptq", "qat", "analog", "analog_drift_2592000")
SMALL = ("mini@fixed", "mini@topology")
REPEATS = scaled(60, 2)


def searched(table: SearchTable) -> Comparison:
    """Run all algorithms on a table, with the random numbers of ``search compare``."""
    budget = affordable(paper_budget(table), [table])
    return run_all(table, [] if SCALE == 1 else ["random", "rea"], budget=budget, repeats=REPEATS)


def published_runs() -> list[Comparison]:
    """Search the first and the second published validation run of each cell."""
    runs = open_table("nb201").group("cifar10-valid", "x-valid", 200).column("accuracy")
    packed = np.take_along_axis(runs, np.argsort(np.isnan(runs), axis=1, kind="stable"), axis=1)
    tables = [
        SearchTable(
            name=f"validation run {number + 1}",
            dataset=DATASET,
            space=SearchSpace.whole(),
            fidelities=(Fidelity(epochs=200, accuracy=run),),
            tested=run,
            searched_on="validation",
            reported="validation",
            split="validation",
        )
        for number, run in enumerate(np.hsplit(packed[:, :2], 2))
    ]
    return list(map(searched, tables))


def shown(found: OrderAgreement) -> dict[str, Any]:
    """Return the agreement of two rankings of algorithms, with the pairs that swap."""
    return {**found.row(), "pairs": found.swaps.iloc[:, :2].to_numpy().tolist()}


def agreement(first: Comparison, second: Comparison) -> dict[str, Any]:
    """Compare the rankings of the algorithms on two tables."""
    return shown(order_agreement(first, second, rng=np.random.default_rng(0)))


def main() -> None:
    """Search all tables and publish."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path, help="Parquet file of analog-nasbench")
    recipes = open_recipes(parser.parse_args().table)
    own = [search_table(recipes[name], DATASET, name=name) for name in PROCEDURES]
    published = searched(search_table(open_table("nb201"), DATASET, validation=False))
    results = [published, *map(searched, own)]
    orders = [agreement(published, result) for result in results[1:]]
    (exchanged,) = seed_tables(published.table)
    orders.append(agreement(published, searched(exchanged)))
    orders.append(agreement(*published_runs()))
    small = compare(SMALL, budget=Budget(evaluations=20), repeats=REPEATS)
    orders += [shown(each) for each in (small.agreement, *small.seed_agreements)]
    summaries = [result.summary().assign(table=result.table.name) for result in results]
    columns = ["table", "algorithm", "mean", "low", "high", "regret"]
    publish(
        "search_orders", pd.concat(summaries)[columns].to_dict("records"), repeats=REPEATS,
        budget=str(published.budget), orders=orders,
    )  # fmt: skip


if __name__ == "__main__":
    main()
