"""The package's most frequent answers straight from a table's arrays.

Every number is computed as the package computes it, in the same order, so it is equal to the bit.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rebench.tables.group import Group
from rebench.tables.layout import Key
from rebench.tables.table import Table

__all__ = ["Values", "eval_order"]

# Splits of the package's words, by data set; other data sets are like CIFAR-100.
_WORDS: Final = {
    "cifar10-valid": (("valid", "x-valid"), ("test", "ori-test")),
    "cifar10": (("test", "ori-test"),),
}
_OTHER_WORDS: Final = (("valid", "x-valid"), ("test", "x-test"), ("valtest", "ori-test"))

# The benchmark's short training, which another script evaluated.
_SHORT_EPOCHS: Final = 12


def eval_order(dataset: str, epochs: int) -> tuple[str, ...]:
    """Return the splits in the order in which the benchmark's trials list them."""
    if dataset == "cifar10-valid" or epochs == _SHORT_EPOCHS:
        return ("x-valid", "x-test", "ori-test")
    return ("ori-test", "x-valid", "x-test")


class Values:
    """One (data set, epochs) of one table, all its splits."""

    def __init__(self, table: Table, dataset: str, epochs: int) -> None:
        self.table = table
        self.epochs = epochs
        held = {k.split for k in table.run_keys if (k.dataset, k.epochs) == (dataset, epochs)}
        self._groups: dict[str, Group] = {
            split: table.group(dataset, split, epochs)
            for split in ("train", *eval_order(dataset, epochs))
            if split in held
        }
        self._any = next(iter(self._groups.values()))
        words = _WORDS.get(dataset, _OTHER_WORDS)
        # Means over unknown seeds belong to no trial: they are answers for the mean over trials.
        self._of_means = {
            word: table.group(dataset, split, epochs)
            for word, split in words
            if split not in held and Key(dataset, split, epochs) in table.keys
        }
        self._words = [
            ("train", "train"),
            *((word, split) for word, split in words if split in held),
        ]
        answers = ("loss", "accuracy", "per-time", "all-time")
        self._answers = [tuple(f"{word}-{name}" for name in answers) for word, _ in self._words]
        # The package's answers need the training metrics, and a validation for cifar10-valid.
        required = {"train", "x-valid"} if dataset == "cifar10-valid" else {"train"}
        self._complete = required <= held and all(
            group.seeds == self._any.seeds and np.array_equal(group.present, self._any.present)
            for group in self._groups.values()
        )
        self._whole = self._any.n == len(self._any.seeds)

    @property
    def has_training(self) -> bool:
        """Whether the table holds metrics on the training images."""
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

        The package raises an error if a trial lacks the split, or lacks its times and has those of
        another split. For costs that disagree it has its rule.
        """
        group = self._groups.get(split)
        if group is None:
            means = [held for held in self._of_means.values() if held.key.split == split]
            nowhere = np.zeros(len(self._any.present), dtype=bool)
            return (means[0].n > 0) & self._costs_agree if means else nowhere
        plain: NDArray[np.bool_] = (group.n == self.n) & self._costs_agree
        if split == "train":
            return plain
        timed = [
            (g.present & ~np.isnan(g.column("seconds"))).any(axis=1)
            for name, g in self._groups.items()
            if name != "train"
        ]
        own = (~group.present | ~np.isnan(group.column("seconds"))).all(axis=1)
        plain &= own | ~np.any(timed, axis=0)
        return plain

    def more_info(
        self, index: int, is_random: bool | int, comment: str | None
    ) -> dict[str, Any] | None:
        """Return the package's ``get_more_info``, or None where its code must answer.

        Its remark on CIFAR-10, `comment`, is placed between training and evaluations.
        """
        if not self._complete:
            return None
        seeds: Sequence[int] = self._any.seeds
        places: list[int] | None = None
        if not self._whole[index]:
            places = np.flatnonzero(self._any.present[index]).tolist()
            seeds = [seeds[place] for place in places]
        if is_random is True:
            is_random = random.choice(seeds)  # noqa: S311 - what the package draws with
        if is_random is False:
            trials = self._matrix[index].tolist()
            kept = trials if places is None else [trials[place] for place in places]
            numbers = iter([sum(values) / len(kept) for values in zip(*kept, strict=True)])
        elif is_random in seeds:
            numbers = iter(self._matrix[index, self._any.seeds.index(is_random)].tolist())
        else:
            return None
        info: dict[str, Any] = {}
        for loss, accuracy, per_time, all_time in self._answers:
            info[loss], info[accuracy], seconds = next(numbers), next(numbers), next(numbers)
            timed = seconds == seconds  # not NaN
            info[per_time] = seconds / self.epochs if timed else None
            info[all_time] = seconds if timed else None
            if comment is not None and loss == "train-loss":
                info["comment"] = comment
        return info

    def known_info(
        self, index: int, is_random: bool | int, comment: str | None
    ) -> dict[str, Any] | None:
        """Return the metrics that the table has, as ``get_more_info`` names them.

        It is for tables without training metrics. None where no split has the seed `is_random`.
        """
        trials = {word: self._groups[split] for word, split in self._words if split in self._groups}
        seeds = {
            seed
            for group in trials.values()
            for seed, present in zip(group.seeds, group.present[index].tolist(), strict=True)
            if present
        }
        if is_random is True:
            is_random = random.choice(sorted(seeds))  # noqa: S311 - as the package draws
        info: dict[str, Any] = {} if comment is None else {"comment": comment}
        for word, group in trials.items():
            for name, key in (("loss", "loss"), ("accuracy", "accuracy"), ("seconds", "all-time")):
                held = group.by_seed(name, index)
                if is_random is not False and is_random not in held:
                    continue
                kept = list(held.values()) if is_random is False else [held[is_random]]
                value = sum(kept) / len(kept) if kept else math.nan
                if key != "all-time":
                    info[f"{word}-{key}"] = value
                else:
                    timed = value == value  # not NaN
                    info[f"{word}-per-time"] = value / self.epochs if timed else None
                    info[f"{word}-all-time"] = value if timed else None
        return info if seeds and len(info) > (comment is not None) else None

    def means_info(self, index: int) -> dict[str, Any]:
        """Return the metrics of splits with means over seeds only."""
        info: dict[str, Any] = {}
        for word, group in self._of_means.items():
            if group.n[index]:
                info |= {
                    f"{word}-loss": float(group.mean("loss")[index]),
                    f"{word}-accuracy": float(group.mean("accuracy")[index]),
                    f"{word}-per-time": None,
                    f"{word}-all-time": None,
                }
        return info

    def lacks(self, name: str) -> bool:
        """Whether a metric is of a split of which the table has no runs."""
        words = {word for word, _ in self._words if word != "train" or self.has_training}
        return name.partition("-")[0] not in words and name != "comment"

    @functools.cached_property
    def _matrix(self) -> NDArray[np.float64]:
        """Loss, accuracy and seconds of every word's split, as [cell, seed, 3 * words]."""
        names = ("loss", "accuracy", "seconds")
        present = self._any.present
        values = np.full((present.size, len(self._words) * len(names)), np.nan)
        for place, (_, split) in enumerate(self._words):
            of_word = slice(place * len(names), (place + 1) * len(names))
            self._groups[split].fill(values[:, of_word], names)
        return values.reshape(*present.shape, -1)

    def latency(self, index: int) -> float | None:
        """The mean of the latencies that were measured, in seconds."""
        value = float(self._any.latency[index])
        return None if math.isnan(value) else value

    def cost_info(self, index: int) -> dict[str, Any]:
        """The package's ``get_cost_info``."""
        info: dict[str, Any] = {
            "flops": float(self.flops[index]),
            "params": float(self.params[index]),
            "latency": self.latency(index),
        }
        for split, group in self._groups.items():
            totals = group.column("seconds")[index][group.present[index]].tolist()
            per_epoch = [total / self.epochs for total in totals]
            known = bool(totals) and not math.isnan(totals[0])
            info[f"T-{split}@epoch"] = sum(per_epoch) / len(totals) if known else None
            info[f"T-{split}@total"] = sum(totals) / len(totals) if known else None
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
        """Whether all trials of a cell agree about the cost of the network."""
        group = self._any
        agree = np.ones(len(group.present), dtype=bool)
        for name in ("mflops", "params_m"):
            written = np.round(group.column(name), 5)
            low, high = (np.where(group.present, written, end) for end in (np.inf, -np.inf))
            agree &= ~(low.min(axis=1) < high.max(axis=1))
        return agree
