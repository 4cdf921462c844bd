"""Plan of a network: learning rate and initialisation of every parameter, by name.

A plan is data and can be stored as JSON. It applies to every module with parameters of the same
names and shapes, compiled or not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, field_validator
from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from rebench.errors import InputError
from rebench.modules.network import WeightRole
from rebench.modules.steps import OtherRole
from rebench.nets.probe import Loss, Probe
from rebench.recipes.graph import NetworkGraph
from rebench.recipes.init import LayerInit, draw
from rebench.recipes.one_step import layer_change

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ParameterPlan", "Plan"]

ParameterRole: TypeAlias = WeightRole | OtherRole | Literal["unused"]
Optimizer: TypeAlias = Literal["sgd", "adam"]
Rate: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
# Sizes are those of tensors: torch counts in 64 bits.
Size: TypeAlias = Annotated[int, Field(ge=0, lt=2**63)]
COMPILED = "_orig_mod"  # attribute of a compiled module that contains the original module


class ParameterPlan(BaseModel):
    """Role, initialisation and learning rate of one parameter.

    `role` is stem, hidden or readout for the weight of a layer. `std` is the standard deviation at
    initialisation. A gain is set to 1 and a shift to 0; other parameters without `std` keep their
    value. `learning_rate` is the initial rate, `fan_in` the number of inputs of one output unit.
    `scale_invariant` is true if normalisation follows, so that only the direction of the weight
    matters. `paths` counts the paths from input to output through the layer (0 if the layer only
    computes a gate). `in_degree` is the number of terms in the sum that its output goes into.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    shape: tuple[Size, ...]
    role: ParameterRole
    learning_rate: Rate
    std: Rate | None = None
    distribution: Literal["normal", "uniform"] = "normal"
    fan_in: Size | None = None
    in_degree: Size | None = None
    paths: int | None = None
    scale_invariant: bool = False
    why: str = ""

    @field_validator("shape")
    @classmethod
    def _fits(cls, shape: tuple[int, ...]) -> tuple[int, ...]:
        if math.prod(shape) >= 2**63:
            raise ValueError("a tensor must have fewer than 2^63 elements")
        return shape


class Plan(BaseModel):
    """Learning rates and initialisation of a network by a rule; made by `rebench.plan`.

    `graph.depth_polynomial()` counts the paths of the network by their number of layers.
    `movement` is the mean movement of one step at rate 1, for a rule that measures it.
    All rates are relative to the plan `base`. The rates are for the optimiser `optimizer`: SGD, or
    Adam and AdamW.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    rule: str
    learning_rate: Rate
    optimizer: Optimizer = "sgd"
    weight_decay: Rate | None = None
    movement: Rate | None = None
    graph: NetworkGraph
    parameters: tuple[ParameterPlan, ...]
    base: Plan | None = None

    _base_module: nn.Module | None = PrivateAttr(None)

    @field_validator("graph")
    @classmethod
    def _bounded(cls, graph: NetworkGraph) -> NetworkGraph:
        if not all(0 <= degree < 2**63 for degree in graph.degrees):
            raise ValueError("an in-degree must be at least 0 and below 2^63")
        return graph

    def __eq__(self, other: object) -> bool:
        # The base's module is not compared: it is not part of a plan's data.
        return isinstance(other, Plan) and self.model_dump() == other.model_dump()

    def __str__(self) -> str:
        """Return the rate and a table of the layers, in at most 20 lines."""
        columns = ["role", "learning_rate", "std", "in_degree", "paths", "scale_invariant"]
        layers = self.explain().dropna(subset="paths").set_index("name")[columns]
        table = layers.to_string(max_rows=14, index_names=False, float_format="{:.4g}".format)
        optimizer = "SGD" if self.optimizer == "sgd" else "Adam"
        rate = f"learning rate {self.learning_rate:.4g} for {optimizer}"
        if self.base is None and "base_lr=" in self.rule:
            rate += " (base_lr, as no base network was given)"
        size = f"layers: {len(layers)}, parameters: {len(self.parameters)}"
        lines = [
            f"Plan by {self.rule}: {rate}; {size}",
            table,
            "plan.explain() returns a table of all parameters, with the reasons for their rates.",
        ]
        transfers = self.rule.split("(")[0] in ("mup", "one-step")
        if self.base is not None and self.base.width != self.width and not transfers:
            lines.append(
                f"The base has another width (fan-in {self.base.width}, here {self.width}). This"
                " rule does not transfer rates over width: check them (plan.check), or use mup."
            )
        return "\n".join(lines)

    __repr__ = __str__

    @property
    def width(self) -> int:
        """Largest fan-in of a layer that does not read the input."""
        width = 0
        for row in self.parameters:
            if row.role in ("hidden", "readout"):
                width = max(width, row.fan_in or 0)
        return width

    def to_json(self) -> str:
        """Return the plan as JSON; path counts are exact at any size."""
        return self.model_dump_json(indent=1)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Read a plan from JSON."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "the text"
            raise InputError(f"not a plan: {place}: {first['msg']}") from error

    def explain(self, model: nn.Module | None = None) -> pd.DataFrame:
        """Return a table of the parameters, one row each, with the reasons for their rates.

        The effective rate of a scale-invariant weight w is lr / |w|^2, the rate at which its
        direction changes. Weight decay wd needs 1 / (lr wd) steps to forget the initialisation.
        |w|^2 is measured in `model`; without a model, it is the expectation at initialisation. Both
        numbers are columns, `effective_rate` and `forgetting_steps`, NaN for other parameters.
        """
        import pandas as pd

        columns = [name for name in ParameterPlan.model_fields if name != "distribution"]
        frame = pd.DataFrame([row.model_dump() for row in self.parameters], columns=columns)
        # Path counts may be larger than any integer type of numpy.
        frame["paths"] = pd.Series([row.paths for row in self.parameters], dtype=object)
        frame = frame.astype({"fan_in": "Int64", "in_degree": "Int64", "std": float})
        squares = frame["shape"].map(math.prod) * frame["std"] ** 2
        if model is not None:
            own = self._matched(model)
            squares = frame["name"].map(lambda name: own[name].detach().square().sum().item())
        steps = 1 / (frame["learning_rate"] * (self.weight_decay or 0.0))
        rates = frame["learning_rate"] / squares
        settled = frame["scale_invariant"]
        return frame.assign(effective_rate=rates[settled], forgetting_steps=steps[settled])

    def init_(self, model: nn.Module, generator: torch.Generator | None = None) -> None:
        """Draw the weights of `model` in place, and reset its normalisations.

        Other parameters, such as a position embedding that is added, keep their values.

        Args:
            model: a network with the plan's parameters.
            generator: source of the random numbers, such as ``torch.Generator().manual_seed(0)``;
                the same seed gives the same weights. Default: torch's global generator, which
                ``torch.manual_seed`` seeds.
        """
        if generator is None:
            generator = torch.default_generator
        if not isinstance(generator, torch.Generator):
            raise InputError(
                "generator must be a torch.Generator, such as torch.Generator().manual_seed(0), "
                f"got {generator!r}"
            )
        parameters = self._matched(model)
        for row in self.parameters:
            parameter = parameters[row.name]
            if row.role == "gain":
                nn.init.ones_(parameter)
            elif row.role == "shift":
                nn.init.zeros_(parameter)
            elif row.std is not None:
                init = LayerInit(std=row.std, distribution=row.distribution)
                draw(parameter, generator, init.distribution, init.size)
        for module in model.modules():
            if isinstance(module, _NormBase):
                module.reset_running_stats()

    def param_groups(self, model: nn.Module) -> list[dict[str, Any]]:
        """Return parameter groups for an optimiser of the plan's kind, one for each learning rate.

        For a plan with the optimizer ``"sgd"`` this is `torch.optim.SGD`, with ``"adam"``
        `torch.optim.Adam` or `AdamW`.
        """
        parameters = self._matched(model)
        groups: dict[float, list[nn.Parameter]] = {}
        for row in self.parameters:
            if parameters[row.name].requires_grad:
                groups.setdefault(row.learning_rate, []).append(parameters[row.name])
        made: list[dict[str, Any]] = []
        for rate, members in groups.items():
            made.append({"params": members, "lr": rate})
            if self.weight_decay is not None:
                made[-1]["weight_decay"] = self.weight_decay
        return made

    def check(
        self,
        model: nn.Module,
        batch: Sequence[Any],
        *,
        base: nn.Module | None = None,
        loss: Loss = F.cross_entropy,
    ) -> pd.DataFrame:
        """Return how far one step moves the output of every layer, in `model` and in its base.

        The step is the first step of plain SGD, or of Adam if the plan is for Adam, at the plan's
        rates, on copies of the networks with their current weights. `batch` is the inputs and a
        target. The movement is the root mean square (RMS) change of a layer's outputs: after the
        normalisation, if one follows; otherwise divided by the RMS of the outputs. After
        `from_json`, pass the `base` network again.

        Returns:
            A row per layer: `parameter`, `role`, `movement` and `base`, the movement in the base
            (NaN without a base).
        """
        base = base or self._base_module
        frame = self._moved(model, batch, loss)
        if self.base is None or base is None:
            return frame.assign(base=math.nan)
        beside = self.base._moved(base, batch, loss).rename(columns={"movement": "base"})  # noqa: SLF001 - its own class
        return frame.merge(beside, how="left", on=["parameter", "role"])

    def _moved(self, model: nn.Module, batch: Sequence[Any], loss: Loss) -> pd.DataFrame:
        import pandas as pd

        model = getattr(model, COMPILED, model)
        self._matched(model)
        rows = [row for row in self.parameters if row.paths is not None]
        probe = Probe(model, batch, [row.name for row in rows], loss=loss)
        rates = {row.name: row.learning_rate for row in self.parameters}
        ahead = probe.outputs_after(rates, signs=self.optimizer == "adam")
        moved = []
        for row in rows:
            movement = math.nan
            here = probe.outputs.get(row.name)
            if here is not None:
                normalised = row.scale_invariant and len(here) > 1
                change = layer_change(here, ahead[row.name], here, normalised=normalised)
                if change is not None:
                    movement = math.sqrt(change)
            moved.append((row.name, row.role, movement))
        return pd.DataFrame(moved, columns=["parameter", "role", "movement"])

    def _matched(self, model: nn.Module) -> dict[str, nn.Parameter]:
        """Return the parameters of `model` by the plan's names; raise where they differ."""
        if not isinstance(model, nn.Module):
            raise InputError(f"model must be a torch module, got {type(model).__name__}")
        own = {}
        for name, value in model.named_parameters():
            own[name.replace(f"{COMPILED}.", "")] = value
        planned = {row.name: row.shape for row in self.parameters}
        for name in planned | own:
            has = tuple(own[name].shape) if name in own else "missing"
            needs = planned.get(name, "missing")
            if has != needs:
                raise InputError(
                    f"the plan is for another network: {name} is {has} in the model and {needs} in "
                    "the plan; make a plan for this model"
                )
        return own
