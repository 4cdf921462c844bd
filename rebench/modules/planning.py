"""The door: a plan for any module, by any recipe that takes a graph."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import nn

from rebench.errors import InputError
from rebench.modules.movement import Loss, StepProbe
from rebench.modules.network import Network, Use, read_network
from rebench.modules.plans import ParameterPlan, ParameterRole, Plan
from rebench.modules.steps import Opaque
from rebench.nets.layers import Layer
from rebench.recipes import HyperParameters, LayerInit, Recipe, make_recipe, recipe_class
from rebench.recipes.mup import Mup
from rebench.recipes.one_step import OneStep, mean_movement
from rebench.runs import RecipeSpec

__all__ = ["plan"]

_DEFAULT_LR = 0.1
_WHY = {
    "stem": "reads the input",
    "hidden": "a layer on the way",
    "readout": "no layer follows",
    "bias": "added to a layer's output",
    "gain": "multiplies what a normalisation gives",
    "shift": "added to what a normalisation gives",
    "factor": "multiplies a value",
    "offset": "added to a value",
    "other": "no layer, gain or shift",
    "unused": "on no path from input to output",
}


def plan(
    model: nn.Module,
    inputs: torch.Tensor | Sequence[Any],
    *,
    rule: str = "topology",
    base: nn.Module | Plan | None = None,
    base_lr: float | None = None,
    weight_decay: float | None = None,
    opaque: Opaque = "error",
    batch: Sequence[Any] | None = None,
    loss: Loss = F.cross_entropy,
) -> Plan:
    """Derive rate and init of every parameter of `model` from its graph.

    Args:
        model: any module whose graph `torch.export` or `torch.fx` can read. It is not changed.
        inputs: what it is called with; only their shapes count.
        rule: a recipe, such as ``topology(degree=target)``; ``exact`` is `topology-exact`.
        base: the network, or its plan, for which `base_lr` is right; `model` itself if None.
        base_lr: the learning rate of the base; 0.1 if neither this nor the rule says one.
        weight_decay: of every parameter; None leaves it to the optimiser.
        opaque: what to do with a node whose paths are not known, as `read_network` takes it.
        batch: inputs and a target, for `one-step`, which measures both networks as they stand.
        loss: a scalar from the output and the target, for `one-step`.
    """
    recipe = _recipe(rule, base_lr)
    module = base if isinstance(base, nn.Module) else None
    if isinstance(base, nn.Module):
        base = plan(
            base,
            inputs,
            rule=rule,
            base_lr=base_lr,
            weight_decay=weight_decay,
            opaque=opaque,
            batch=batch,
            loss=loss,
        )
    network = read_network(model, inputs, opaque=opaque)
    if base is not None:
        network = dataclasses.replace(
            network, graph=dataclasses.replace(network.graph, base=base.graph)
        )
    values, movement = recipe.hyperparameters(network.graph), None
    if isinstance(recipe, OneStep):
        movement = _movement(model, network, batch, loss)
        if base is not None and base.movement is None:
            raise InputError("rule 'one-step': the base's plan must be made by the same rule")
        values = recipe.held(movement if base is None else base.movement or 0.0, movement)
    elif recipe.needs != "graph" and not isinstance(recipe, Mup):
        raise InputError(f"rule {recipe.name!r} measures the benchmark's networks, not any module")
    made = Plan(
        rule=recipe.spec.label,
        learning_rate=values.learning_rate,
        weight_decay=weight_decay,
        movement=movement,
        traced_by=network.tracer,
        graph=dataclasses.replace(network.graph, base=None),
        parameters=tuple(_rows(model, network, recipe, values, base)),
        base=base,
    )
    made._base_module = module  # noqa: SLF001 - beside its data, for `check`
    return made


def _recipe(rule: str, base_lr: float | None) -> Recipe:
    spec = RecipeSpec.parse("topology-exact" + rule[5:] if rule.startswith("exact") else rule)
    fields = {field.name for field in dataclasses.fields(recipe_class(spec.name))}
    rate = next((name for name in ("base_lr", "lr") if name in fields), None)
    if rate is None:
        if base_lr is not None:
            raise InputError(f"rule {spec.name!r} has one rate of its own; leave base_lr out")
        return make_recipe(spec)
    given = spec.parameters.get(rate, _DEFAULT_LR) if base_lr is None else base_lr
    return make_recipe(RecipeSpec.of(spec.name, {**spec.parameters, rate: given}))


def _movement(model: nn.Module, network: Network, batch: Sequence[Any] | None, loss: Loss) -> float:
    if batch is None:
        raise InputError("rule 'one-step' needs batch=(inputs, target)")
    settled = {use.weight.name: use.normalised for use in network.uses if use.role != "readout"}
    return mean_movement(StepProbe(model, batch, loss, list(settled)), settled)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Applied(Layer):
    """A layer as recipes know it, whose fan-in need not follow from the weight's shape."""

    inputs: int

    @property
    def fan_in(self) -> int:
        """Inputs to one output unit."""
        return self.inputs


def _rows(
    model: nn.Module, network: Network, recipe: Recipe, values: HyperParameters, base: Plan | None
) -> list[ParameterPlan]:
    uses: dict[str, list[Use]] = {}
    for use in network.uses:
        uses.setdefault(use.weight.name, []).append(use)
    biases = {use.weight.bias: use.weight.name for use in network.uses if use.weight.bias}
    inits = {
        name: _init(dict(model.named_parameters())[name], of, recipe, network, base)
        for name, of in uses.items()
    }
    rows = []
    for name, parameter in model.named_parameters():
        shape, applied = tuple(parameter.shape), uses.get(name, [])
        role: ParameterRole = applied[-1].role if applied else network.roles.get(name, "unused")
        factor = _factor(name, shape, applied, recipe, base)
        facts: dict[str, Any] = {}
        if applied:
            init = inits[name]
            facts = {
                "std": init.std,
                "distribution": init.distribution,
                "fan_in": applied[-1].weight.fan_in,
                "fan_out": applied[-1].weight.fan_out,
                "in_degree": max(_degree(network, use) for use in applied),
                "paths": sum(use.paths for use in applied),
                "scale_invariant": all(use.normalised for use in applied),
            }
        elif name in biases:
            facts = {
                "std": inits[biases[name]].bias_bound / math.sqrt(3),
                "distribution": "uniform",
            }
        elif role in ("gain", "shift"):
            facts = {"value": 1.0 if role == "gain" else 0.0}
        rows.append(
            ParameterPlan(
                name=name,
                shape=shape,
                role=role,
                learning_rate=values.learning_rate * factor,
                why=_why(role, facts, applied, biases.get(name), parameter),
                **facts,
            )
        )
    return rows


def _init(
    weight: nn.Parameter, uses: Sequence[Use], recipe: Recipe, network: Network, base: Plan | None
) -> LayerInit:
    """How a weight is drawn; one that is used again gets the smallest of what its uses ask for."""
    inits = []
    for use in uses:
        role = use.role if use.role != "hidden" else "edge"
        layer = _Applied(
            name=use.weight.name,
            # A stem whose output is added to others is drawn by its in-degree as they are.
            role="edge" if role == "stem" and _degree(network, use) > 1 else role,
            weight=weight,
            edge=use.edge,
            followed_by_norm=use.normalised,
            inputs=use.weight.fan_in,
        )
        if isinstance(recipe, Mup):
            ratio = use.weight.fan_in / (_of_base(base, use.weight.name).fan_in or 1) if base else 1
            init = recipe.scaled_init(layer, network.graph, ratio)
        else:
            init = recipe.layer_init(layer, network.graph)
        inits.append(_as_torch_draws(init, use, weight))
    return min(inits, key=lambda init: init.std)


def _as_torch_draws(init: LayerInit, use: Use, weight: nn.Parameter) -> LayerInit:
    """PyTorch's own default where a layer's is not uniform in +-fan_in^-1/2 of ours."""
    if init.distribution != "uniform":
        return init
    if use.weight.operation == "embedding":
        return LayerInit(std=1.0)
    if use.weight.operation.startswith("convtranspose"):
        ratio = math.sqrt(use.weight.fan_in / weight[0].numel())
        bound = init.bias_bound * ratio
        return dataclasses.replace(init, std=init.std * ratio, bias_bound=bound)
    return init


def _factor(
    name: str, shape: tuple[int, ...], uses: Sequence[Use], recipe: Recipe, base: Plan | None
) -> float:
    """The factor on a parameter's rate: by widths, for `mup`; else 1."""
    if not isinstance(recipe, Mup):
        return 1.0
    if len({use.role for use in uses}) > 1:
        raise InputError(f"rule 'mup': {name} is a readout and another layer, too: not defined")
    readout = bool(uses) and uses[0].role == "readout"
    if base is None:
        return recipe.factor(1.0, 1.0, readout=readout)
    other = _of_base(base, name)
    if uses:
        weight = uses[0].weight
        fan_in, fan_out = weight.fan_in / (other.fan_in or 1), weight.fan_out / (other.fan_out or 1)
        return recipe.factor(fan_in, fan_out, readout=readout)
    ratios = [own / theirs for own, theirs in zip(shape, other.shape, strict=True) if own != theirs]
    if len(ratios) > 1:
        raise InputError(f"rule 'mup': {name} differs from the base's in {len(ratios)} sizes")
    return recipe.factor(1.0, ratios[0] if ratios else 1.0)


def _of_base(base: Plan, name: str) -> ParameterPlan:
    for row in base.parameters:
        if row.name == name:
            return row
    raise InputError(f"rule 'mup' transfers across width alone: the base has no {name}")


def _degree(network: Network, use: Use) -> int:
    return (1, *network.graph.degrees)[use.edge[0]]


def _why(
    role: ParameterRole,
    facts: Mapping[str, Any],
    uses: Sequence[Use],
    owner: str | None,
    parameter: nn.Parameter,
) -> str:
    reasons = [_WHY[role] if owner is None else f"bias of {owner}"]
    if facts.get("in_degree", 1) > 1:
        reasons.append(f"one of {facts['in_degree']} terms of a sum")
    if facts.get("scale_invariant"):
        reasons.append("normalised before its scale is seen, so its size is a rate")
    if len(uses) > 1:
        reasons.append(f"used {len(uses)} times")
    if not parameter.requires_grad:
        reasons.append("not trained")
    return "; ".join(reasons)
