"""Compare the rankings of the search algorithms on `nb201` and on other training procedures.

Run: ``python scripts/bench/search_orders.py TABLE``, in about three minutes on one core.
TABLE is the file that ``rebench table fetch analog-nasbench`` writes; some of its recipes are
compared with `nb201`. For one recipe ``rebench search compare nb201 TABLE@RECIPE --dataset cifar10
--repeats 60 --reruns 19`` gives the same numbers. There are two seed baselines: resampled tables
of `nb201`, and two published validation runs of each cell, searched as two tables. Two recipes of
the small table `mini` are compared with 20 evaluations. The local optima of the resampled tables
are counted, because more of them than in a training would make all algorithms that climb look bad.
"""

from __future__ import annotations

import argparse
import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from results_file import SCALE, publish, scaled

from rebench.search import Budget, Fidelity, SearchSpace, SearchTable
from rebench.search.comparison import Comparison, OrderAgreement, compare, order_agreement, run_all
from rebench.search.reruns import rerun_tables
from rebench.search.run import affordable, paper_budget
from rebench.search.tabular import search_table
from rebench.tables import open_table
from rebench.tables.opening import open_recipes

MEASURES = ("rebench/search",)
DATASET = "cifar10"
PROCEDURES = ("baseline", "ptq", "qat", "analog", "analog_drift_2592000")
SMALL = ("mini@fixed", "mini@topology")
REPEATS, RERUNS = scaled(60, 2), scaled(19)


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


def shown(first: Comparison, second: Comparison, found: OrderAgreement) -> dict[str, Any]:
    """Return the agreement of two rankings of algorithms, with the pairs that swap."""
    numbers = {name: value for name, value in found.row().items() if not pd.isna(value)}
    pairs = found.swaps.iloc[:, :2].to_numpy().tolist()
    return {"first": first.table.name, "second": second.table.name, **numbers, "pairs": pairs}


def baseline(table: Comparison, reruns: list[Comparison]) -> dict[str, Any]:
    """Return the agreement of a table with the tables that are resampled from it."""
    found = order_agreement(table, table, rng=np.random.default_rng(0), reruns=reruns, draws=1)
    low, high = np.nanquantile(found.null_tau, [0.025, 0.975])
    return {
        "table": table.table.name, "tau": float(np.nanmedian(found.null_tau)), "low": float(low),
        "high": float(high), "swaps": float(np.mean(found.null_swaps)),
    }  # fmt: skip


def ruggedness(table: SearchTable, found: Comparison | None = None) -> dict[str, Any]:
    """Return the number of local optima within 1 point of the best cell, and `local`'s regret."""
    final, near = table.final, table.space.neighbours
    high = np.flatnonzero(final > table.best - 1)
    optima = sum(bool(final[cell] > final[near(cell)].max()) for cell in high.tolist())
    row = {"table": table.name, "best": table.best, "optima": optima}
    if found is not None and "local" in found.runs:
        row["regret"] = float(table.best - found.final("local").mean())
    return row


def main() -> None:
    """Search all tables and publish."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path, help="Parquet file of analog-nasbench")
    recipes = open_recipes(parser.parse_args().table)
    own = [search_table(recipes[name], DATASET, name=name) for name in PROCEDURES]
    published = searched(search_table(open_table("nb201"), DATASET, validation=False))
    rng = np.random.default_rng(0)
    reruns = list(map(searched, rerun_tables(published.table, RERUNS, rng)))
    results, orders = [published, *map(searched, own)], []
    for result in results[1:]:
        found = order_agreement(published, result, rng=copy.deepcopy(rng), reruns=reruns)
        orders.append(shown(published, result, found))
    summaries = [result.summary().assign(table=result.table.name) for result in results]
    columns = ["table", "algorithm", "mean", "low", "high", "regret"]
    runs = published_runs()
    orders.append(shown(*runs, order_agreement(*runs, rng=np.random.default_rng(0))))
    rugged = [ruggedness(each.table, each) for each in (*results[:2], *runs, *reruns)]
    rugged += map(ruggedness, rerun_tables(runs[0].table, RERUNS, rng))
    small = compare(SMALL, budget=Budget(evaluations=20), repeats=REPEATS, reruns=RERUNS)
    orders.append(shown(*small.results, small.agreement))
    publish(
        "search_orders", pd.concat(summaries)[columns].to_dict("records"), repeats=REPEATS,
        reruns=RERUNS, budget=str(published.budget), orders=orders,
        ruggedness=rugged,
        baselines=[baseline(published, reruns), baseline(small.results[0], list(small.reruns))],
    )  # fmt: skip


if __name__ == "__main__":
    main()
