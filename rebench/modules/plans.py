"""A plan: rate and init of every parameter of a network, by name, as data.

Nothing is attached to tensors: a plan is written as JSON, read again, and used on any module whose
parameters have the same names and shapes, compiled or not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError
from torch import nn

from rebench.errors import InputError
from rebench.modules.movement import Loss, StepProbe
from rebench.modules.network import WeightRole
from rebench.modules.steps import Role
from rebench.modules.tracing import TracerName
from rebench.recipes.graph import NetworkGraph
from rebench.recipes.init import draw
from rebench.recipes.one_step import layer_change

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ParameterPlan", "Plan"]

ParameterRole: TypeAlias = WeightRole | Role | Literal["unused"]
Rate: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_COMPILED = "_orig_mod."
_NOT_EXPLAINED = {"distribution", "value", "fan_out"}


class ParameterPlan(BaseModel):
    """What one parameter is, how it is drawn and how fast it learns.

    `role` says which layer it is the weight of (stem, hidden, readout), or what else it is. `std`
    is that of the distribution that it is drawn from, `value` the constant that it is set to; a
    parameter with neither is kept. `paths` are those from input to output through the layer, and
    `in_degree` how many terms are added where its output goes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    shape: tuple[int, ...]
    role: ParameterRole
    learning_rate: Rate
    std: Rate | None = None
    distribution: Literal["normal", "uniform"] = "normal"
    value: float | None = None
    fan_in: int | None = None
    fan_out: int | None = None
    in_degree: int | None = None
    paths: int | None = None
    scale_invariant: bool = False
    why: str = ""

    def squared_norm(self) -> float:
        """|w|^2 as the init gives it on average."""
        return math.prod(self.shape) * (self.std or 0.0) ** 2


class Plan(BaseModel):
    """The rates and the init that a rule gives a network; made by `rebench.plan`.

    `graph` is the network's; `graph.depth_polynomial()` counts its paths by their layers.
    `movement` is what one step moves at rate 1, where the rule measures it. All rates are relative
    to the plan `base`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    rule: str
    learning_rate: Rate
    weight_decay: Rate | None = None
    movement: Rate | None = None
    traced_by: TracerName
    graph: NetworkGraph
    parameters: tuple[ParameterPlan, ...]
    base: Plan | None = None

    _base_module: nn.Module | None = PrivateAttr(None)

    def to_json(self) -> str:
        """Return the plan as JSON; path counts are exact at any size."""
        return self.model_dump_json(indent=1)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Read a plan."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "the text"
            raise InputError(f"not a plan: {place}: {first['msg']}") from error

    def explain(self, model: nn.Module | None = None) -> pd.DataFrame:
        """Return what each parameter is and why it learns as it does, one row each.

        The effective rate of a scale-invariant weight is lr / |w|^2, the rate at which its
        direction turns, and 1 / (lr wd) is how many steps weight decay takes to forget its init.
        |w|^2 is that of `model`, or without it what the init gives on average.
        """
        import pandas as pd

        given = self._matched(model) if model is not None else {}
        frame = pd.DataFrame([row.model_dump(exclude=_NOT_EXPLAINED) for row in self.parameters])
        # Path counts may be larger than any integer type of numpy.
        frame["paths"] = pd.Series([row.paths for row in self.parameters], dtype=object)
        frame = frame.astype({"fan_in": "Int64", "in_degree": "Int64", "std": float})
        rates, steps = [], []
        for row in self.parameters:
            rates.append(math.nan)
            steps.append(math.nan)
            square = _squared(given[row.name]) if given else row.squared_norm()
            if row.scale_invariant and square > 0:
                rates[-1] = row.learning_rate / square
                decay = row.learning_rate * (self.weight_decay or 0.0)
                steps[-1] = 1 / decay if decay else math.inf
        frame.insert(len(frame.columns) - 1, "effective_rate", rates)
        frame.insert(len(frame.columns) - 1, "forgetting_steps", steps)
        return frame

    def init_(self, model: nn.Module, generator: torch.Generator) -> None:
        """Draw every layer of `model` in place from `generator`, and reset its normalisations.

        What is neither, such as a position embedding that is added, stays as it is.
        """
        parameters = self._matched(model)
        for row in self.parameters:
            parameter = parameters[row.name]
            if row.value is not None:
                nn.init.constant_(parameter, row.value)
            elif row.std is not None and row.distribution == "normal":
                draw(parameter, generator, std=row.std)
            elif row.std is not None:
                draw(parameter, generator, bound=math.sqrt(3) * row.std)
        for module in model.modules():
            reset = getattr(module, "reset_running_stats", None)
            if callable(reset):
                reset()

    def param_groups(self, model: nn.Module) -> list[dict[str, Any]]:
        """Return the groups that an optimiser takes, one for each rate."""
        parameters = self._matched(model)
        groups: dict[float, list[nn.Parameter]] = {}
        for row in self.parameters:
            if parameters[row.name].requires_grad:
                groups.setdefault(row.learning_rate, []).append(parameters[row.name])
        decay = {} if self.weight_decay is None else {"weight_decay": self.weight_decay}
        return [{"params": members, "lr": rate, **decay} for rate, members in groups.items()]

    def check(
        self,
        model: nn.Module,
        batch: Sequence[Any],
        *,
        base: nn.Module | None = None,
        loss: Loss = F.cross_entropy,
    ) -> pd.DataFrame:
        """Return how far one step moves the output of every layer, beside the base's layers.

        The step is plain SGD at the plan's rates, on copies of the networks as they stand. A
        movement is the root mean square change of a layer's outputs, over the batch: behind the
        batch normalisation that follows, else relative to their own root mean square.

        Args:
            model: the network.
            batch: inputs, and the target last.
            base: the base network; not needed with a plan that was made from it in this process.
            loss: a scalar from the network's output and the target.
        """
        import pandas as pd

        base = base or self._base_module
        frame = self._moved(model, batch, loss)
        if self.base is None or base is None:
            return frame.assign(base=math.nan)
        beside = self.base._moved(base, batch, loss).rename(columns={"movement": "base"})  # noqa: SLF001 - its own class
        both = frame.merge(beside, how="left", on=["parameter", "role"])
        alone = beside[~beside["parameter"].isin(frame["parameter"])]
        return both if alone.empty else pd.concat([both, alone], ignore_index=True)

    def _moved(self, model: nn.Module, batch: Sequence[Any], loss: Loss) -> pd.DataFrame:
        import pandas as pd

        self._matched(model)
        names = _names(model)
        rows = [row for row in self.parameters if row.paths is not None]
        probe = StepProbe(model, batch, loss, [names[row.name] for row in rows])
        ahead = probe.outputs_after({names[row.name]: row.learning_rate for row in self.parameters})
        moved = []
        for row in rows:
            change = None
            if names[row.name] in ahead:
                here = probe.outputs[names[row.name]]
                normalised = row.scale_invariant and len(here) > 1
                change = layer_change(here, ahead[names[row.name]], here, normalised=normalised)
            moved.append((row.name, row.role, math.nan if change is None else math.sqrt(change)))
        return pd.DataFrame(moved, columns=["parameter", "role", "movement"])

    def _matched(self, model: nn.Module) -> dict[str, nn.Parameter]:
        """Return the parameters of `model` by the plan's names; raise where they differ."""
        names = _names(model)
        planned = {row.name: row.shape for row in self.parameters}
        if set(names) != set(planned):
            other = min(set(names) ^ set(planned))
            where = "the plan and not in the module" if other in planned else "the module alone"
            raise InputError(f"the plan is for another network: {other} is in {where}")
        own = dict(model.named_parameters())
        for name, shape in planned.items():
            if own[names[name]].shape != shape:
                found = tuple(own[names[name]].shape)
                raise InputError(f"the plan is for another network: {name} is {found}, not {shape}")
        return {name: own[names[name]] for name in planned}


def _squared(parameter: nn.Parameter) -> float:
    return float(parameter.detach().double().square().sum())


def _names(model: nn.Module) -> Mapping[str, str]:
    """Return the names of a module's parameters by those before it was compiled."""
    return {name.replace(_COMPILED, ""): name for name, _ in model.named_parameters()}
