"""Registry of laws by name, with their full and small settings."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar, get_type_hints

from pydantic import TypeAdapter, ValidationError

from experiments.laws import alignment, am_mup, base_lr, cells, dag, depth, released, speed
from experiments.laws.pieces import Pieces
from experiments.laws.result import LawResult, Measured, read_toml
from rebench.errors import InputError, UnknownNameError

Settings = TypeVar("Settings")
_MEASURES: Final[Mapping[str, Callable[[Any, Pieces], Measured]]] = {
    "depth": depth.measure,
    "dag": dag.measure,
    "released": released.measure,
    "cells": cells.measure,
    "bafu": alignment.measure,
    "fsc": speed.measure,
    "am-mup": am_mup.measure,
    "base-lr": base_lr.measure,
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """Measurement with its settings; `laws.toml` describes each law."""

    name: str
    title: str
    summary: str
    full: Any
    small: Any
    part: Any = None
    paper: bool = True
    hours: bool = False

    @classmethod
    def listed(cls, name: str, entry: Mapping[str, Any]) -> Law:
        """Return the law of an entry of the file."""
        settings = TypeAdapter(get_type_hints(_MEASURES[name])["settings"])
        sizes = {size: entry[size] for size in ("small", "part") if size in entry} | {"full": {}}
        read = {size: settings.validate_python(values) for size, values in sizes.items()}
        return cls(name=name, **{**entry, **read})

    def measure(self, settings: object, pieces: Pieces | None = None) -> LawResult:
        """Measure the law; finished pieces are kept if `pieces` has a folder."""
        tables, verdicts = _MEASURES[self.name](settings, pieces or Pieces())
        return LawResult(law=self.name, title=self.title, tables=tables, verdicts=verdicts)


LAWS: Final = {name: Law.listed(name, entry) for name, entry in read_toml("laws").items()}


def law(name: str) -> Law:
    """Return the law with this name."""
    if name not in LAWS:
        raise UnknownNameError("law", name, LAWS)
    return LAWS[name]


def listed_settings(settings: object, before: str = "") -> dict[str, object]:
    """Return every setting by its key for `--set`; inner keys follow a dot."""
    rows: dict[str, object] = {}
    for field in dataclasses.fields(settings):  # type: ignore[arg-type]  # one of a law
        value = getattr(settings, field.name)
        if dataclasses.is_dataclass(value):
            rows |= listed_settings(value, f"{before}{field.name}.")
        else:
            rows[before + field.name] = value
    return rows


def with_settings(settings: Settings, assignments: Iterable[str]) -> Settings:
    """Apply ``key=value`` texts to settings; values of a list are separated by commas."""
    for text in assignments:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals:
            raise InputError(f"a setting is written KEY=VALUE, got {text!r}")
        if key not in (known := listed_settings(settings)):
            raise UnknownNameError("setting", key, known)
        values = dataclasses.asdict(settings)  # type: ignore[call-overload]  # one of a law
        *outer, name = key.split(".")
        inner = functools.reduce(operator.getitem, outer, values)
        inner[name] = None if value.lower() == "none" else value
        if isinstance(known[key], tuple):
            inner[name] = [part for part in value.split(",") if part]
        try:
            settings = TypeAdapter(type(settings)).validate_python(values)
        except ValidationError as error:
            said = error.errors()[0]["msg"]
            raise InputError(f"{key}={value}: {said[:1].lower()}{said[1:]}") from error
    return settings
