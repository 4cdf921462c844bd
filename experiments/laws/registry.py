"""Every law by name: what it measures, its full and its small settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from experiments.laws import (
    alignment,
    am_mup,
    base_lr,
    cells,
    coordinates,
    dag,
    depth,
    released,
    speed,
)
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
    "coordinates": coordinates.measure,
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """A measurement, and the settings it is made at: `laws.toml` says what each is."""

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
        """The law of an entry of the file."""
        settings = TypeAdapter(get_type_hints(_MEASURES[name])["settings"])
        sizes = {size: entry[size] for size in ("small", "part") if size in entry} | {"full": {}}
        read = {size: settings.validate_python(values) for size, values in sizes.items()}
        return cls(name=name, **{**entry, **read})

    def measure(self, settings: object, pieces: Pieces | None = None) -> LawResult:
        """Measure it; finished pieces are kept where `pieces` has a folder."""
        tables, verdicts = _MEASURES[self.name](settings, pieces or Pieces())
        return LawResult(law=self.name, title=self.title, tables=tables, verdicts=tuple(verdicts))


LAWS: Final = {name: Law.listed(name, entry) for name, entry in read_toml("laws").items()}


def law(name: str) -> Law:
    """The law of a name."""
    if name not in LAWS:
        raise UnknownNameError("law", name, LAWS)
    return LAWS[name]


def listed_settings(settings: object, before: str = "") -> dict[str, object]:
    """Every setting by the key that `--set` takes, inner ones behind a dot."""
    rows: dict[str, object] = {}
    for field in dataclasses.fields(settings):  # type: ignore[arg-type]  # one of a law
        value = getattr(settings, field.name)
        if dataclasses.is_dataclass(value):
            rows |= listed_settings(value, f"{before}{field.name}.")
        else:
            rows[before + field.name] = value
    return rows


def with_settings(settings: Settings, assignments: Iterable[str]) -> Settings:
    """Settings with ``key=value`` texts applied; a list's values are separated by commas."""
    for text in assignments:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals:
            raise InputError(f"a setting is written KEY=VALUE, got {text!r}")
        if key not in (known := listed_settings(settings)):
            raise UnknownNameError("setting", key, known)
        settings = _replaced(settings, key, value, key)
    return settings


def _replaced(settings: Settings, key: str, text: str, whole: str) -> Settings:
    name, _, inner = key.partition(".")
    if inner:
        value = _replaced(getattr(settings, name), inner, text, whole)
    else:
        value = _parsed(get_type_hints(type(settings))[name], text, whole)
    return dataclasses.replace(settings, **{name: value})  # type: ignore[type-var]


def _parsed(kind: Any, text: str, key: str) -> Any:
    if text.lower() == "none" and type(None) in get_args(kind):
        return None
    parts: object = text
    if get_origin(kind) is tuple:
        parts = [part for part in text.split(",") if part]
    try:
        return TypeAdapter(kind).validate_python(parts)
    except ValidationError as error:
        said = error.errors()[0]["msg"]
        raise InputError(f"{key}={text}: {said[:1].lower()}{said[1:]}") from error
