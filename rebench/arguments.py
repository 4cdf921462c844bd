"""Checks of arguments: a `checked` function refuses values that its annotations do not allow.

Every call of a checked function is compared with its annotations. Numbers can have bounds:
``Annotated[int, Between(0)]``. Cells and arrays are not checked here; the code that reads them
raises its own errors.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import math
import numbers
import reprlib
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numpy as np

from rebench.errors import InputError, UnknownNameError

__all__ = ["Between", "checked"]

T = TypeVar("T", bound=Callable[..., Any])

_KINDS: Final[Mapping[Any, tuple[Any, str]]] = {
    bool: ((int, np.bool_), "True or False"),  # 0 and 1 too, as in calls of nats_bench
    int: (numbers.Integral, "a whole number"),
    float: (numbers.Real, "a number"),
    str: (str, "a text"),
    Path: (Path, "a Path"),
    types.NoneType: (types.NoneType, "None"),
}


@dataclass(frozen=True, slots=True)
class Between:
    """Least and greatest value of an annotated number."""

    least: float
    most: float = math.inf

    def __str__(self) -> str:
        if math.isinf(self.most):
            return f"of at least {self.least:.10g}"
        return f"from {self.least:.10g} to {self.most:.10g}"


@dataclass(frozen=True, slots=True)
class _Rule:
    """Allowed values of an annotation, and their description in messages."""

    said: str
    allows: Callable[[Any], bool]
    types: frozenset[type] = frozenset()
    """Types with only allowed values: for most calls, a check of the type is enough."""


def checked(target: T) -> T:
    """Check the arguments of every call; raise an InputError that names a wrong argument.

    Args:
        target: a function, or a class whose instances are made by calls.
    """
    if inspect.isclass(target):
        target.__init__ = _checked(target.__init__)  # type: ignore[method-assign]
        return target
    return cast("T", _checked(target))


def _checked(function: Callable[..., Any]) -> Callable[..., Any]:
    parameters = inspect.signature(function).parameters
    last = {parameter.kind: parameter.name for parameter in parameters.values()}
    others = last.get(inspect.Parameter.VAR_POSITIONAL, "")
    options = last.get(inspect.Parameter.VAR_KEYWORD, "")
    names = [each.name for each in parameters.values() if each.kind is each.POSITIONAL_OR_KEYWORD]

    rules: dict[str, _Rule | None] = {}

    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        if not rules:  # at the first call: annotations may use names that are defined later
            rules.update({name: _rule(_hint(function, name)) for name in parameters})
        for name, value in zip(names, given, strict=False):
            _hold(name, value, rules[name])
        for value in given[len(names) :]:
            _hold(others, value, rules.get(others))
        for name, value in named.items():
            if name not in rules and not options:
                valid = parameters.keys() - {"self", "cls"}
                called = function.__qualname__.removesuffix(".__init__")
                raise UnknownNameError(f"argument of {called}", name, valid)
            _hold(name, value, rules.get(name if name in rules else options))
        return function(*given, **named)

    return call


def _hold(name: str, value: Any, rule: _Rule | None) -> None:
    """Refuse a value that its rule does not allow."""
    if rule is not None and type(value) not in rule.types and not rule.allows(value):
        text = reprlib.repr(value)
        got = f"a {type(value).__name__}" if "\n" in text else text  # such as a DataFrame
        kinds = {type(each).__name__ for each in (value if isinstance(value, list) else [value])}
        framed = "a Table" in rule.said and kinds & {"DataFrame", "Series"}
        hint = "; rebench.Table.from_frame makes a Table of a DataFrame" if framed else ""
        raise InputError(f"{name} must be {rule.said}, got {got}{hint}")


def _hint(function: Callable[..., Any], name: str) -> Any:
    """Return the annotation of a parameter, or Any if its names exist for type checkers only."""
    hint = str(function.__annotations__.get(name, "object"))
    known = {"pd": importlib.import_module("pandas")} if "pd." in hint else {}
    try:
        return eval(hint, inspect.unwrap(function).__globals__, known)  # noqa: S307 - our own text
    except (NameError, AttributeError, TypeError):
        return Any


def _rule(hint: Any) -> _Rule | None:
    """Return the rule of an annotation; None if every value is allowed."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if inspect.isclass(hint) and hint in _KINDS:
        kind, said = _KINDS[hint]
        return _Rule(
            said,
            lambda value: isinstance(value, kind) and type(value) is not bool,
            frozenset((hint,)),
        )
    if origin is typing.Annotated:
        return _bounded(inner[0], inner[1])
    if origin in (typing.Union, types.UnionType):
        rules = [rule for one in inner if (rule := _rule(one)) is not None]
        if len(rules) < len(inner):
            return None
        said = " or ".join(rule.said for rule in rules)
        plain = frozenset[type]().union(*(rule.types for rule in rules))
        return _Rule(said, lambda value: any(rule.allows(value) for rule in rules), plain)
    if origin is typing.Literal:
        said = " or ".join(map(repr, inner))
        return _Rule(said, lambda value: isinstance(value, str) and value in inner)
    if origin is Callable:
        return _Rule("a function", callable)
    if inspect.isclass(origin) and issubclass(origin, Mapping):
        return _Rule("a mapping", lambda value: isinstance(value, Mapping))
    if inspect.isclass(origin) and issubclass(origin, Iterable) and len(inner) == 1:
        return _several(_rule(inner[0]))
    if inspect.isclass(hint) and hint.__module__.startswith(("rebench.", "pandas")):
        said = f"a {hint.__name__}"
        return _Rule(said, lambda value: isinstance(value, hint), frozenset((hint,)))
    return None


def _bounded(kind: Any, bounds: Between) -> _Rule | None:
    rule = _rule(kind)
    if rule is None:
        return None
    allows, least, most = rule.allows, bounds.least, bounds.most
    return _Rule(f"{rule.said} {bounds}", lambda value: allows(value) and least <= value <= most)


def _several(each: _Rule | None) -> _Rule:
    def allows(value: Any) -> bool:
        if isinstance(value, str | bytes) or not isinstance(value, Iterable):
            return False
        # An iterable that can be read only once is not read here.
        return each is None or not isinstance(value, Collection) or all(map(each.allows, value))

    return _Rule("a list" if each is None else f"a list, each {each.said}", allows)
