"""A trial's identity: the same work has the same id, from any spelling, in every version."""

import pydantic
import pytest

import rebench.runs.trial
from cells import Cell
from rebench.launch.expansion import expand_spec
from rebench.recipes import parse_recipe
from rebench.runs import Protocol, RecipeSpec, Skeleton, Trial, parse_spec

SPEC = """
datasets = ["digits"]
recipes = {recipes}
seeds = [777]
epochs = 12
[cells]
indices = [284]
"""


def make(recipe: str = "nb201", **changes) -> Trial:
    fields = {"cell": 11, "dataset": "cifar10", "seed": 777, **changes}
    return Trial(recipe=parse_recipe(recipe).spec, **fields)


# Written down with the first version, before ids had a rule for fields that are added.
PINNED = {
    "f3cb9742d481a15d": make(),
    "7ab818987a359e36": make("topology"),
    "94f7f5fec2c3c726": make("topology(degree=target,base_lr=0.3)", seed=888),
    "273d02bc3208ad01": make("fixed(lr=1)", cell=284, dataset="digits", epochs=12),
    "ff0f5c0947bf59e3": make(
        cell=6111,
        dataset="cifar10-valid",
        skeleton=Skeleton(channels=8, cells_per_stage=1),
        protocol=Protocol(batch_size=64, precision="bf16", weight_decay=0.0),
    ),
    "61677dab27617bbc": make(network="xautodl", cell="3_34_131", seed=999, split="x"),
    # In these recipes, the order of the parameters differs from the order of their names.
    "80280e6de7b5d994": make("fixed(lr=0.05,init=he)"),
    "462dbc58d78b84af": make("topology(degree=target,base_lr=0.3)"),
    "46dc7d569e868f72": make("am-mup(c=3,additions=false)"),
    "3db440f12065ccc9": make("am-mup(residual_blocks=15,cells_per_stage=2)"),
}


@pytest.mark.parametrize("expected", PINNED)
def test_id_is_what_the_first_version_gave(expected):
    assert PINNED[expected].trial_id == expected


@pytest.mark.parametrize(
    ("name", "parameters", "label"),
    [
        ("fixed", {"lr": 0.05, "init": "he"}, "fixed(init=he,lr=0.05)"),
        ("topology", {"degree": "target", "base_lr": 0.3}, "topology(base_lr=0.3,degree=target)"),
        ("am-mup", {"c": 3.0, "additions": False}, "am-mup(additions=False,c=3.0)"),
    ],
)
def test_order_of_the_parameters_changes_neither_id_nor_label(name, parameters, label):
    backwards = dict(reversed(parameters.items()))
    both = [RecipeSpec(name=name, parameters=order) for order in (parameters, backwards)]
    assert [recipe.label for recipe in both] == [label] * 2
    trials = [Trial(cell=11, dataset="cifar10", seed=777, recipe=recipe) for recipe in both]
    assert len({trial.trial_id for trial in trials}) == 1
    assert len({(hash(trial), trial) for trial in trials}) == 1


def test_added_field_changes_no_id_until_it_is_used(monkeypatch):
    class Later(Trial):
        dropout: float = 0.0

    monkeypatch.setitem(
        rebench.runs.trial._ALWAYS_IN_THE_ID, "Later", rebench.runs.trial._ALWAYS_IN_THE_ID["Trial"]
    )
    trial = make()
    content = trial.model_dump()
    assert Later(**content).trial_id == trial.trial_id
    assert Later(**content, dropout=0.1).trial_id != trial.trial_id


@pytest.mark.parametrize(
    ("spelt", "plain"),
    [
        ('["fixed(lr=1)"]', "fixed(lr=1.0)"),
        ('[{ name = "fixed", parameters = { lr = 1 } }]', "fixed(lr=1.0)"),
        ('["topology(degree=source)"]', "topology"),
        ('["topology( base_lr = 0.3 )"]', "topology(base_lr=0.3)"),
    ],
)
def test_sweep_and_train_give_one_id_however_the_recipe_is_spelt(spelt, plain):
    (trial,) = expand_spec(parse_spec(SPEC.format(recipes=spelt))).trials
    assert trial == make(plain, cell=284, dataset="digits", epochs=12)
    assert trial.trial_id == make(plain, cell=284, dataset="digits", epochs=12).trial_id


def test_cell_is_a_cell_in_memory_and_a_string_on_disk():
    trial = make(cell="3_34_131")
    assert trial.cell == Cell.parse("3_34_131")
    assert trial.model_dump()["cell"] == str(trial.cell)
    assert Trial.model_validate_json(trial.model_dump_json()) == trial


@pytest.mark.parametrize("cell", [15625, "no cell", -1])
def test_what_names_no_cell_is_refused(cell):
    with pytest.raises(pydantic.ValidationError):
        make(cell=cell)


def test_trials_of_a_sweep_are_what_validation_makes_of_them():
    text = SPEC.format(recipes='["nb201", "topology(degree=target)"]').replace("[777]", "[1, 2]")
    spec = parse_spec(
        text.replace("[284]", "[284, 11]").replace('["digits"]', '["digits", "cifar10"]')
    )
    families = spec.families([Cell.from_index(11), Cell.from_index(284)])
    trials = [one for family in families for one in family]
    assert len({one.trial_id for one in trials}) == len(trials) == 16
    for one in trials:
        again = Trial.model_validate_json(one.model_dump_json())
        assert (again, again.trial_id, hash(again)) == (one, one.trial_id, hash(one))


def test_parameters_that_are_equal_and_written_otherwise_give_other_ids():
    recipes = [RecipeSpec(name="fixed", parameters={"lr": lr}) for lr in (1, 1.0)]
    ids = {
        Trial(cell=11, dataset="cifar10", seed=777, recipe=recipe).trial_id for recipe in recipes
    }
    assert len(ids) == 2
