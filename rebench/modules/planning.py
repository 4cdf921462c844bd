"""`plan`: learning rates and initialisation of any module, by any recipe that takes a graph."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import nn

from rebench.errors import InputError
from rebench.modules.network import Network, Use, read_network
from rebench.modules.plans import COMPILED, Optimizer, ParameterPlan, ParameterRole, Plan
from rebench.modules.reading import Opaque
from rebench.nets.layers import Layer
from rebench.nets.probe import Loss, Probe
from rebench.recipes import HyperParameters, LayerInit, Recipe, make_recipe, recipe_class
from rebench.recipes.graph import BENCHMARK_LR, NetworkGraph
from rebench.recipes.mup import Mup
from rebench.recipes.one_step import OneStep, mean_movement
from rebench.runs import RecipeSpec

__all__ = ["plan"]


def plan(
    model: nn.Module,
    inputs: torch.Tensor | Sequence[Any],
    *,
    rule: str = "topology",
    base: nn.Module | Plan | None = None,
    base_lr: float | None = None,
    optimizer: Optimizer = "sgd",
    weight_decay: float | None = None,
    opaque: Opaque = "error",
    batch: Sequence[Any] | None = None,
    loss: Loss = F.cross_entropy,
) -> Plan:
    """Derive the learning rate and the initialisation of every parameter from the model's graph.

    Args:
        model: a module that `torch.export` or `torch.fx` can trace. It is not changed.
        inputs: the arguments of a call of the model; only their shapes matter.
        rule: a recipe, such as ``topology(degree=target)``; ``exact`` is `topology-exact`. The
            recipes `am-mup`, `fsc` and `two-rates` work for the benchmark's networks only.
        base: the network, or its plan, for which `base_lr` was tuned; default `model`.
        base_lr: the learning rate of the base; default the rate in `rule`, otherwise 0.1.
        optimizer: ``"sgd"`` or ``"adam"`` (also for AdamW). Only the rule `mup` has rates for Adam.
        weight_decay: weight decay of every parameter; None leaves it to the optimiser.
        opaque: treatment of nodes with unknown paths. ``"error"`` refuses them. A mapping from a
            node, module or operation gives a polynomial for each value that it reads:
            ``{"mul": [(1,), ()]}`` is one path without a layer from the first, none from the
            second.
        batch: inputs and a target for `one-step`, which uses the networks' current weights.
        loss: for `one-step`: a function of output and target that returns a scalar.

    Returns:
        The plan. `init_` draws the weights of a model, `param_groups` gives its parameters to an
        optimiser with their rates, `explain` returns a table.

    Raises:
        UntraceableError: the graph cannot be read; the message names the node.
        InputError: another argument is wrong.
    """
    model = getattr(model, COMPILED, model)
    if not isinstance(base, nn.Module | Plan | None):
        raise InputError(f"base must be a torch module or a plan, got {type(base).__name__}")
    decay = 0 if weight_decay is None else weight_decay
    if not isinstance(decay, float | int) or not 0 <= decay < math.inf:
        raise InputError(f"weight_decay must be a finite number >= 0, got {weight_decay!r}")
    recipe = _recipe(rule, base_lr, optimizer)
    if isinstance(base, Plan) and base.optimizer != optimizer:
        raise InputError(
            f"base is a plan for {base.optimizer!r}; make it with optimizer={optimizer!r}"
        )
    module = None
    if isinstance(base, nn.Module):
        module = base
        base = plan(
            base,
            inputs,
            rule=rule,
            base_lr=base_lr,
            optimizer=optimizer,
            weight_decay=weight_decay,
            opaque=opaque,
            batch=batch,
            loss=loss,
        )
    network = read_network(model, inputs, opaque=opaque)
    values = _values(recipe, network.graph, base)
    movement = None
    if isinstance(recipe, OneStep):
        movement = _movement(model, network, batch, loss)
        base_movement = movement if base is None else base.movement
        if base_movement is None:
            raise InputError(
                "rule 'one-step': the plan of the base must be made by this rule; give the network"
            )
        values = recipe.held(base_movement, movement)
    made = Plan(
        rule=recipe.spec.label,
        learning_rate=values.learning_rate,
        optimizer=optimizer,
        weight_decay=weight_decay,
        movement=movement,
        graph=network.graph,
        parameters=tuple(_rows(model, network, recipe, values, base, optimizer)),
        base=base,
    )
    made._base_module = module  # noqa: SLF001 - kept for `check`, not stored
    return made


def _recipe(rule: str, base_lr: float | None, optimizer: Optimizer) -> Recipe:
    """Return the recipe that a rule names, with the rate of the base."""
    if not isinstance(rule, str):
        raise InputError(f"rule must be the name of a recipe, such as 'topology', got {rule!r}")
    if optimizer not in ("sgd", "adam"):
        raise InputError(f"optimizer must be 'sgd' or 'adam' (also for AdamW), got {optimizer!r}")
    if rule.startswith("exact"):
        rule = rule.replace("exact", "topology-exact", 1)
    spec = RecipeSpec.parse(rule)
    fields = {field.name for field in dataclasses.fields(recipe_class(spec.name))}
    if "base_lr" in fields or "lr" in fields:
        name = "base_lr" if "base_lr" in fields else "lr"
        given = spec.parameters.get(name) if base_lr is None else base_lr
        if optimizer == "adam" and given is None:
            raise InputError(
                "optimizer='adam' needs base_lr: the default, 0.1, is a rate for SGD; pass the "
                "rate that is known to be good for the base, such as base_lr=0.001"
            )
        rate = BENCHMARK_LR if given is None else given
        spec = RecipeSpec.of(spec.name, {**spec.parameters, name: rate})
    elif base_lr is not None:
        raise InputError(f"rule {spec.name!r} sets the learning rate itself; leave base_lr out")
    recipe = make_recipe(spec)
    if recipe.needs != "graph" and not isinstance(recipe, Mup | OneStep):
        raise InputError(
            f"rule {recipe.name!r} works for the benchmark's networks only; use another, such "
            "as 'topology'"
        )
    if optimizer == "adam" and not isinstance(recipe, Mup):
        raise InputError(
            f"rule {recipe.name!r} has rates for SGD only, got optimizer='adam'; use rule='mup', "
            "or make a plan for SGD and use only its initialisation (plan.init_)"
        )
    return recipe


def _values(recipe: Recipe, graph: NetworkGraph, base: Plan | None) -> HyperParameters:
    """Return the hyperparameters of a graph, relative to the base if there is one."""
    alone = recipe.hyperparameters(graph)
    if base is None:
        return alone
    values = recipe.hyperparameters(dataclasses.replace(graph, base=base.graph))
    if values == alone and recipe.hyperparameters(base.graph) != alone:
        raise InputError(
            f"rule {recipe.spec.label!r} does not use base: the rate is {values.learning_rate:.4g} "
            "with and without it; leave base out, or divide in the rule by the value for "
            "rebench.recipes.base_of(cell)"
        )
    return values


def _movement(model: nn.Module, network: Network, batch: Sequence[Any] | None, loss: Loss) -> float:
    """Return the mean movement of the layers before the readout, in one step at rate 1."""
    if batch is None:
        raise InputError("rule 'one-step' needs batch=(inputs, target)")
    settled = {use.weight.name: use.normalised for use in network.uses if use.role != "readout"}
    return mean_movement(Probe(model, batch, list(settled), loss=loss), settled)


def _rows(
    model: nn.Module,
    network: Network,
    recipe: Recipe,
    values: HyperParameters,
    base: Plan | None,
    optimizer: Optimizer,
) -> Iterator[ParameterPlan]:
    uses: dict[str, list[Use]] = defaultdict(list)
    for use in network.uses:
        uses[use.weight.name].append(use)
    own = dict(model.named_parameters())
    inits = {}
    biases = {}
    for name, applied in uses.items():
        inits[name] = _init(own[name], applied, recipe, network.graph, base)
        biases[applied[0].weight.bias] = name
    for name, parameter in own.items():
        role: ParameterRole = network.roles.get(name, "unused")
        facts: dict[str, Any] = {}
        reasons: list[str] = []
        if name in uses:
            role = uses[name][-1].role
            facts, reasons = _of_layer(uses[name], inits[name])
        if name in biases:
            if not facts:
                std = inits[biases[name]].bias_bound / math.sqrt(3)
                facts = {"std": std, "distribution": "uniform"}
            reasons.append(f"bias of {biases[name]}")
        if not facts and role not in ("gain", "shift"):
            reasons.append("not initialised")
        if not parameter.requires_grad:
            reasons.append("not trained")
        factor = values.layer_multipliers.get(name, 1.0)
        if isinstance(recipe, Mup):
            growth = _growth(name, parameter, facts.get("fan_in"), base)
            factor = recipe.factor(*growth, readout=role == "readout", optimizer=optimizer)
        yield ParameterPlan(
            name=name,
            shape=tuple(parameter.shape),
            role=role,
            learning_rate=values.learning_rate * factor,
            why="; ".join(reasons),
            **facts,
        )


def _of_layer(uses: Sequence[Use], init: LayerInit) -> tuple[dict[str, Any], list[str]]:
    """Return the fields of the plan of a layer's weight, and the reasons for its rate."""
    facts: dict[str, Any] = {
        "std": init.std,
        "distribution": init.distribution,
        "fan_in": uses[-1].weight.fan_in,
        "in_degree": max(use.in_degree for use in uses),
        "paths": sum(use.paths for use in uses),
        "scale_invariant": all(use.normalised for use in uses),
    }
    reasons = []
    if len(uses) > 1:
        reasons.append(f"used {len(uses)} times")
    if facts["in_degree"] > 1:
        reasons.append(f"one of {facts['in_degree']} terms of a sum")
    if not facts["paths"]:
        reasons.append("on no path: it makes a gate")
    if facts["scale_invariant"]:
        reasons.append("normalisation follows: its norm sets its rate")
    return facts, reasons


def _init(
    weight: nn.Parameter,
    uses: Sequence[Use],
    recipe: Recipe,
    graph: NetworkGraph,
    base: Plan | None,
) -> LayerInit:
    """Return the init of a weight; if it is used several times, the init with the smallest std."""
    name = uses[0].weight.name
    if isinstance(recipe, Mup) and {use.role for use in uses} > {"readout"}:
        raise InputError(f"rule 'mup' cannot use {name} as a readout and as another layer")
    inits = []
    for use in uses:
        fan_in = use.weight.fan_in
        role: Literal["readout", "stem", "edge"] = "edge"
        if use.role == "readout":
            role = "readout"
        elif use.role == "stem" and use.in_degree == 1:
            role = "stem"  # as a term of a sum, its in-degree scales its init like other terms
        layer = Layer(
            name=name,
            role=role,
            weight=weight,
            edge=use.edge,
            followed_by_norm=use.normalised,
            inputs=fan_in,
        )
        if isinstance(recipe, Mup):
            init = recipe.scaled_init(layer, _growth(name, weight, fan_in, base)[0])
        else:
            init = recipe.layer_init(layer, graph)
        if use.weight.operation == "embedding" and init.distribution == "uniform":
            init = LayerInit(std=1.0)  # PyTorch's default for embeddings
        inits.append(init)
    return min(inits, key=lambda init: init.std)


def _growth(
    name: str, parameter: nn.Parameter, fan_in: int | None, base: Plan | None
) -> tuple[float, float]:
    """Return the ratios of a parameter's fan-in and fan-out to those of the base."""
    if base is None:
        return 1.0, 1.0
    rows = {row.name: row for row in base.parameters}
    if name not in rows:
        raise InputError(
            f"rule 'mup' needs a base that differs in width only; the base has no {name}"
        )
    row = rows[name]
    sizes = zip(parameter.shape, row.shape, strict=False)
    grown = [size / of for size, of in sizes if size != of]
    ratio = 1.0
    if fan_in:
        ratio = fan_in / (row.fan_in or 1)
    elif len(grown) > 1:  # a parameter of no layer: its second dimension that grows, as in `mup`
        ratio = grown[1]
    return ratio, parameter.numel() / math.prod(row.shape) / ratio
