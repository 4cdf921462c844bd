"""Time tau at every top K % with a bootstrap, compared with one call of scipy per K and draw.

Run: ``python scripts/bench/analysis.py``. The scipy loop makes a few draws, enough to measure its
time per draw. Both sides compute the same numbers on the same resampled tables; the script fails
if the numbers differ. The last rows time a full comparison: p-values, and tau and seed tau between
all pairs of seeds. Each draw has 12 curves: 6 between the tables, 3 inside each. Their scipy loop
has the same number of curves and draws. Times are CPU seconds on one core.
"""

from __future__ import annotations

import time

import numpy as np
from results_file import publish, scaled
from scipy import stats

from rebench.analysis import TOP_PERCENT, Paired
from rebench.analysis.permutation_test import exchange_p_values
from rebench.analysis.seed_tau import between_seeds, resampled
from rebench.analysis.tau import resampled_curves, top_sizes
from rebench.machine import keep_freed_memory

MEASURES = ("rebench/analysis",)
CELLS = scaled(15_625, 200)
DRAWS = scaled(1000, 20)
SCIPY_DRAWS = 20


def tables(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return two tables [cells, 3 seeds] with the shape of the benchmark's accuracies."""
    true = 94.4 - rng.gamma(1.2, 2.5, CELLS)
    sd = 0.2 * (1 + (94.4 - true) / 4)
    first, second = (
        np.round(true[:, None] + rng.standard_normal((CELLS, 3)) * sd[:, None], 2) for _ in range(2)
    )
    return first, second


def scipy_curve(a: np.ndarray, b: np.ndarray) -> list[float]:
    """Compute the curve by a direct loop: scipy on the cells of each top K %."""
    curve = []
    for size in top_sizes(len(a), TOP_PERCENT):
        kept = a >= np.sort(a)[-size] - 5e-7
        curve.append(stats.kendalltau(a[kept], b[kept]).statistic)
    return curve


def main() -> None:
    """Measure and publish."""
    keep_freed_memory()  # as `rebench rank` does
    rng = np.random.default_rng(0)
    first, second = tables(rng)
    a, b = first.mean(axis=1).round(6), second.mean(axis=1).round(6)

    draws = np.random.default_rng(1)
    start = time.process_time()
    by_hand = []
    for _ in range(SCIPY_DRAWS):
        picks = draws.integers(0, CELLS, CELLS)
        by_hand.append(scipy_curve(a[picks], b[picks]))
    scipy_s = (time.process_time() - start) / SCIPY_DRAWS
    again = np.random.default_rng(1)
    sample = np.array([again.integers(0, CELLS, CELLS) for _ in range(SCIPY_DRAWS)])
    [(ours, _)] = resampled_curves([(a, b)], sample, TOP_PERCENT)
    known = np.isfinite(ours)
    np.testing.assert_allclose(ours[known], np.array(by_hand)[known], atol=1e-12)
    paired = Paired.of_values(first, second)

    rows: list[dict[str, object]] = []

    def add(what: str, seconds: float, curves: int = 1) -> None:
        ratio = scipy_s * DRAWS * curves / seconds
        rows.append({"what": what, "seconds": seconds, "draws": DRAWS, "scipy_loop_ratio": ratio})

    add(f"scipy loop, {SCIPY_DRAWS} draws, scaled", scipy_s * DRAWS)
    start = time.process_time()
    sample = rng.integers(0, CELLS, size=(DRAWS, CELLS))
    resampled_curves([(a, b)], sample, TOP_PERCENT)
    add("tau of resampled tables, 12 K", time.process_time() - start)
    start = time.process_time()
    exchange_p_values(paired, draws=DRAWS, rng=rng)
    add("p-values, 12 K", time.process_time() - start)
    start = time.process_time()
    between_seeds(first, second, resampled(paired.classes, DRAWS, rng), TOP_PERCENT)
    add("tau, seed tau and drop, 12 K, 12 pairs of runs", time.process_time() - start, curves=12)
    publish("analysis", rows, cells=CELLS, top_percent=list(TOP_PERCENT))


if __name__ == "__main__":
    main()
