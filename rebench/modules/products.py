"""Classification of the product of two values: normalisation, gated value, or unknown.

A value has a scale: if its root step is multiplied by c, the value is multiplied by a power of c.
A product of a value and a statistic of the same step is a normalisation if the powers cancel, as
in ``x * rsqrt(mean(x^2) + eps)`` and ``(x - mean(x)) / std(x)``.

Paths lead through the value that a gate multiplies, never through the gate. A result of softmax or
sigmoid is a gate. The result of another activation is a gate if both factors are computed from
one earlier value, each through at most one layer. In a matrix product, a layer's output is a gate
if the layer reads a result of softmax: such a layer mixes the heads of attention.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rebench.modules import operations as ops
from rebench.modules.operations import UNARY, OperationKind
from rebench.modules.steps import Step
from rebench.modules.tracing import Call

__all__ = ["Product", "Products"]

EPSILON: Final = 0.01
"""Largest constant that may be added to a statistic without changing its scale."""


@dataclass(frozen=True, slots=True)
class Product:
    """Kind of a product, the step that its paths lead through, and the gates that it reads."""

    kind: OperationKind
    value: int
    gates: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Scale:
    root: int
    power: float = 1.0
    means: int = 0  # number of nested statistics: 1 for the mean of the root


class Products:
    """Scales and activations of the steps of a program; `note` takes the steps in order."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = steps
        self._scales: dict[int, _Scale] = {}
        self._centred: dict[int, int] = {}  # x - mean(x) -> x
        self._levels: dict[int, int] = {}  # activations: 2 if the result is between 0 and 1
        self._exponentials: set[int] = set()
        self._softmaxes: set[int] = set()
        self._origins: dict[int, int] = {}  # unary steps and sums -> the only step they depend on

    def note(self, call: Call, data: Sequence[int], i: int) -> None:
        """Note the scale and activation of step `i`, the result of `call` on `data`."""
        step = self.steps[i]
        origins = {self._origins.get(read, read) for read in step.reads}
        if step.kind in UNARY or (step.kind in ("sum", "unknown") and len(origins) == 1):
            self._origins[i] = min(origins)
        gated_by = {self._origins.get(gate, gate) for gate in step.gates}
        if call.operation in ops.GATES:
            self._levels[i] = 2
        elif call.operation in ops.ACTIVATIONS:
            self._levels[i] = 1
        elif step.kind == "homogeneous" and step.gates and gated_by == origins:
            self._levels[i] = 1  # an activation, written out
        if call.operation == "exp":
            self._exponentials.add(i)
        elif step.kind == "norm" and not self._exponentials.isdisjoint(step.reads):
            self._levels[i] = 2  # softmax, written out
            self._softmaxes.add(i)
        elif call.operation == "softmax":
            self._softmaxes.add(i)
        scale = self._measured(call, data, i)
        if scale is not None:
            self._scales[i] = scale

    def read(self, operation: str, data: Sequence[int]) -> Product | None:
        """Return the classification of a product, or None if it is unknown."""
        if len(data) != 2 or operation not in ops.PRODUCTS | ops.CONTRACTIONS:
            return None
        one, two = data
        joint = self._of_two(operation, data)
        means = [self._scale(i).means for i in data]
        if joint and means[0] < means[1]:
            return self._normalised(joint, one, two)
        if joint and means[0] > means[1] and operation == "mul":
            return self._normalised(joint, two, one)
        if one == two and operation == "mul":
            return Product("pointwise", one)
        return self._gated(operation, one, two)

    def _normalised(self, joint: _Scale, value: int, statistic: int) -> Product:
        """Return the product of a value and a statistic of the same step."""
        if abs(joint.power) > 1e-9:
            return Product("homogeneous", value, (statistic,))
        carried = self._uncentred(value, joint.root)
        gates = (statistic,) if carried == value else (statistic, value)
        return Product("norm", carried, gates)

    def _gated(self, operation: str, one: int, two: int) -> Product | None:
        """Return the product of a gate and a value, or None if no factor is a gate."""
        levels = [self._level(one), self._level(two)]
        if operation in ops.CONTRACTIONS and max(levels) < 2:
            levels = [2 * self._mixes_heads(one), 2 * self._mixes_heads(two)]
        if max(levels) < 2 and self._source(one) != self._source(two):
            return None
        if levels[0] < levels[1]:
            return Product("homogeneous", one, (two,))
        if levels[0] > levels[1] and operation != "div":
            return Product("homogeneous", two, (one,))
        return None

    def _scale(self, i: int) -> _Scale:
        return self._scales.get(i, _Scale(i))

    def _measured(self, call: Call, data: Sequence[int], i: int) -> _Scale | None:
        step = self.steps[i]
        operands = [*step.reads, *step.gates]
        if step.kind == "sum":
            one, two = map(self._scale, data)
            if one.root != two.root or one.power != two.power:
                return None
            if one.means != two.means and call.operation != "add":
                self._centred[i] = data[0] if one.means < two.means else data[1]
            return dataclasses.replace(one, means=min(one.means, two.means))
        if call.operation in ops.PRODUCTS and len(data) == 2:
            if step.kind == "norm":
                return None
            return self._of_two(call.operation, data)
        if len(operands) != 1:
            return None
        return self._of_one(call, self._scale(operands[0]), step.kind)

    def _of_one(self, call: Call, of: _Scale, kind: OperationKind) -> _Scale | None:
        """Return the scale of the result of an operation on one value."""
        operation, number = call.operation, call.argument(1)
        known = isinstance(number, int | float)
        if operation in ops.STATISTICS:
            return _Scale(of.root, of.power * ops.STATISTICS[operation], of.means + 1)
        if operation in ops.POWERS:
            return dataclasses.replace(of, power=of.power * ops.POWERS[operation])
        if operation == "pow" and known:
            return dataclasses.replace(of, power=of.power * number)
        if operation == "div" and kind == "unknown":  # a constant over a value
            return dataclasses.replace(of, power=-of.power)
        if operation in ("add", "clamp", "clamp_min") and len(call.node.args) == 2:
            keeps = known and of.means > 0 and 0 <= number <= EPSILON
        else:
            keeps = kind in ("view", "homogeneous")
        return of if keeps else None

    def _of_two(self, operation: str, data: Sequence[int]) -> _Scale | None:
        """Return the scale of a product or quotient of two values with the same root step."""
        if operation not in ops.PRODUCTS or len(data) != 2:
            return None
        one, two = map(self._scale, data)
        if one.root != two.root:
            return None
        power = one.power + (two.power if operation == "mul" else -two.power)
        return _Scale(one.root, power, min(one.means, two.means))

    def _uncentred(self, i: int, root: int) -> int:
        """Return the value before its mean was subtracted, or the value itself if none was.

        The subtraction is also found if unary steps follow it. The search ends at step `root`.
        """
        before = i
        while i != root and (i in self._centred or self.steps[i].kind in UNARY):
            if i in self._centred:
                before = i = self._centred[i]
            else:
                i = self.steps[i].reads[0]
        return before

    def _chain(self, i: int) -> list[int]:
        """Return a step, the unary steps before it, and the first step that is not unary."""
        chain = [i]
        while self.steps[i].kind in UNARY:
            i = self.steps[i].reads[0]
            chain.append(i)
        return chain

    def _level(self, i: int) -> int:
        return max(self._levels.get(step, 0) for step in self._chain(i))

    def _mixes_heads(self, i: int) -> bool:
        """Return whether a value is the output of a layer that reads a result of softmax."""
        end = self.steps[self._chain(i)[-1]]
        if not end.weight or not end.reads:
            return False
        return not self._softmaxes.isdisjoint(self._chain(end.reads[0]))

    def _source(self, i: int) -> int:
        """Return the origin of a value; for the output of a layer, the origin of its input."""
        end = self._origins.get(i, i)
        if self.steps[end].weight:
            end = self.steps[end].reads[0]
        return self._origins.get(end, end)
