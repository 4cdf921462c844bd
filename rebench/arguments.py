"""Checks of arguments: a `checked` function refuses values that its annotations do not allow.

pydantic compares every call with the annotations. Numbers can have bounds:
``Annotated[int, Between(0)]``. Cells, arrays and data frames are not checked here; the code that
reads them raises its own errors.
"""

from __future__ import annotations

import functools
import inspect
import re
import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from rebench.errors import InputError, UnknownNameError

__all__ = ["Between", "checked", "rule_of"]

T = TypeVar("T", bound=Callable[..., Any])

# Annotations with these words are left to the code that reads the value.
_READ_ELSEWHERE: Final = ("Cell", "Floats", "Ints", "NDArray", "ArrayLike", "Ranked", "pd.")
# Words of pydantic's messages, and ours.
_WORDS: Final = {
    r"Value error, ": "",
    r" after validation, not \d+": "",
    r"^Field required": "is missing",
    r"\b(Input|String|List) should": "must",
    r"a valid (dictionary|object).*": "a table",
    r"a valid boolean.*": "true or false",
    r"a valid integer.*": "a whole number",
    r"a valid number.*": "a number",
    r"a valid string": "a text",
    r"a valid list": "a list",
    r"^'str' instances are.*": "must be a list",
    r"an instance of Sequence$": "a list",
    r"an instance of ": "a ",
    r"\bbe iterable$": "be a list",
    r"\bbe callable$": "be a function",
    r"greater than or equal to": "at least",
    r"less than or equal to": "at most",
    r"match pattern": "look like",
}
# Patterns of fields that users set, and the same in words.
_PATTERNS: Final = {
    r"^(auto|cpu|cuda(:\d+)?)$": "auto, cpu, cuda or cuda:N",
    r"^[\w.-]+:\d{1,9}$": "a type and a number, such as a100:2",
    r"^\S+$": "one word, such as gpu:a100:1",
    r"^\d{1,9}[KMGT]?$": "a number with a unit, such as 4G",
    r"^[A-Za-z][\w-]*$": "a name that begins with a letter and has no spaces",
    r"^[A-Za-z0-9_-]+$": "a name of letters, digits, - and _",
}


@dataclass(frozen=True, slots=True)
class Between:
    """Least and greatest value of an annotated number."""

    least: int
    most: int | None = None

    def __get_pydantic_core_schema__(self, kind: Any, handler: Callable[[Any], Any]) -> Any:
        """Return pydantic's schema of the number with these bounds."""
        schema = handler(kind)
        schema["ge"] = self.least
        if self.most is not None:
            schema["le"] = self.most
        return schema


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
    made: list[Callable[..., None]] = []

    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        from pydantic import ValidationError  # slow to import

        if not made:  # at the first call: annotations may use names that are defined later
            made.append(_validator(function))
        plain: dict[Any, Any] = {name: _plain(value) for name, value in named.items()}
        places = [_plain(value) for value in given]
        try:
            made[0](*places, **plain)
        except ValidationError as error:
            plain.update(enumerate(places))
            raise _refusal(function, error.errors(include_url=False), plain) from None
        return function(*given, **named)

    return call


def _validator(function: Callable[..., Any]) -> Callable[..., None]:
    """Return a function that takes the same arguments and refuses wrong values."""
    from pydantic import ConfigDict, validate_call

    @functools.wraps(function)
    def accept(*_given: Any, **_named: Any) -> None:
        """Accept the values that pydantic has accepted."""

    accept.__annotations__ = dict(function.__annotations__)
    for name, hint in function.__annotations__.items():
        if name == "return" or any(word in str(hint) for word in _READ_ELSEWHERE):
            accept.__annotations__[name] = Any
    config = ConfigDict(strict=True, arbitrary_types_allowed=True)
    return validate_call(config=config)(accept)


def _plain(value: Any) -> Any:
    """Return Python's numbers in place of numpy's, and a tuple in place of several values."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if type(value) in (list, tuple, set, frozenset, range):
        return tuple(map(_plain, value))
    return value


def _refusal(
    function: Callable[..., Any], problems: Sequence[Mapping[str, Any]], values: Mapping[Any, Any]
) -> InputError:
    """Return the error for the first argument that pydantic refused.

    Args:
        function: the function that was called.
        problems: pydantic's problems.
        values: the arguments by their name or position.
    """
    parameters = inspect.signature(function).parameters
    called = function.__qualname__.removesuffix(".__init__")
    valid = [known for known in parameters if known not in ("self", "cls")]
    for problem in problems:
        if problem["type"] == "unexpected_keyword_argument":
            return UnknownNameError(f"argument of {called}", problem["loc"][0], valid)
    place = problems[0]["loc"][0]
    name = str(place)
    if isinstance(place, int):
        kinds_by_place = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        by_place = [each.name for each in parameters.values() if each.kind in kinds_by_place]
        name = by_place[min(place, len(by_place) - 1)]
    if problems[0]["type"].endswith(("_argument", "_argument_values")):
        problem_words = problems[0]["msg"].lower()
        return InputError(f"{called}: {problem_words} {name!r}; valid: {', '.join(valid)}")

    # An annotation with several kinds has a problem for each. If a value is a list, as it should
    # be, and one of its elements is wrong, only the problems of the element matter.
    own = [problem for problem in problems if problem["loc"][0] == place]
    inner = [problem for problem in own if problem["input"] is not values[place]]
    shown = inner or own
    kinds = []
    for problem in shown:
        kind = rule_of(problem).removeprefix("must be ")
        if problem["type"] == "model_type":
            kind = f"a {problem['ctx']['class_name']}"
        kinds.append(kind)
    if not inner and str(function.__annotations__.get(name)).endswith("| None"):
        kinds.append("None")
    # rule_of has the words of a sweep's file, where a mapping is called a table.
    rule = " or ".join(dict.fromkeys(kinds)).replace("a table", "a mapping")
    value = shown[0]["input"]
    text = reprlib.repr(value)
    if type(value).__name__ == "DataFrame":
        text = "a DataFrame"
        if "a Table" in kinds:
            text += "; rebench.Table.from_frame makes a Table of a DataFrame"
    where = f"each value of {name}" if inner else name
    return InputError(f"{where} must be {rule}, got {text}")


def rule_of(problem: Mapping[str, Any]) -> str:
    """Return the violated rule of one of pydantic's errors."""
    rule = str(problem["msg"])
    for pattern, words in _PATTERNS.items():
        rule = rule.replace(f"match pattern '{pattern}'", f"be {words}")
    for theirs, ours in _WORDS.items():
        rule = re.sub(theirs, ours, rule)
    return rule
