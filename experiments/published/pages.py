"""Write the pages about published tables: ``python -m experiments.published.pages [--check]``.

The templates (``*.md.jinja``) next to this file contain the text. Their numbers come from the files
in `results`. The pages are in `docs/explanation`, their figures in `docs/assets`. ``--check``
writes nothing: it fails if a stored page differs.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from experiments.findings.__main__ import filled
from experiments.findings.estimate import Estimate
from experiments.published import own_rates, rate_rules, trust

__all__ = ["PAGES", "at_k", "estimate", "main", "means_of_drops", "page", "widest"]

_DOCS: Final = Path(__file__).parents[2] / "docs"
PAGES: Final = {name: _DOCS / "explanation" / f"{name}.md" for name in ("trust", "own-rates")}


def estimate(row: dict[str, Any], name: str) -> Estimate:
    """Return a stored value with its interval."""
    return Estimate(row[name], row[f"{name}_low"], row[f"{name}_high"])


def at_k(rows: list[dict[str, Any]], percent: float, name: str) -> list[float]:
    """Return a number of the page on trust at one K, of all rows that have it."""
    found = []
    for row in rows:
        found += [one[name] for one in row["top"] if one["top_percent"] == percent]
    return found


def widest(rows: list[dict[str, Any]], networks: int, percent: float) -> float:
    """Return the widest interval of seed tau at one K, in tables of `networks` or more."""
    large = [row for row in rows if row["networks"] >= networks]
    low = np.array(at_k(large, percent, "seed_tau_low"))
    high = np.array(at_k(large, percent, "seed_tau_high"))
    return float((high - low).max())


def means_of_drops(rows: list[dict[str, Any]]) -> dict[tuple[str, str], str]:
    """Return the mean and the range of the drop over data sets, by table and change."""
    found = {}
    for key, own in pd.DataFrame(rows).groupby(["table", "changed"]):
        drops = own["drop"]
        found[key] = str(Estimate(drops.mean(), drops.min(), drops.max()))
    return found


def page(name: str) -> str:
    """Return a page: its template, filled with the stored numbers."""
    template = Path(__file__).with_name(f"{name}.md.jinja").read_text("utf-8")
    rates, rules, trusted = (
        json.loads(own.RESULTS.read_text()) for own in (own_rates, rate_rules, trust)
    )

    def predicted(line: str) -> dict[str, Any]:
        [row] = [row for row in rates["mlp"]["predictions"] if row["name"] == line]
        return {**row, "value_low": row["low"], "value_high": row["high"]}

    def rules_of(table: str) -> dict[str, Any]:
        return {row["rule"]: {**row, "seeds": row["regret"]} for row in rules[table]["rules"]}

    def largest(rows: dict[str, Any], measure: str) -> tuple[str, Any]:
        return max(rows.items(), key=lambda item: item[1][measure])

    return filled(
        template, own_rates=rates, rules=rules_of, trust=trusted, predicted=predicted,
        largest=largest, estimate=estimate, at_k=at_k, widest=widest,
        means_of_drops=means_of_drops, fitted=lambda limits: Estimate(*limits),
    )  # fmt: skip


def main(words: list[str]) -> int:
    """Write the pages and the figures; return 1 if a stored page differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="fail if a stored page differs")
    if parser.parse_args(words).check:
        differ = [path for name, path in PAGES.items() if path.read_text("utf-8") != page(name)]
        for path in differ:
            sys.stderr.write(
                f"{path} differs from its template: run python -m experiments.published.pages\n"
            )
        return int(bool(differ))
    for name, path in PAGES.items():
        path.write_text(page(name), "utf-8")
    rows = json.loads(trust.RESULTS.read_text())["rows"]
    trust.draw(rows).save(_DOCS / "assets" / "trust", formats=("svg",))
    rules = json.loads(rate_rules.RESULTS.read_text())
    rate_rules.draw(rules).save(_DOCS / "assets" / "rate-rules", formats=("svg",))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
