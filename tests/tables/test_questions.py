"""Tables in a notebook: their descriptions, and the defaults of their arguments."""

from __future__ import annotations

import pandas as pd
import pytest
from generated_tables import synthetic_frame
from simulated_tables import synthetic_table

import rebench
from rebench.errors import InputError, UnknownNameError
from rebench.nats import ReBench
from rebench.tables import Recipes, Table


def test_name_of_several_recipes_opens_all_of_them():
    surface = rebench.open("mini")
    assert isinstance(surface, Recipes)
    assert "topology" in surface.recipes
    assert repr(surface).startswith(f"<{len(surface)} recipes of 'mini': ")
    one = surface["topology"]
    assert isinstance(one, Table)
    assert one.accuracy(1696) == rebench.open("mini@topology").accuracy(1696)
    assert list(surface.frame().columns) == list(surface.recipes)
    assert surface._repr_html_().count("<th>") > len(surface)
    with pytest.raises(UnknownNameError, match="topology"):
        surface["topolgy"]


@pytest.mark.parametrize(("recipes", "kind"), [(["fixed"], Table), (["fixed", "mup"], Recipes)])
def test_file_of_two_recipes_opens_as_recipes_and_of_one_as_a_table(recipes, kind, tmp_path):
    frame = synthetic_frame(0, cells=range(7), datasets=["cifar10"], epochs=[200])
    parts = [frame.assign(recipe=recipe) for recipe in recipes]
    pd.concat(parts).to_csv(tmp_path / "t.csv", index=False)
    opened = rebench.open(tmp_path / "t.csv")
    assert isinstance(opened, kind)
    # Two header lines, because the index has a name, and five cells.
    assert opened._repr_html_().count("<tr") == 2 + 5


def test_question_of_one_recipe_asked_of_all_says_how_to_ask():
    with pytest.raises(AttributeError, match=r"rebench\.open\('mini'\)\['.*'\]\.accuracy"):
        rebench.open("mini").accuracy(1696)
    with pytest.raises(InputError, match="mini@") as refused:
        rebench.tables.open_table("mini")
    assert "--" not in str(refused.value)


def test_what_is_not_said_is_the_tables_own():
    table = rebench.open("mini@topology")
    key = table.default_key()
    assert key.epochs != 200
    assert table.accuracy(1696) == table.accuracy(1696, *key)
    assert table.query(1696).epochs == key.epochs
    assert table.means().equals(table.means(*key))
    assert table.best(top=3).equals(table.best(*key, top=3))
    assert table.cost(1696) == table.cost(1696, key.dataset, key.epochs)


def test_table_says_recipe_cells_seeds_data_set_and_epochs():
    told = repr(rebench.open("mini@topology"))
    for word in ("'mini'", "retrained", "recipe topology", "cells", "seeds", "epochs"):
        assert word in told
    generated = synthetic_table(0, cells=[1, 2])
    assert repr(generated) == (
        "<Table 'synthetic-0' (generated): 2 cells, 3 seeds, cifar10, ori-test, 200 epochs, "
        f"and {len(generated.keys) - 1} more>"
    )
    assert generated._repr_html_().count("<tr") == 1 + 1 + 2


def test_calls_with_other_types_are_answered_or_refused_as_by_the_package():
    api = ReBench(synthetic_table(0, cells=[3, 303]))
    with pytest.raises(KeyError):
        api.get_more_info(3, "cifar10", hp="012")
    with pytest.raises(TypeError):
        api.find_best("cifar10", "ori-test", flop_max="a", hp="200")
    costs = api.get_cost_info(303, "cifar10", "200")
    assert api.get_cost_info(303.0, "cifar10", "200") == pytest.approx(costs)


def test_time_that_was_not_measured_is_absent_and_counted_once():
    frame = synthetic_frame(0, cells=[3], datasets=["cifar100"], epochs=[200])
    run = frame.drop(columns="epoch_seconds").assign(recipe="nb201", trial_id="a", seconds=30.0)
    run["seconds"] = run["seconds"].where(run["split"] == "train")  # as `collect` writes it
    table = Table.from_frame(run)
    seconds = table.frame().set_index("split")["seconds"]
    assert (seconds["train"] == 30.0).all()
    assert seconds.drop("train").isna().all()
    costs = ReBench(retrained=table).get_cost_info(3, "cifar100", "200")
    assert costs["T-train@total"] == pytest.approx(30.0)
    assert costs["T-ori-test@total"] is None
    *_, used, total = ReBench(retrained=table).simulate_train_eval(3, "cifar100", hp="200")
    assert used == total == pytest.approx(30.0)
