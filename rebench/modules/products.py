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

from collections.abc import Sequence
from typing import Final

from rebench.modules import operations as ops
from rebench.modules.operations import UNARY
from rebench.modules.steps import Scale, Step
from rebench.modules.tracing import Call

__all__ = ["note", "product"]

EPSILON: Final = 0.01
"""Largest constant that may be added to a statistic without changing its scale."""


def note(call: Call, data: Sequence[Step], step: Step) -> None:
    """Note what is known of `step`, the result of `call` on `data`."""
    step.operation = call.operation
    origins = {read.origin for read in step.reads}
    if len(origins) == 1 and step.kind in UNARY | {"sum", "unknown"}:
        (step.origin,) = origins
    softmax_written_out = step.kind == "norm" and step.reads[0].operation == "exp"
    step.is_softmax = step.operation == "softmax" or softmax_written_out
    if step.operation in ops.GATES or softmax_written_out:
        step.level = 2
    elif step.operation in ops.ACTIVATIONS:
        step.level = 1
    elif step.kind == "homogeneous" and {gate.origin for gate in step.gates} == origins:
        step.level = 1  # an activation, written out
    if step.kind in UNARY:
        step.level = max(step.level, step.reads[0].level)
        step.is_softmax |= step.reads[0].is_softmax
    scale = _scale(call, data, step)
    if scale is not None:
        step.scale = scale


def product(operation: str, data: Sequence[Step]) -> Step | None:
    """Return the step of a product, or None if its paths are unknown."""
    if len(data) != 2 or operation not in ops.PRODUCTS | ops.CONTRACTIONS:
        return None
    one, two = data
    joint = _scale_of_two(operation, one, two)
    if joint and one.scale.means < two.scale.means:
        return _normalised(joint, one, two)
    if joint and one.scale.means > two.scale.means and operation == "mul":
        return _normalised(joint, two, one)
    if one is two and operation == "mul":
        return Step("pointwise", [one])
    return _gated(operation, one, two)


def _normalised(joint: Scale, value: Step, statistic: Step) -> Step:
    """Return the product of a value and a statistic of the same step."""
    if abs(joint.power) > 1e-9:
        return Step("homogeneous", [value], gates=[statistic])
    # The value before its mean was subtracted, perhaps with unary steps after the subtraction.
    carried = before = value
    while before is not joint.root and (before.centred or before.kind in UNARY):
        if before.centred:
            carried = before = before.centred
        else:
            before = before.reads[0]
    gates = [statistic]
    if carried is not value:
        gates.append(value)
    return Step("norm", [carried], gates=gates)


def _gated(operation: str, one: Step, two: Step) -> Step | None:
    """Return the product of a gate and a value, or None if no factor is a gate."""
    first, second = one.level, two.level
    if operation in ops.CONTRACTIONS and max(first, second) < 2:
        first = 2 * _mixes_heads(one)
        second = 2 * _mixes_heads(two)
    if max(first, second) < 2 and _source(one) is not _source(two):
        return None
    if first < second:
        return Step("homogeneous", [one], gates=[two])
    if first > second and operation != "div":
        return Step("homogeneous", [two], gates=[one])
    return None


def _mixes_heads(step: Step) -> bool:
    """Return whether a value is the output of a layer that reads a result of softmax."""
    return step.root.weight is not None and step.root.reads[0].is_softmax


def _source(step: Step) -> Step:
    """Return the origin of a value; for the output of a layer, the origin of its input."""
    if step.origin.weight:
        return step.origin.reads[0].origin
    return step.origin


def _scale(call: Call, data: Sequence[Step], step: Step) -> Scale | None:
    if step.kind == "sum":
        less, more = sorted(data, key=lambda term: term.scale.means)
        if (less.scale.root, less.scale.power) != (more.scale.root, more.scale.power):
            return None
        if less.scale.means < more.scale.means and call.operation != "add":
            step.centred = less
        return less.scale
    if call.operation in ops.PRODUCTS and len(data) == 2:
        if step.kind == "norm":
            return None
        return _scale_of_two(call.operation, *data)
    operands = [*step.reads, *step.gates]
    if len(operands) != 1:
        return None
    return _scale_of_one(call, operands[0].scale, step)


def _scale_of_one(call: Call, of: Scale, step: Step) -> Scale | None:
    """Return the scale of the result of an operation on one value."""
    operation, number = call.operation, call.argument(1)
    is_number = isinstance(number, int | float)
    if operation in ops.STATISTICS:
        return Scale(of.root, of.power * ops.STATISTICS[operation], of.means + 1)
    power = ops.POWERS.get(operation)
    if operation == "pow" and is_number:
        power = number
    elif operation == "div" and step.kind == "unknown":  # a constant over a value
        power = -1.0
    elif operation in ("add", "clamp", "clamp_min") and len(call.node.args) == 2:
        if is_number and of.means > 0 and 0 <= number <= EPSILON:
            power = 1.0
    elif step.kind in ("view", "homogeneous"):
        power = 1.0
    if power is None:
        return None
    return Scale(of.root, of.power * power, of.means)


def _scale_of_two(operation: str, one: Step, two: Step) -> Scale | None:
    """Return the scale of a product or quotient of two values with the same root step."""
    if operation not in ops.PRODUCTS or one.scale.root is not two.scale.root:
        return None
    power = two.scale.power
    if operation == "div":
        power = -power
    means = min(one.scale.means, two.scale.means)
    return Scale(one.scale.root, one.scale.power + power, means)
