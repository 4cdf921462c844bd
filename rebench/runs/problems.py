"""What is wrong with a value from outside, in words of the file's, not of the library's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["rule_of"]

# Kinds of problem, as pydantic names them, and the rule that is broken.
_RULES: Final = {
    "bool": "must be true or false",
    "dict": "must be a table",
    "finite_number": "must be a finite number",
    "float": "must be a number",
    "greater_than": "must be greater than {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "int": "must be a whole number",
    "less_than": "must be less than {lt:g}",
    "less_than_equal": "must be at most {le:g}",
    "list": "must be a list",
    "literal_error": "must be {expected}",
    "missing": "is missing",
    "model": "must be a table",
    "path": "must be a path",
    "string": "must be a text",
    "string_pattern_mismatch": "must look like {pattern}",
    "too_long": "must hold at most {max_length}",
    "too_short": "must hold at least {min_length}",
}


def rule_of(problem: Mapping[str, Any]) -> str:
    """The rule that a value breaks, from one of the errors of a pydantic model."""
    kind = str(problem["type"])
    rule = _RULES.get(kind) or _RULES.get(kind.partition("_")[0])
    if rule is None:
        message = str(problem["msg"]).removeprefix("Value error, ")
        return message.replace("Input should be", "must be")
    return rule.format(**problem.get("ctx", {}))
