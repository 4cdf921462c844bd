"""Every law by name: what it measures, its full and its small settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
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
from experiments.laws.result import LawResult
from rebench.errors import InputError, UnknownNameError

Settings = TypeVar("Settings")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """A measurement, and the settings it is made at."""

    name: str
    summary: str
    measure: Callable[[Any, Pieces], LawResult]
    full: Any
    small: Any  # under a minute
    part: Any = None  # what `all` measures where the full settings take hours
    paper: bool = True  # what a paper states, and so a part of `all`
    hours: bool = False  # at its full settings


LAWS: Final = {
    law.name: law
    for law in (
        Law(name="depth", measure=depth.measure, full=depth.FULL, small=depth.SMALL,
            summary="One step's update grows like L^3, so the learning rate falls like L^-3/2."),
        Law(name="dag", measure=dag.measure, full=dag.FULL, small=dag.SMALL,
            summary="Architecture-aware rule: init, one step, kernels, maximal rates."),
        Law(name="released", measure=released.measure, full=released.FULL, small=released.SMALL,
            part=released.PART, hours=True,
            summary="The same rule in the network of its released code, from one base rate."),
        Law(name="cells", measure=cells.measure, full=cells.FULL, small=cells.SMALL, hours=True,
            summary="Cells with batch normalisation: their maximal rates beside every rule."),
        Law(name="bafu", measure=alignment.measure, full=alignment.FULL, small=alignment.SMALL,
            summary="Backward-aligned feature updates: identity, alignment, control, invariance."),
        Law(name="fsc", measure=speed.measure, full=speed.FULL, small=speed.SMALL,
            summary="Feature speed: updates and sensitivity by layer, and by scaling."),
        Law(name="am-mup", measure=am_mup.measure, full=am_mup.FULL, small=am_mup.SMALL,
            summary="AM-muP: the network-wide mean update, and transfer across depth."),
        Law(name="base-lr", measure=base_lr.measure, full=base_lr.FULL, small=base_lr.SMALL,
            paper=False,
            summary="The base maximal learning rate of a network, by the paper's procedure."),
        Law(name="coordinates", measure=coordinates.measure, full=coordinates.FULL,
            small=coordinates.SMALL, paper=False,
            summary="muP's promise: training moves each layer alike at every width."),
    )
}  # fmt: skip


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
        key, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"a setting is written KEY=VALUE, got {text!r}")
        settings = _replaced(settings, key.strip(), value.strip(), key.strip())
    return settings


def _replaced(settings: Settings, key: str, text: str, whole: str) -> Settings:
    name, _, inner = key.partition(".")
    known = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}  # type: ignore[arg-type]
    if name not in known or dataclasses.is_dataclass(known[name]) != bool(inner):
        raise UnknownNameError("setting", whole, listed_settings(settings))
    if inner:
        value = _replaced(known[name], inner, text, whole)
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
