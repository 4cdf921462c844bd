"""Time every algorithm on a table of the whole space, and nats_bench's simulated evaluation.

Run: ``python scripts/bench/search.py``. For each algorithm it measures evaluations per second on
one core, including the algorithm's cost, and the time of 500 repeats under NATS-Bench's budget. An
algorithm that only counts up shows the rate of the table. If REBENCH_SHARED_DATA names the
benchmark's files, it also times `nats_bench.simulate_train_eval` on two cells, both warm.
"""

from __future__ import annotations

import statistics
import time
import warnings

from results_file import publish, scaled, shared_data

from rebench.search import (
    Budget,
    Problem,
    Query,
    Searcher,
    SearchTable,
    algorithm_names,
    paper_budget,
    register,
    replay,
    search_table,
)
from rebench.tables import Table

MEASURES = ("rebench/search", "rebench/tables")
REPEATS = 500
MEASURED = scaled(40)
ROUNDS = 3
THEIRS = scaled(400, 4)


@register("count-up")
class CountUp(Searcher):
    """Search that trains the cells in index order, at no cost."""

    next = -1

    def ask(self) -> Query:
        """Return the next cell."""
        self.next = (self.next + 1) % len(self.space)
        return Query(self.next, self.problem.signal)

    def tell(self, query: Query, value: float) -> None:
        """Ignore the result."""


def rate(name: str, table: SearchTable, budget: Budget, runs: int) -> tuple[float, float]:
    """Return evaluations per second, and seconds per run: medians over rounds."""
    rates, seconds = [], []
    for number in range(ROUNDS):
        start = time.perf_counter()
        done = sum(
            len(replay(name, table, budget, run=number * runs + run).clock) for run in range(runs)
        )
        spent = time.perf_counter() - start
        rates.append(done / spent)
        seconds.append(spent / runs)
    return statistics.median(rates), statistics.median(seconds)


def nats_bench_rate() -> float | None:
    """Return simulated evaluations per second of the real package, or None without its files."""
    folder = shared_data() / "nats-bench" / "NATS-tss-v1_0-3ffb9-simple"
    if not folder.is_dir():
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from nats_bench import create

        api = create(str(folder), "tss", fast_mode=True, verbose=False)
        for index in (0, 11):
            api.simulate_train_eval(index, "cifar10", hp="12")
        start = time.perf_counter()
        for turn in range(THEIRS):
            api.simulate_train_eval((0, 11)[turn % 2], "cifar10", hp="12")
        return THEIRS / (time.perf_counter() - start)


def main() -> None:
    """Measure and publish."""
    from generated_tables import synthetic_frame  # on the path by results_file

    frame = synthetic_frame(0, datasets=["cifar10", "cifar10-valid"])
    source = Table.from_frame(frame, name="synthetic-0", origin="generated")
    table = search_table(source, "cifar10")
    problem: Problem = table.problem
    budget = paper_budget(table)
    theirs = nats_bench_rate()
    rows = []
    for name in ["count-up", *(name for name in algorithm_names() if name != "count-up")]:
        per_second, per_run = rate(name, table, budget, MEASURED)
        rows.append(
            {
                "algorithm": name,
                "evaluations_per_s": per_second,
                "times_nats_bench": per_second / theirs if theirs else None,
                "repeats_500_s": per_run * REPEATS,
            }
        )
    slowest = min(row["evaluations_per_s"] for row in rows)
    print(f"{len(problem.space):,} cells, {budget}; slowest {slowest:,.0f} evaluations/s")
    publish("search", rows, budget=str(budget), nats_bench_per_s=theirs)


if __name__ == "__main__":
    main()
