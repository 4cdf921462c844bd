"""``rebench recipe``: the rules, and what one of them says about one cell."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rebench.cli import completion
from rebench.cli.output import AsJson, Value, console, print_json, print_rows
from rebench.errors import InputError

if TYPE_CHECKING:
    from cells import Cell
    from rebench.recipes import HyperParameters, Recipe


# `list` needs none of what loads torch: the functions that do import it themselves.
if TYPE_CHECKING:
    import torch

    from rebench.nets import LayeredNet

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Rules for learning rate and init.")


@app.command("list")
def list_recipes(as_json: AsJson = False) -> None:
    """List the recipes, their parameters and defaults."""
    from rebench.recipes import recipe_class, recipe_names

    rows: list[dict[str, Value]] = []
    for name in recipe_names():
        cls = recipe_class(name)
        defaults = [f"{field.name}={field.default}" for field in dataclasses.fields(cls)]
        row: dict[str, Value] = {"recipe": name, "rule": cls.summary}
        row["parameters"] = ", ".join(defaults) or "none"
        if as_json:
            row |= {"needs": cls.needs, "paper": cls.paper}
        rows.append(row)
    print_rows(rows, as_json=as_json)


@app.command()
def show(
    recipe: Annotated[
        str,
        typer.Argument(
            help="A name, or 'topology(degree=target)'.", autocompletion=completion.recipes
        ),
    ],
    cell: Annotated[str, typer.Argument(help="An index, an architecture string or a code.")],
    dataset: Annotated[str, typer.Option(help="Where a measured rule takes its batch.")] = "digits",
    channels: Annotated[int, typer.Option(min=1, help="Width of the first stage.")] = 16,
    cells_per_stage: Annotated[int, typer.Option(min=1, help="Cells in each stage.")] = 5,
    batch_size: Annotated[int, typer.Option(min=1, help="Images in that batch.")] = 256,
    seed: Annotated[int, typer.Option(min=0, help="Of the init and the batch.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Show the learning rate of a cell, the numbers it came from, and every layer's init."""
    from cells import Cell
    from rebench.datasets import data_spec
    from rebench.nets import TinyNet
    from rebench.recipes import parse_recipe
    from rebench.recipes.init import init_rate_factor

    rule, found = parse_recipe(recipe), Cell.find(cell)
    values = rule.hyperparameters(found)
    net = TinyNet(
        found,
        channels=channels,
        cells_per_stage=cells_per_stage,
        classes=data_spec(dataset).classes,
    )
    said = ""
    if rule.needs != "graph":
        values, said = _completed(rule, net, found, dataset, batch_size, seed)
    numbers = dict(rule.explain(found))
    layers = _layer_rows(rule, net, found, values)
    # One number for the network: only where one rate holds for all of its layers.
    effective = (
        None
        if values.layer_multipliers
        else values.learning_rate * init_rate_factor(net, rule.layer_inits(net, found))
    )
    if as_json:
        page = {
            "recipe": rule.spec.label,
            "cell": found.index,
            "arch": str(found),
            "learning_rate": values.learning_rate,
            "effective_learning_rate": effective,
            "numbers": numbers,
            "layers": layers,
        }
        print_json(page)
        return
    out = console()
    facts = {
        "paper": rule.paper,
        "learning rate": values.learning_rate,
        # What it would be with PyTorch's init (`init_rate_factor`).
        **({} if effective is None else {"effective rate": effective}),
        **numbers,
    }
    out.print(f"{rule.spec.label} for cell {found.index}: {rule.summary}", markup=False)
    if said:
        out.print(said, markup=False)
    width = max(map(len, facts))
    for name, value in facts.items():
        text = f"{value:.6g}" if isinstance(value, float) else value
        out.print(f"{name:<{width}}  {text}", markup=False)
    out.print()
    print_rows(layers, as_json=False)


@app.command()
def coordinates(
    recipe: Annotated[str, typer.Argument(help="A recipe.")] = "mup(base_width=64,base_lr=1.0)",
    graph: Annotated[str, typer.Option(help="A graph code.")] = "2_02_002",
    widths: Annotated[str, typer.Option(help="Widths of the MLP.")] = "64,128,256,512,1024",
    steps: Annotated[int, typer.Option(min=1, help="Steps of gradient descent.")] = 4,
    seeds: Annotated[int, typer.Option(min=1, help="Draws of each width.")] = 3,
    dataset: Annotated[str, typer.Option(help="Where the batch comes from.")] = "digits",
    figure: Annotated[Path | None, typer.Option(help="Save a figure; no suffix.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check whether training moves each layer of an MLP alike at every width (muP's promise)."""
    from cells import DagCode
    from rebench.datasets import data_spec
    from rebench.figures.recipes import draw_coordinates
    from rebench.nets import DagMLP
    from rebench.recipes import parse_recipe
    from rebench.theory.coordinates import coordinate_check, width_slopes

    rule, code, spec = parse_recipe(recipe), DagCode.parse(graph), data_spec(dataset)
    sizes = _sizes(widths)
    found = coordinate_check(
        lambda width: DagMLP(code, inputs=3 * spec.size**2, width=width, classes=spec.classes),
        code,
        rule,
        *_batch(dataset, 128, 0),
        widths=sizes,
        steps=steps,
        seeds=range(seeds),
    )
    slopes = width_slopes(found)
    rows: list[dict[str, Value]] = []
    for layer, slope in slopes.items():
        row: dict[str, Value] = {"layer": layer, "exponent": round(slope, 3)}
        for coordinate in found:
            if coordinate.layer == layer and coordinate.step == steps:
                row[f"at_{coordinate.width}"] = float(f"{coordinate.change:.3g}")
        rows.append(row)
    print_rows(
        rows, as_json=as_json, title=f"{rule.spec.label}: change of outputs after {steps} steps"
    )
    for path in draw_coordinates(found, rule.spec.label).save(figure) if figure else ():
        typer.echo(f"wrote {path}", err=True)


def _sizes(text: str) -> list[int]:
    try:
        sizes = sorted({int(piece) for piece in text.split(",")})
    except ValueError:
        sizes = []
    if len(sizes) < 2 or sizes[0] < 1:
        raise InputError(f"widths must be two or more positive numbers like 64,128, got {text!r}")
    return sizes


def _completed(
    rule: Recipe, net: LayeredNet, cell: Cell, dataset: str, batch_size: int, seed: int
) -> tuple[HyperParameters, str]:
    """Return what the rule says once it has seen `net`, and a line on what it has seen."""
    import torch

    rule.apply_init(net, cell, torch.Generator().manual_seed(seed))
    images, labels, said = torch.empty(0), torch.empty(0), "from the graph and the network's width"
    if rule.needs == "batch":
        images, labels = _batch(dataset, batch_size, seed)
        said = f"measured on {len(images)} images of {dataset}, seed {seed}"
    generator = torch.Generator().manual_seed(seed)
    return rule.measure(net, cell, images, labels, generator), said


def _batch(dataset: str, batch_size: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    from rebench.data import BatchSource, load_data
    from rebench.datasets import data_spec

    source = BatchSource(
        load_data(dataset).train, data_spec(dataset), device="cpu", channels_last=False
    )
    images, labels = next(source.epoch([seed], 0, batch_size, augment=False))
    return images, labels[0]


def _layer_rows(
    rule: Recipe, net: LayeredNet, cell: Cell, values: HyperParameters
) -> list[dict[str, Value]]:
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
