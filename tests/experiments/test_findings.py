"""Every figure that the page of findings tells in its sentences, computed from the tables.

`tests/tables/test_released.py` holds its tables of pairs, `test_experiments.py` that of how long an
init is a rate.
"""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from support import PROJECT

from experiments.laws.base_lr import choose
from rebench.analysis import Paired, read_accuracies
from rebench.analysis.concordance import tau_curves
from rebench.analysis.improvement import crossed_difference
from rebench.analysis.ranking import between_seeds, moved, resampled, seed_jackknife, with_interval
from rebench.analysis.reranking import compare
from rebench.cli import main
from rebench.data import data_spec
from rebench.recipes import make_recipe
from rebench.runs import read_spec
from rebench.tables.layout import curves_path
from rebench.tables.opening import read_rows, released_tables

FOLDER = PROJECT / "experiments" / "surface"
DRAWS = 2000


@pytest.fixture(scope="module")
def page():
    """The page in one line."""
    return " ".join((PROJECT / "docs" / "explanation" / "findings.md").read_text().split())


@pytest.fixture(scope="module")
def readme():
    """README in one line."""
    return " ".join((PROJECT / "README.md").read_text().split())


@pytest.fixture
def decided(monkeypatch):
    """The script that holds the plan's predictions against the tables."""
    from experiments.surface import decided

    return decided


@pytest.fixture(scope="module")
def tables():
    """The rows of the released tables, by their names."""
    names = (
        "mini",
        "mini-decay10x",
        "mini-init-parts",
        "mini-60ep",
        "mini-60ep-nodecay",
        "mini-proxy",
    )
    found = {name: read_rows(name) for name in names}
    rows, first = found["mini-60ep"], read_spec(FOLDER / "mini-60ep-first.toml").cells.indices
    found["mini-60ep-first"] = rows[rows["index"].isin(first)]
    found["mini-60ep-second"] = rows[~rows["index"].isin(first)]
    return found


def accuracies(rows, recipe):
    return read_accuracies(rows, dataset="cifar10-jpeg16", recipe=recipe)


def at_epoch(rows, name, epoch):
    """The rows of a released table with the accuracies that their curves have there."""
    table = name.removesuffix("-first").removesuffix("-second")
    curves = pq.read_table(curves_path(released_tables()[table])).to_pandas()
    curves = curves[curves["epoch"] == epoch]
    return rows.drop(columns=["accuracy", "loss"]).merge(curves, on=["trial_id", "split"])


def pair(rows, first, second):
    return Paired.of(accuracies(rows, first), accuracies(rows, second)).whole


def drawn(paired, top=100.0, draws=DRAWS):
    """What tau lacks beyond seeds: of the cells, then of cells drawn again."""
    sample = resampled(paired.classes, draws, np.random.default_rng(0))
    seeds = (paired.before.seeds, paired.after.seeds)
    return between_seeds(paired.before.runs, paired.after.runs, sample, [top], seeds=seeds)


def jackknifed(rows, first, second):
    """`drop` over all cells with seeds, not cells, as the sample."""
    [row] = seed_jackknife(pair(rows, first, second), [100.0]).to_dict("records")
    return row


def interval(values, name):
    return f"{values[f'{name}_low']:.2f} to {values[f'{name}_high']:.2f}"


def test_what_it_rests_on(page, tables):
    spec = read_spec(FOLDER / "mini.toml")
    [name] = spec.datasets
    data = data_spec(name)
    steps = spec.epochs * math.ceil(data.train_images / spec.protocol.batch_size)
    assert f"{data.train_images:,} images of {data.size} x {data.size}" in page
    assert f"for {spec.epochs} epochs, {steps} steps" in page
    assert (spec.skeleton.channels, spec.skeleton.cells_per_stage) == (8, 1)
    assert "8 channels and one cell a stage" in page
    assert round(accuracies(tables["mini"], "fixed").means.mean(), -1) == 40
    assert "The cells reach about 40 %" in page


def test_published_mean_of_the_cells(page, tables, real_data):
    file = real_data / "nb201" / "nb201-200epochs-mean.csv"
    published = pd.read_csv(file).set_index("index")["cifar10_ori_test"]
    mean = published[accuracies(tables["mini"], "fixed").cells].mean()
    assert f"published mean after 200 epochs at full size is {mean:.0f} %" in page


def test_gains_in_points_count_cells_and_seeds_as_drawn(page, tables):
    rows = tables["mini"]
    means = rows[rows["split"] == "ori-test"].groupby("recipe")["accuracy"].mean()
    assert means.idxmax() == "topology-init"
    assert f"the best mean of the {len(means)} recipes" in page
    told = {"topology": "{} has the interval {}", "topology-init": "{} that of {}"}
    told["fixed(lr=0.05)"] = "the {} points of the best single rate over 0.1 that of {}"
    for recipe, words in told.items():
        gain = crossed_difference(pair(rows, "fixed", recipe)).named("gain")
        assert words.format(f"{gain['gain']:.2f}", interval(gain, "gain")) in page


def test_third_prediction_was_too_bold(page, tables):
    first, other, rate_alone = (
        accuracies(tables["mini"], recipe).means
        for recipe in ("topology", "topology-lr(base_lr=0.09)", "topology-lr")
    )
    classes = pair(tables["mini"], "topology", "topology-lr").classes
    sample = resampled(classes, DRAWS, np.random.default_rng(0))
    near, far = (
        tau_curves(first[sample], means[sample], [100])[0][:, 0] for means in (other, rate_alone)
    )
    gap = with_interval("gap", near - far, len(first))
    assert f"the means agree by {near[0]:.2f} beside {far[0]:.2f}" in page
    said = f"difference of {gap['gap']:.2f} has the interval {interval(gap, 'gap')}"
    assert said in page


def test_the_largest_gain_is_of_he_s_init(page, tables):
    rows = pd.concat([tables["mini"], tables["mini-init-parts"]])
    others = set(rows["recipe"]) - {"fixed"}
    gains = {
        recipe: crossed_difference(pair(rows, "fixed", recipe)).named("gain") for recipe in others
    }
    best = max(gains, key=lambda recipe: gains[recipe]["gain"])
    assert best == "fixed(init=he)"
    said = f"{gains[best]['gain']:.2f} points ({interval(gains[best], 'gain')}, not adjusted"
    assert f"{said} for the {len(others) - 1} other recipes" in page
    assert f"{tables['mini-init-parts']['trial_id'].nunique():,} records" in page


def test_what_takes_from_the_weight_of_more_decay(page, tables):
    less = {}
    for name in ("mini", "mini-decay10x"):
        agreed = drawn(pair(tables[name], "fixed", "topology"))
        less[name] = agreed.drop[:, 0]
        at = "the one decay" if name == "mini" else "the other"
        assert f"{moved(agreed, 0)['ratio']:.2f} at {at}" in page
    gap = with_interval("gap", less["mini"] - less["mini-decay10x"], 60)
    assert f"for `topology`, is {gap['gap']:.2f} ({interval(gap, 'gap')})" in page
    rows = tables["mini-decay10x"]
    # When the plan was committed, as the history says of `mini-decay10x.toml`.
    after = pd.to_datetime(rows["started"]) > pd.Timestamp("2026-11-23T06:35:12+00:00")
    late = after.groupby(rows["index"]).all()
    assert f"only {late.sum()} of the {len(late)} cells" in page
    alone = rows[rows["index"].map(late)]
    values = moved(drawn(pair(alone, "fixed", "topology")), 0)
    assert f'"drop" is {values["drop"]:.2f} ({interval(values, "drop")})' in page


def test_what_is_left_of_an_init_after_training_with_more_decay(page):
    """By hand: exp(-4 d / (1 - m) sum lr), the rate annealed from 0.1 by a cosine each epoch."""
    spec = read_spec(FOLDER / "mini-decay10x.toml")
    rates = [0.05 * (1 + math.cos(math.pi * epoch / spec.epochs)) for epoch in range(spec.epochs)]
    steps = math.ceil(data_spec(*spec.datasets).train_images / spec.protocol.batch_size)
    decay, momentum = spec.protocol.weight_decay, spec.protocol.momentum
    left = math.exp(-4 * decay / (1 - momentum) * steps * sum(rates))
    assert f"where {left:.3f} of the difference is left" in page


def test_epochs_of_one_recipe_rank_as_seeds_do(page, tables):
    surface = tables["mini"]
    third, last = (accuracies(at_epoch(surface, "mini", at), "fixed") for at in (3, 5))
    values = moved(drawn(Paired.of(last, third).whole), 0)
    assert f"seeds do: {values['drop']:.2f} less ({interval(values, 'drop')})" in page
    assert f"at {third.means.mean():.0f} % and {last.means.mean():.0f} %" in page


def test_a_base_rate_of_the_paper_s_search_holds_the_rule_s(page):
    found = choose(pd.read_csv(FOLDER / "base-lr" / "base-lr-curve.csv"))
    assert f"smallest at {found.best:.2f}" in page
    assert f"within noise of that up to {found.learning_rate:.2f}" in page
    base = make_recipe("topology").base_lr
    assert f"from a base of {base:.2f}" in page
    assert found.best < base <= found.learning_rate, "it would not stand"


def test_where_there_is_no_power(page, tables):
    agreed = pair(tables["mini"], "fixed", "topology")
    half, fifth = (moved(drawn(agreed, top), 0)["seed_tau"] for top in (50.0, 20.0))
    assert f"leave a tau of {half:.2f}, among the best fifth {fifth:.2f}" in page


@pytest.mark.slow
def test_the_power_of_more_cells_is_what_the_command_says(page, capsys):
    assert main(["sweep", "plan", str(FOLDER / "mini.toml"), "--power", "0.1", "--json"]) == 0
    rows = pd.DataFrame(json.loads(capsys.readouterr().out))
    rows = rows.set_index([column for column in rows if column.startswith("top")] + ["cells"])
    whole, half, more = (rows["power"][at] for at in ((100, 60), (50, 60), (50, 480)))
    assert (
        f"see the first in {100 * whole:.0f} % of tables and the second in {100 * half:.0f} %"
        in (page)
    )
    assert f"where 480 cells see it in {100 * more:.0f} %" in page


def test_without_decay_it_is_told_as_the_plan_computes(page, readme, tables, decided):
    plan = next(row for row in decided.PREDICTIONS if row.sweeps == ("mini-60ep-nodecay",))
    before, after = (
        accuracies(tables["mini-60ep-nodecay"], recipe) for recipe in (plan.first, plan.second)
    )
    values = decided.of_pair(before, after, decided.DRAWS, plan.level)
    verdict = plan.verdict(values["drop_low"], values["drop_high"])
    seeds = interval(jackknifed(tables["mini-60ep-nodecay"], plan.first, plan.second), "drop")
    assert (
        f"tau is {values['tau']:.2f} beside {values['seed_tau']:.2f} of seeds, "
        f"{values['drop']:.2f} less ({interval(values, 'drop')}): **{verdict}**, over cells "
        f"(with seeds as the sample {seeds})" in page
    )
    assert f"{before.means.mean():.1f} and {after.means.mean():.1f} %" in page
    points = f"{values['points']:.2f} points ({interval(values, 'points')})"
    assert points in page
    assert f"tau / noise is {values['ratio']:.2f} there" in page
    assert f"nothing is seen of it ({values['drop']:.2f}, {interval(values, 'drop')}):" in readme
    said = []
    for name in ("mini", "mini-60ep-first"):
        rows = tables[name][tables[name]["index"].isin(before.cells)]
        same = decided.of_pair(*(accuracies(rows, x) for x in (plan.first, plan.second)))
        said.append((f"{same['drop']:.2f}", f"({interval(same, 'drop')})"))
    (early, of_early), (late, of_late) = said
    same = f"the same {len(before.cells)} cells have {early} less {of_early} after five epochs"
    assert f"{same} and {late} {of_late} after sixty" in page


@pytest.fixture(scope="module")
def sixty(tables):
    """The rows of both looks at sixty epochs."""
    return pd.concat([tables["mini-60ep-first"], tables["mini-60ep-second"]])


@pytest.fixture(scope="module")
def five(tables, sixty):
    """What tau of the same cells lacks after five epochs, by the two seeds that all have there."""
    rows = pd.concat([tables["mini"], tables["mini-proxy"]])
    rows = rows[rows["index"].isin(sixty["index"]) & rows["seed"].isin([777, 888])]
    paired = pair(rows, "fixed", "topology")
    assert (len(paired), paired.before.seeds) == (sixty["index"].nunique(), (777, 888))
    return drawn(paired)


def test_of_sixty_epochs_it_is_told_as_the_tables_say(page, readme, sixty, five):
    pairs = {}
    for recipe in ("topology", "topology-lr"):
        paired = pair(sixty, "fixed", recipe)
        points = crossed_difference(paired)
        told = f"{points.value:.2f}", f"({points.low:.2f} to {points.high:.2f})"
        pairs[recipe] = paired, *told
    whole, gain, limits = pairs["topology"]
    told = (
        f"`fixed` reaches {whole.before.means.mean():.1f} %, `topology` has {gain} points {limits}"
    )
    _, gain, limits = pairs["topology-lr"]
    assert f"{told} beside it, `topology-lr` {gain} {limits}." in page
    values = moved(drawn(pairs["topology-lr"][0]), 0)
    rate = f"by then the rate alone re-ranks by {values['drop']:.2f} ({interval(values, 'drop')})"
    assert rate in page
    both = drawn(whole)
    early, late = moved(five, 0), moved(both, 0, level=0.975)
    same = f"re-ranks these {len(whole)} cells by {early['drop']:.2f} ({interval(early, 'drop')})"
    more = with_interval("more", (five.drop - both.drop)[:, 0])
    assert f"{same}, which is {more['more']:.2f} ({interval(more, 'more')}) more" in page
    many = moved(drawn(whole, draws=20 * DRAWS), 0, level=0.975)
    limit, again = late["drop_high"], many["drop_high"]
    assert f"upper limit of {limit:.3f} ({again:.3f} with twenty times the draws)" in page
    left = (
        f"{late['drop']:.2f} of {early['drop']:.2f} is left ({late['drop_low']:.2f} to {limit:.3f})"
    )
    assert f"{left} on {len(whole)} cells" in readme


def test_with_other_seeds_it_is_told_as_the_tables_say(page, readme, sixty):
    a, b, c = (
        moved(drawn(pair(sixty[sixty["seed"] != seed], "fixed", "topology")), 0)["drop"]
        for seed in sorted(sixty["seed"].unique())
    )
    assert f"without one of them in turn it is {a:.2f}, {b:.2f} and {c:.2f}" in page
    limits = interval(jackknifed(sixty, "fixed", "topology"), "drop")
    assert f"with them as the sample it is {limits}." in page
    assert f"with seeds, not cells, as the sample {limits}." in readme
    limits = interval(jackknifed(sixty, "topology", "topology-lr"), "drop")
    assert f"over cells (with seeds as the sample {limits})" in page


def test_rank_warns_of_seeds_that_favour_cells(page, capsys):
    command = "rank mini-60ep@fixed mini-60ep@topology"
    assert f"`rebench {command}` warns" in page
    assert main([*command.split(), "--top", "100"]) == 0
    assert "seem to favour some cells" in capsys.readouterr().err


@pytest.fixture(scope="module")
def parts(tables):
    """The rows of E1: `fixed` and `topology` have five seeds, other recipes three."""
    return pd.concat([tables["mini"], tables["mini-init-parts"]])


def test_with_seeds_as_the_sample_it_is_told_as_the_tables_say(page, parts, decided):
    whole = jackknifed(parts, "fixed", "topology")
    assert accuracies(parts, "topology").seeds == (111, 222, 777, 888, 999)
    limits = f"({interval(whole, 'drop')}, five seeds)"
    assert f"the recipe re-ranks by {whole['drop']:.2f} {limits}" in page
    found = {
        plan: jackknifed(parts, plan.first, plan.second)
        for plan in decided.PREDICTIONS
        if plan.number in (1, 2, 3, 4, 5, 7)  # of the sixth there are two seeds
    }
    verdicts = {
        plan: plan.verdict(row["drop_low"], row["drop_high"]) for plan, row in found.items()
    }
    assert [plan.number for plan in found if verdicts[plan] == "holds"] == [2]
    assert set(verdicts.values()) == {"holds", "undecided"}
    told = {
        plan.number: f"{row['drop']:.2f} ({interval(row, 'drop')})" for plan, row in found.items()
    }
    assert f"its init on normalised weights by {told[2]}. The rest would be undecided" in page
    assert f"He's init re-ranks by {told[4]}, and its seeds seem to favour some cells" in page
    limits = [row["drop_high"] for plan, row in found.items() if plan.below]
    assert f"the upper limits are {min(limits):.2f} to {max(limits):.2f}" in page
    runs = [accuracies(parts, recipe) for recipe in ("fixed", "fixed(init=he)")]
    frames = [pd.DataFrame(x.runs, index=x.cells, columns=x.seeds) for x in runs]
    [note] = compare(*frames, top_percent=[100.0]).notes
    assert "seem to favour some cells" in note


def test_without_the_new_seeds_it_is_told_as_the_tables_say(page, parts, decided):
    rows = parts[~parts["seed"].isin([111, 222])]
    still = {}
    for plan in decided.PREDICTIONS[:5]:
        values = decided.of_pair(*(accuracies(rows, x) for x in (plan.first, plan.second)))
        if plan.verdict(values["drop_low"], values["drop_high"]) == "undecided":
            still[plan.number] = f"({interval(values, 'drop')})"
    told = f"`fixed` with the init on normalised weights {still.pop(2)}, "
    told += f"`topology` with it {still.pop(5)} and `fixed` with He's init {still.pop(4)}"
    assert f"{told} would be undecided" in page
    assert not still


def test_outside_the_best_cells_it_is_told_as_the_tables_say(page, sixty, real_data):
    file = real_data / "nb201" / "nb201-200epochs-mean.csv"
    published = pd.read_csv(file).set_index("index")["cifar10_ori_test"]
    best = published.index[published >= published.quantile(0.95)]
    cells, others = set(sixty["index"]), set(sixty["index"]) - set(best)
    assert len(cells) - len(others) == 30
    told = f"Thirty of the {len(cells)} cells are of the best 5 %"
    values = moved(drawn(pair(sixty[sixty["index"].isin(others)], "fixed", "topology")), 0)
    assert told in page
    said = f"of the other {len(others)} it is {values['drop']:.2f} ({interval(values, 'drop')})"
    assert said in page


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("mini-60ep-first", "mini-60ep-second"), "the benchmark's decay"),
        (("mini-60ep-nodecay",), "no decay"),
    ],
)
def test_along_sixty_epochs_it_is_told_as_the_curves_say(page, tables, five, names, said):
    along = []
    for epoch in (5, 10, 20, 40, 60):
        rows = pd.concat([at_epoch(tables[name], name, epoch) for name in names])
        along.append(drawn(pair(rows, "fixed", "topology")))
    values = [moved(found, 0) for found in along]
    cells = [f"{at['drop']:.2f} ({interval(at, 'drop')})" for at in values]
    assert f"| {said} | {' | '.join(cells)} |" in page
    if len(names) > 1:
        more = with_interval("more", (five.drop - along[0].drop)[:, 0])
        assert f"fifth epoch re-ranks by {more['more']:.2f} ({interval(more, 'more')}) less" in page


def test_gaps_shrink_as_a_small_rate_shrinks_them(page, tables):
    def noise_free(recipe):
        """The standard deviation of cells, without what runs differ by."""
        table = accuracies(tables["mini"], recipe)
        noise = table.runs.var(axis=1, ddof=1).mean() / table.runs.shape[1]
        return math.sqrt(table.means.var(ddof=1) - noise)

    before, after, small = map(noise_free, ("fixed", "topology", "fixed(lr=0.025)"))
    assert f"falls from {before:.2f} to {after:.2f} points" in page
    assert f"(0.025: {small:.2f})" in page
