"""Recipes that measure the network on its first batch, also after an interruption."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from trialsets import few_digits, interrupt, make_trial

from rebench.data import BatchSource, epoch_generator
from rebench.recipes import make_recipe
from rebench.runs import RecipeSpec
from rebench.train import build_net, train

FSC = RecipeSpec(name="fsc")
REFRESHED = RecipeSpec(name="fsc", parameters={"refresh": True})
ONE_STEP = RecipeSpec(name="one-step")


def measured_by_hand(trial, data):
    """Build and initialise the network, take its first batch, and call the recipe's `measure`."""
    recipe = make_recipe(trial.recipe)
    net = build_net(trial, data.spec.classes)
    recipe.apply_init(net, trial.cell, epoch_generator(trial.seed, 0, "init"))
    source = BatchSource(data.train, data.spec, device=torch.device("cpu"), channels_last=False)
    images, labels = next(source.epoch([trial.seed], 0, trial.protocol.batch_size, augment=True))
    generator = epoch_generator(trial.seed, 0, "measure")
    return recipe.measure(net, trial.cell, images, labels[0], generator)


@pytest.mark.parametrize("recipe", [FSC, ONE_STEP], ids=["fsc", "one-step"])
def test_record_holds_the_rate_that_was_measured_on_the_first_batch(recipe: RecipeSpec):
    trial, data = make_trial(recipe=recipe), few_digits()
    expected = measured_by_hand(trial, data)
    (record,) = train([trial], data)
    assert record.outcome.learning_rate == pytest.approx(expected.learning_rate, rel=1e-4)
    answer = make_recipe(recipe).hyperparameters(trial.cell)
    assert expected != answer, "measuring has said nothing new"


def test_each_copy_of_a_stack_is_measured_by_itself():
    trials = [make_trial(seed, recipe=ONE_STEP, epochs=1) for seed in range(3)]
    alone = [train([trial], few_digits())[0].outcome.learning_rate for trial in trials]
    stacked = train(trials, few_digits(), stack=3)
    assert len(set(alone)) == 3
    assert [record.outcome.learning_rate for record in stacked] == pytest.approx(alone, rel=1e-4)


def test_rates_that_are_measured_again_change_the_training_after_the_first_epoch():
    held, refreshed = (
        train([make_trial(recipe=recipe, epochs=2)], few_digits())[0].outcome.curves["train"]
        for recipe in (FSC, REFRESHED)
    )
    assert held.loss[0] == refreshed.loss[0]
    assert held.loss[1] != refreshed.loss[1]


@pytest.mark.parametrize("stack", [pytest.param(1, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize(
    "recipe",
    [pytest.param(FSC, marks=pytest.mark.slow), REFRESHED, ONE_STEP],
    ids=["fsc", "refreshed", "one-step"],
)
def test_measured_trials_stopped_three_times_give_the_same_bits(
    tmp_path: Path, recipe: RecipeSpec, stack: int
):
    trials = [make_trial(seed, recipe=recipe, epochs=3) for seed in range(stack)]
    whole = train(trials, few_digits(), stack=stack)
    for _ in range(3):  # after steps 3, 5 and 8 of 12
        interrupt(trials, 2, checkpoint_dir=tmp_path, stack=stack)
    resumed = train(trials, few_digits(), checkpoint_dir=tmp_path, stack=stack)
    assert [record.cost.resumed for record in resumed] == [3] * stack
    assert [record.outcome for record in resumed] == [record.outcome for record in whole]
