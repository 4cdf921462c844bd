"""The most frequent answers of the package, computed from the arrays of a table.

Every number is computed as the package computes it, in the same order.
"""

from __future__ import annotations

import functools
import math
import random
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rebench.tables.group import Group
from rebench.tables.layout import Key
from rebench.tables.table import Table

__all__ = ["Values", "eval_order"]

# Data set -> (the package's word, our split); other data sets are like CIFAR-100.
_WORDS: Final = {
    "cifar10-valid": (("valid", "x-valid"), ("test", "ori-test")),
    "cifar10": (("test", "ori-test"),),
}
_OTHER_WORDS: Final = (("valid", "x-valid"), ("test", "x-test"), ("valtest", "ori-test"))

# Epochs of the benchmark's short training, which a separate script evaluated.
_SHORT_EPOCHS: Final = 12


def eval_order(dataset: str, epochs: int) -> tuple[str, ...]:
    """Return the splits in the order in which the benchmark's trials list them."""
    if dataset == "cifar10-valid" or epochs == _SHORT_EPOCHS:
        return ("x-valid", "x-test", "ori-test")
    return ("ori-test", "x-valid", "x-test")


class Values:
    """Values of one table for one data set and number of epochs, on all splits."""

    def __init__(self, table: Table, dataset: str, epochs: int) -> None:
        self.table = table
        self.epochs = epochs
        words = _WORDS.get(dataset, _OTHER_WORDS)
        self._groups: dict[str, Group] = {}
        for split in ("train", *eval_order(dataset, epochs)):
            if Key(dataset, split, epochs) in table.run_keys:
                self._groups[split] = table.group(dataset, split, epochs)
        self._any = next(iter(self._groups.values()))
        # Means over unknown seeds belong to no trial. They are returned if the mean over trials is
        # requested.
        self._of_means: dict[str, Group] = {}
        self._trials: dict[str, Group] = {}
        for word, split in (("train", "train"), *words):
            if split in self._groups:
                self._trials[word] = self._groups[split]
            elif word != "train" and Key(dataset, split, epochs) in table.keys:
                self._of_means[word] = table.group(dataset, split, epochs)
        # The package's answers need the training metrics and, for cifar10-valid, the validation
        # metrics.
        self._complete = "train" in self._groups
        if dataset == "cifar10-valid" and "x-valid" not in self._groups:
            self._complete = False
        for group in self._groups.values():
            if group.seeds != self._any.seeds or (group.present != self._any.present).any():
                self._complete = False

    @property
    def has_training(self) -> bool:
        """Whether the table has metrics on the training images."""
        return "train" in self._groups

    @functools.cached_property
    def n(self) -> NDArray[np.int64]:
        """Number of trials of each cell."""
        if self._complete:
            return self._any.n
        frames = [pd.DataFrame(g.present, columns=g.seeds) for g in self._groups.values()]
        present = pd.concat(frames, axis=1).T.groupby(level=0).any()
        return present.sum(axis=0).to_numpy()

    def is_plain(self, split: str) -> NDArray[np.bool_]:
        """Return the cells for which `mean_accuracy` and the costs are the package's answers.

        The package raises an error if a trial lacks the split. If the costs of trials differ, the
        package uses a special rule.
        """
        if split in self._groups:
            return (self._groups[split].n == self.n) & self._costs_agree
        for group in self._of_means.values():
            if group.key.split == split:
                return (group.n > 0) & self._costs_agree
        return np.zeros(len(self.n), dtype=bool)

    def more_info(
        self, index: int, is_random: bool | int, comment: str | None
    ) -> dict[str, Any] | None:
        """Return the result of the package's ``get_more_info``, or None if its own code must run.

        If a table has no training metrics, the result contains its other metrics. `comment` is the
        package's remark on CIFAR-10.
        """
        if self.has_training and not self._complete:
            return None
        held = {}
        for word, group in self._trials.items():
            held[word] = group.by_seed("accuracy", index)
        chosen = sorted(set().union(*held.values()))
        if is_random is True and chosen:
            chosen = [random.choice(chosen)]  # noqa: S311 - what the package draws with
        elif is_random is not False:
            chosen = [is_random]
        info: dict[str, Any] = {}
        for word, group in self._trials.items():
            kept = [seed for seed in chosen if seed in held[word]]
            if not kept:
                continue
            columns = (group.by_seed("loss", index), held[word], self._times(group, index))
            loss, accuracy, seconds = (
                sum(values[seed] for seed in kept) / len(kept) for values in columns
            )
            self._add(info, word, loss, accuracy, seconds)
            if comment is not None and "comment" not in info:
                info["comment"] = comment  # after training, before evaluations
        return info or None

    def _add(
        self, info: dict[str, Any], word: str, loss: float, accuracy: float, seconds: float
    ) -> None:
        info[f"{word}-loss"] = loss
        info[f"{word}-accuracy"] = accuracy
        is_timed = not math.isnan(seconds)
        info[f"{word}-per-time"] = seconds / self.epochs if is_timed else None
        info[f"{word}-all-time"] = seconds if is_timed else None

    def _times(self, group: Group, index: int) -> dict[int, float]:
        """Return the time of all epochs of each trial, added as the package adds equal epochs."""
        seconds = group.by_seed("seconds", index)
        for seed, epoch in group.by_seed("epoch_seconds", index).items():
            total = sum([epoch] * self.epochs)
            if math.isclose(total, seconds[seed], rel_tol=1e-9):
                seconds[seed] = total
        return seconds

    def means_info(self, index: int) -> dict[str, Any]:
        """Return the metrics of the splits that have only means over seeds."""
        info: dict[str, Any] = {}
        for word, group in self._of_means.items():
            if group.n[index]:
                loss, accuracy = group.mean("loss")[index], group.mean("accuracy")[index]
                self._add(info, word, float(loss), float(accuracy), math.nan)
        return info

    def lacks(self, name: str) -> bool:
        """Return whether a metric belongs to a split that has no runs in the table."""
        return name.partition("-")[0] not in self._trials and name != "comment"

    def cost_info(self, index: int) -> dict[str, Any]:
        """Return the result of the package's ``get_cost_info``."""
        latency = float(self._any.latency[index])
        info: dict[str, Any] = {
            "flops": float(self.flops[index]),
            "params": float(self.params[index]),
            "latency": None if math.isnan(latency) else latency,
        }
        for split, group in self._groups.items():
            totals = list(self._times(group, index).values())
            info[f"T-{split}@epoch"] = info[f"T-{split}@total"] = None
            if totals and not math.isnan(totals[0]):
                info[f"T-{split}@epoch"] = sum(t / self.epochs for t in totals) / len(totals)
                info[f"T-{split}@total"] = sum(totals) / len(totals)
        return info

    def mean_accuracy(self, split: str) -> NDArray[np.float64]:
        """Return every cell's mean accuracy on a split, NaN without a value."""
        for group in (*self._groups.values(), *self._of_means.values()):
            if group.key.split == split:
                return group.mean("accuracy")
        return np.full(len(self.n), np.nan)

    @functools.cached_property
    def flops(self) -> NDArray[np.float64]:
        """Every cell's MFLOPs."""
        return self._any.network_cost("mflops")

    @functools.cached_property
    def params(self) -> NDArray[np.float64]:
        """Every cell's parameters in millions."""
        return self._any.network_cost("params_m")

    @functools.cached_property
    def _costs_agree(self) -> NDArray[np.bool_]:
        """Mask [cells]: whether all trials of a cell have the same network cost."""
        group = self._any
        agree = np.ones(len(group.present), dtype=bool)
        for name in ("mflops", "params_m"):
            written = np.round(group.column(name), 5)
            low = np.where(group.present, written, np.inf).min(axis=1)
            high = np.where(group.present, written, -np.inf).max(axis=1)
            agree &= ~(low < high)
        return agree
