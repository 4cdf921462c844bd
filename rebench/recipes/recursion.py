"""Exact effect of one step of gradient descent on an infinitely wide graph.

`exact_update` computes second moments in many graphs at once: forward (E z^2), backward
(E (n df/dz)^2) and of the first update (E dz^2). `docs/explanation/recursion.md` contains the
derivation, its assumptions and its approximations. Arrays are [graphs, target, source].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cells.ops import AVG_POOL
from rebench.errors import InputError
from rebench.recipes.graph import Architecture

__all__ = ["ExactUpdate", "Graphs", "carried_by_skips", "degree_gains", "exact_update"]

Array: TypeAlias = NDArray[np.float64]

# Fraction of a ReLU's second moment after batch normalisation, which subtracts the batch mean.
_CENTRED = 1 - 1 / np.pi


@dataclass(frozen=True, slots=True, kw_only=True)
class Graphs:
    """Graphs of equal size as arrays, without their dead edges.

    `layers` marks the edges with weights. `skips` is the factor of each identity edge, 0 elsewhere.
    `degrees` is the live in-degree of each vertex, 1 for vertex 0.
    """

    layers: NDArray[np.bool_]
    skips: Array
    degrees: Array

    @classmethod
    def of(
        cls,
        graphs: Sequence[Architecture],
        *,
        scale_skips: bool = False,
        pool_gain: float = 1.0,
    ) -> Graphs:
        """Read cells or graph codes of one size; `scale_skips` multiplies skips by d^-1/2."""
        sizes = {graph.n_vertices for graph in graphs}
        if len(sizes) != 1:
            raise InputError(f"graphs must be of one size, got {sorted(sizes)} vertices")
        shape = (len(graphs), n := sizes.pop(), n)
        layers, skips = np.zeros(shape, dtype=bool), np.zeros(shape)
        for row, graph in enumerate(graphs):
            for target, source, op in graph.edges(live=True):
                if op in graph.LAYERS:
                    layers[row, target, source] = True
                else:  # a graph code has no pools
                    skips[row, target, source] += pool_gain if op == AVG_POOL else 1.0
        degrees = np.array([(1.0, *graph.in_degrees(live=True)) for graph in graphs])
        if scale_skips:
            skips = skips / np.sqrt(np.maximum(degrees, 1))[:, :, None]
        return cls(layers=layers, skips=skips, degrees=degrees)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactUpdate:
    """Second moments by graph and vertex; `updates` is E dz^2 at learning rate 1, residual 1."""

    forward: Array
    backward: Array
    updates: Array

    @property
    def learning_rate(self) -> Array:
        """Rate at which E dz^2 of the output vertex is 1; infinite without a path."""
        with np.errstate(divide="ignore"):
            rate: Array = self.updates[:, -1] ** -0.5
        return rate


def degree_gains(
    graphs: Graphs, degree: Literal["source", "target", "none"], *, relu_mean: bool = False
) -> Array:
    """Return C of the init N(0, C / fan_in) for every edge: 2 / d with the live in-degree d.

    With `relu_mean`, C = 2 / (d + d (d - 1) / pi). This accounts for the nonzero mean of the d
    added ReLU outputs.
    """
    d = np.ones_like(graphs.degrees)
    if degree != "none":
        d = np.maximum(graphs.degrees, 1)
    gains = 2 / d
    if relu_mean:
        gains = 2 / (d + d * (d - 1) / np.pi)
    axis = 1 if degree == "source" else 2
    return np.broadcast_to(np.expand_dims(gains, axis), graphs.layers.shape)


def carried_by_skips(graphs: Graphs) -> Array:
    """Return [graphs, v, u]: the factor of vertex u in v through only skips; 1 for u = v."""
    return np.linalg.inv(np.eye(graphs.skips.shape[1]) - graphs.skips).astype(np.float64)


def exact_update(
    graphs: Graphs, gains: Array, *, batch_norm: bool = False, stem: bool = True
) -> ExactUpdate:
    """Compute the second moments of all `graphs` for weights from N(0, gains / fan_in).

    With `batch_norm`, every layer's output is centred and scaled to variance 1. The init then does
    not scale the signal; it divides the layer's part of the update. Vertex 0 is the output of a
    trained `stem`; without a stem, it is the input, of equal size, which does not move.
    """
    carried = carried_by_skips(graphs)
    layers, n = graphs.layers, graphs.layers.shape[1]
    passed = np.zeros_like(gains)  # gain of the signal on each edge
    direct = np.zeros_like(gains)  # part of dz from the update of each edge's weights
    fresh = np.zeros(gains.shape[:2])  # variance that enters each vertex from new weights
    forward = np.zeros_like(fresh)
    kept = _CENTRED / 2 if batch_norm else 0.5  # fraction of a vertex's moment after its ReLU
    fresh[:, 0] = 1.0 if batch_norm else 2.0
    for v in range(n):
        if v:
            fresh[:, v] = (passed[:, v] * forward * kept).sum(axis=1)
        forward[:, v] = (carried[:, v] ** 2 * fresh).sum(axis=1)
        out = layers[:, :, v]
        moment = forward[:, v, None]
        if batch_norm:
            passed[:, :, v] = out * _divide(2 / _CENTRED, moment)
            direct[:, :, v] = out / gains[:, :, v]
        else:
            passed[:, :, v] = out * gains[:, :, v]
            direct[:, :, v] = out * moment / 2

    # back: E G^2 of the gradient that enters each vertex from new weights, before the ReLU's mask.
    back, backward = np.zeros_like(fresh), np.zeros_like(fresh)
    back[:, -1] = 1.0
    for v in reversed(range(n)):
        back[:, v] += (passed[:, :, v] * backward).sum(axis=1)
        backward[:, v] = (carried[:, :, v] ** 2 * back / 2).sum(axis=1)

    both = _both_positive((carried * fresh[:, None, :]) @ carried.transpose(0, 2, 1))
    aligned, noise = np.zeros_like(fresh), np.zeros_like(fresh)
    updates, masked = np.zeros_like(fresh), np.zeros_like(fresh)
    own = np.zeros_like(fresh)
    if stem:
        aligned[:, 0] = 0.5 if batch_norm else 1.0
    for v in range(n):
        if v:
            share = direct[:, v] + passed[:, v] * own / 2
            aligned[:, v] = (share * layers[:, v]).sum(axis=1)
            noise[:, v] = (passed[:, v] * masked).sum(axis=1)
        # [graphs, x]: component of dz_v along the masked gradient of vertex x.
        along = ((carried[:, v] * aligned)[:, None, :] @ carried.transpose(0, 2, 1))[:, 0]
        drift = (carried[:, v] ** 2 * noise).sum(axis=1)
        own[:, v] = along[:, v]
        updates[:, v] = (along**2 * back / 2).sum(axis=1) + drift
        masked[:, v] = (along**2 * back * both[:, v]).sum(axis=1) + drift / 2
    return ExactUpdate(forward=forward, backward=backward, updates=updates)


def _both_positive(covariance: Array) -> Array:
    """Return P(z_v > 0 and z_w > 0) of jointly Gaussian vertices."""
    variance = np.einsum("gvv->gv", covariance)
    scale = np.sqrt(variance[:, :, None] * variance[:, None, :])
    correlation = np.clip(_divide(covariance, scale), -1, 1)
    return np.asarray(0.25 + np.arcsin(correlation) / (2 * np.pi))


def _divide(numerator: Array | float, denominator: Array) -> Array:
    """Divide; a denominator of 0 (a vertex without input) gives 0."""
    quotient: Array = np.zeros(np.broadcast_shapes(np.shape(numerator), denominator.shape))
    return np.divide(numerator, denominator, out=quotient, where=denominator > 0)
