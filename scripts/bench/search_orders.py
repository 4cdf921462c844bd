"""Compare the rankings of the search algorithms on `nb201` and on other training procedures.

Run: ``python scripts/bench/search_orders.py TABLE``, in about four minutes on one core.
TABLE is the file that ``rebench table fetch analog-nasbench`` writes; some of its recipes are
compared with `nb201`. For one recipe ``rebench search compare nb201 TABLE@RECIPE --dataset cifar10
--repeats 60 --reruns 19`` gives the same numbers. There are two seed baselines: resampled tables
of `nb201` and of each recipe, and two published validation runs of each cell, searched as two
tables. Two recipes of the small table `mini` are compared with 20 evaluations.
"""

from __future__ import annotations

import argparse
import copy
from pathlib import Path
from typing import Any

import numpy as np
from results_file import SCALE, publish, scaled

from rebench.search import Budget, Fidelity, SearchSpace, SearchTable
from rebench.search.comparison import (
    Comparison,
    OrderAgreement,
    compare,
    order_agreement,
    run_all,
)
from rebench.search.reruns import rerun_tables
from rebench.search.run import affordable, paper_budget
from rebench.search.tabular import search_table
from rebench.tables import open_table
from rebench.tables.opening import open_recipes

MEASURES = ("rebench/search",)
DATASET = "cifar10"
PROCEDURES = ("baseline", "ptq", "qat", "analog", "analog_drift_2592000")
SMALL = ("mini@fixed", "mini@topology")
REPEATS, RERUNS, OWN_RERUNS = scaled(60, 2), scaled(19), scaled(4)


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
    pairs = found.swaps.iloc[:, :2].to_numpy().tolist()
    return {"first": first.table.name, "second": second.table.name, **found.row(), "pairs": pairs}


def baseline(table: Comparison, reruns: list[Comparison]) -> dict[str, Any]:
    """Return the agreement of a table with the tables that are resampled from it."""
    found = order_agreement(table, table, rng=np.random.default_rng(0), reruns=reruns, draws=1)
    low, high = np.quantile(found.null_tau, [0.025, 0.975])
    return {
        "table": table.table.name, "tau": float(np.median(found.null_tau)), "low": float(low),
        "high": float(high), "swaps": float(np.mean(found.null_swaps)),
    }  # fmt: skip


def main() -> None:
    """Search all tables and publish."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path, help="Parquet file of analog-nasbench")
    recipes = open_recipes(parser.parse_args().table)
    own = [search_table(recipes[name], DATASET, name=name) for name in PROCEDURES]
    tables = [search_table(open_table("nb201"), DATASET, validation=False), *own]
    results, rows, orders, baselines = [], [], [], []
    for table in tables:
        results.append(searched(table))
        rng = np.random.default_rng(0)
        count = OWN_RERUNS if len(results) > 1 else RERUNS
        reruns = list(map(searched, rerun_tables(table, count, rng)))
        if len(results) == 1:
            of_published, published_rng = reruns, rng
        else:
            pair = results[0], results[-1]
            kept = copy.deepcopy(published_rng)
            orders.append(shown(*pair, order_agreement(*pair, rng=kept, reruns=of_published)))
        baselines.append(baseline(results[-1], reruns))
        summary = results[-1].summary()[["algorithm", "mean", "low", "high", "regret"]]
        rows += [{"table": table.name, **row} for row in summary.to_dict("records")]
        print(table.name, baselines[-1], orders[-1:], flush=True)
    runs = published_runs()
    orders.append(shown(*runs, order_agreement(*runs, rng=np.random.default_rng(0))))
    small = compare(SMALL, budget=Budget(evaluations=20), repeats=REPEATS, reruns=RERUNS)
    orders.append(shown(*small.results, small.agreement))
    baselines.append(baseline(small.results[0], list(small.reruns)))
    publish(
        "search_orders", rows, repeats=REPEATS, reruns=RERUNS, own_reruns=OWN_RERUNS,
        budget=str(results[0].budget), orders=orders, baselines=baselines,
    )  # fmt: skip


if __name__ == "__main__":
    main()
