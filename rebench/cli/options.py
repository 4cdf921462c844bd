"""Options that several commands share: fields of a dataclass, or parameters of a function."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["takes"]


def takes(**shared: Callable[..., object]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command, where a named parameter stands, the options that make its value.

    ``@takes(how=Measuring)`` on ``def depth(how: Measuring)`` is a command with the fields of
    `Measuring` as its options; the body is given the `Measuring` that they make.
    """
    options = {
        name: inspect.signature(make, eval_str=True).parameters for name, make in shared.items()
    }

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True)
        parameters = [
            option.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for one in own.parameters.values()
            for option in options.get(one.name, {one.name: one}).values()
        ]

        @functools.wraps(command)
        def called(**given: Any) -> None:
            made = {
                name: make(**{option: given.pop(option) for option in options[name]})
                for name, make in shared.items()
            }
            command(**given, **made)

        # What typer reads.
        called.__dict__["__signature__"] = own.replace(parameters=parameters)
        called.__annotations__ = {one.name: one.annotation for one in parameters}
        return called

    return decorate
