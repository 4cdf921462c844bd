"""``rebench recipe``: list the recipes, or show a recipe's values for one cell."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rebench.cli import options
from rebench.cli.groups import App
from rebench.cli.output import print_facts, print_json, print_rows, say, span

if TYPE_CHECKING:
    from rebench.nets import LayeredNet
    from rebench.recipes import HyperParameters, Recipe

__all__ = ["app"]

app = App(help="Show recipes: rules for the learning rate and the initialisation.")


@app.command("list")
def list_recipes(as_json: options.AsJson = False) -> None:
    """List the recipes, their parameters and defaults.

    Example: rebench recipe list
    """
    from rebench.recipes import recipe_class, recipe_names

    rows = []
    for name in recipe_names():
        cls = recipe_class(name)
        defaults = [f"{field.name}={field.default}" for field in dataclasses.fields(cls)]
        row: dict[str, object] = {"recipe": name, "rule": cls.summary}
        row["parameters"] = ", ".join(defaults) or "none"
        if as_json:
            row |= {"needs": cls.needs, "paper": cls.paper}
        rows.append(row)
    print_rows(rows, as_json=as_json)


@app.command()
def show(
    recipe: Annotated[
        str, typer.Argument(metavar="RECIPE", help="A recipe, such as 'topology(degree=target)'.")
    ],
    cell: options.CellName,
    dataset: Annotated[
        str,
        typer.Option(
            help="Data set for which the network is built: it has one output for each class. Some "
            "recipes compute the learning rate from its images."
        ),
    ] = "digits",
    seed: options.Seed = 0,
    assignments: options.SomeSettings = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Show one row for each layer, not for each kind of layer.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Show the learning rate that a recipe gives a cell, and the initialisation of its layers.

    Example: rebench recipe show topology 1696 --set skeleton.channels=16
    """
    from rebench.data import data_spec
    from rebench.nets import TinyNet
    from rebench.recipes import parse_recipe
    from rebench.recipes.init import init_rate_factor
    from rebench.spaces import NB201

    rule, chosen = parse_recipe(recipe), NB201.item_of(cell)
    sweep = options.sweep_of(assignments)
    values = rule.hyperparameters(chosen)
    net = TinyNet(
        chosen,
        channels=sweep.skeleton.channels,
        cells_per_stage=sweep.skeleton.cells_per_stage,
        classes=data_spec(dataset).classes,
    )
    said = None
    if rule.needs != "graph":
        values, said = _completed(rule, net, chosen, dataset, sweep.protocol.batch_size, seed)
    numbers = dict(rule.explain(chosen))
    layers = _layer_rows(rule, net, chosen, values)
    # The equivalent rate with PyTorch's init; it is one number only if all layers have one rate.
    effective = (
        None
        if values.layer_multipliers
        else values.learning_rate * init_rate_factor(net, rule.layer_inits(net, chosen))
    )
    rates = {"learning rate": values.learning_rate, "effective learning rate": effective}
    if as_json:
        named = {"recipe": rule.spec.label, "cell": chosen.index, "arch": str(chosen)}
        print_json({**named, **rates, "numbers": numbers, "layers": layers})
        return
    facts = {"paper": rule.paper, **rates, **numbers, "computed from": said}
    print_facts(
        {name: value for name, value in facts.items() if value is not None},
        title=f"{rule.spec.label} for cell {chosen.index}: {rule.summary}",
    )
    kinds = layers if everything else _kinds(layers)
    print_rows(kinds, as_json=False, title="\nlayers")
    if len(kinds) < len(layers):
        say("\nA row describes all layers of a kind and names the first. --all lists every layer.")


def _completed(
    rule: Recipe, net: LayeredNet, cell: Any, dataset: str, batch_size: int, seed: int
) -> tuple[HyperParameters, str]:
    """Return the hyperparameters after `measure`, and a line that describes its input."""
    import torch

    from rebench.data import BatchSource, data_spec, load_data

    rule.apply_init(net, cell, torch.Generator().manual_seed(seed))
    images, labels, said = torch.empty(0), torch.empty(0), "the graph and the network's width"
    if rule.needs == "batch":
        train = load_data(dataset).train
        source = BatchSource(train, data_spec(dataset), device="cpu", channels_last=False)
        images, (labels,) = next(source.epoch([seed], 0, batch_size, augment=False))
        said = f"the graph and {len(images)} images of {dataset}, seed {seed}"
    generator = torch.Generator().manual_seed(seed)
    return rule.measure(net, cell, images, labels, generator), said


def _kinds(layers: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row for the layers that differ only in their name and multiplier."""
    kinds: dict[tuple[object, ...], list[dict[str, Any]]] = {}
    for layer in layers:
        kind = (layer[name] for name in ("shape", "degree", "init", "std"))
        kinds.setdefault(tuple(kind), []).append(layer)
    rows = []
    for alike in kinds.values():
        multipliers = [layer["multiplier"] for layer in alike]
        low, high = min(multipliers), max(multipliers)
        row = {"layers": len(alike), "first": alike[0]["layer"], **alike[0]}
        del row["layer"]
        rows.append(row | {"multiplier": low if low == high else span(low, high)})
    return rows


def _layer_rows(
    rule: Recipe, net: LayeredNet, cell: Any, values: HyperParameters
) -> list[dict[str, Any]]:
    inits = rule.layer_inits(net, cell)
    return [
        {
            "layer": layer.name,
            "shape": "x".join(map(str, layer.weight.shape)),
            "fan_in": layer.fan_in,
            "degree": inits[layer.name].degree,
            "init": inits[layer.name].distribution,
            "std": inits[layer.name].std,
            "multiplier": values.layer_multipliers.get(layer.parameter, 1.0),
        }
        for layer in net.weight_layers()
    ]
