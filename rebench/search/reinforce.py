"""REINFORCE (Williams, 1992; Zoph and Le, 2017): policy gradient for each choice."""

from __future__ import annotations

import numpy as np

from rebench.errors import InputError
from rebench.search.base import Problem, Query, Searcher, register

__all__ = ["Reinforce"]

_BETA1 = 0.9
_BETA2 = 0.999
_EPSILON = 1e-8


@register("reinforce")
class Reinforce(Searcher):
    """Policy gradient with a softmax for the operations of each edge, Adam and a baseline.

    The settings are the benchmark's: learning rate 0.01, moving-average baseline with momentum 0.9.
    On a restricted space the policy is conditioned on the cells of the space. Its gradient is the
    indicator of the drawn cell minus the expected indicator. On the whole space this is the usual
    softmax gradient.
    """

    def __init__(
        self,
        problem: Problem,
        generator: np.random.Generator,
        learning_rate: float = 0.01,
        momentum: float = 0.9,
    ) -> None:
        super().__init__(problem, generator)
        if not 0 <= momentum < 1:
            raise InputError(f"momentum must be in [0, 1), got {momentum}")
        self.learning_rate = learning_rate
        self.momentum = momentum
        # One number for each value of each choice, choice after choice.
        self.ends = np.cumsum(self.space.levels)
        self.logits = np.zeros(self.ends[-1])
        self.expected = np.repeat(1 / np.array(self.space.levels), self.space.levels)
        self.mean = np.zeros(self.ends[-1])
        self.square = np.zeros(self.ends[-1])
        self.steps = 0
        self.average = 0.0

    def ask(self) -> Query:
        """Draw a cell from the policy."""
        draw = self._draw_choices if self.space.is_whole else self._draw_cell
        return Query(draw(), self.problem.signal)

    def _draw_choices(self) -> int:
        uniform = self.generator.random(len(self.ends))
        drawn = []
        begin = 0
        for end, chance in zip(self.ends, uniform, strict=True):
            logits = self.logits[begin:end]
            weights = np.exp(logits - logits.max())
            self.expected[begin:end] = weights / weights.sum()
            passed = int((self.expected[begin:end].cumsum() < chance).sum())
            drawn.append(min(passed, end - begin - 1))
            begin = end
        return self.space.position_of(np.array(drawn))

    def _draw_cell(self) -> int:
        scores = self.space.one_hot @ self.logits
        weights = np.exp(scores - scores.max())
        cumulative = weights.cumsum()
        total = cumulative[-1]
        self.expected = weights @ self.space.one_hot / total
        drawn = self.generator.random() * total
        place = np.searchsorted(cumulative, drawn, side="right")
        return min(int(place), len(self.space) - 1)

    def tell(self, query: Query, value: float) -> None:
        """Take one Adam step along the advantage-weighted gradient."""
        self.steps += 1
        self.average = self.momentum * self.average + (1 - self.momentum) * value
        baseline = self.average / (1 - self.momentum**self.steps)
        drawn = self.space.one_hot[query.position]
        ascent = (value - baseline) * (drawn - self.expected)
        self.mean = _BETA1 * self.mean + (1 - _BETA1) * ascent
        self.square = _BETA2 * self.square + (1 - _BETA2) * ascent**2
        mean = self.mean / (1 - _BETA1**self.steps)
        square = self.square / (1 - _BETA2**self.steps)
        step = self.learning_rate * mean / (np.sqrt(square) + _EPSILON)
        self.logits = self.logits + step
