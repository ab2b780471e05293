"""Checks of arguments. Errors name the parameter, what it expects and what was found."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from passhost._numpy import is_integer, is_scalar

__all__ = ["amount", "backend", "choice", "flag", "integer", "level", "names", "plain", "text"]


def integer(what: str, value: object, least: int = -(2**63), most: int = 2**63 - 1) -> int:
    """Converts a Python or NumPy integer to a Python integer. Raises `TypeError` for other values, and `ValueError` if
    the integer is out of range."""
    if isinstance(value, bool) or not is_integer(value):
        raise TypeError(f"{what} must be an integer, not {value!r}")
    number = int(value)
    if not least <= number <= most:
        raise ValueError(f"{what} must be an integer from {least} to {most}, not {number}")
    return number


def level(what: str, value: object) -> int:
    """Checks an opt_level."""
    return integer(what, value, -(2**31), 2**31 - 1)


def amount(what: str, value: object) -> int:
    """Checks a non-negative 64-bit integer."""
    return integer(what, value, 0, 2**64 - 1)


def flag(what: str, value: object) -> bool:
    """Checks a boolean. Raises `TypeError` for anything else."""
    if not isinstance(value, bool):
        raise TypeError(f"{what} must be True or False, not {value!r}")
    return value


def text(what: str, value: object) -> str:
    """Checks a string. Raises `TypeError` for anything else."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a string, not {value!r}")
    return value


def choice(what: str, value: object, choices: Iterable[str]) -> str:
    """Checks that a value is one of the given strings. Raises `TypeError` or `ValueError` for anything else."""
    if text(what, value) not in choices:
        raise ValueError(f"{what} must be one of {', '.join(map(repr, choices))}, not {value!r}")
    return str(value)


def backend(value: object) -> str:
    """Checks the name of a backend that executes TIR functions."""
    return choice("backend", value, ("auto", "llvm", "interpreter"))


def names(what: str, value: Iterable[str] | None) -> tuple[str, ...]:
    """Checks a sequence of names; None means no names. Raises `TypeError` if a name is not a string."""
    if isinstance(value, str):
        raise TypeError(f"{what} must be a list of names, not the string {value!r}; write [{value!r}]")
    if value is not None and not isinstance(value, Iterable):
        raise TypeError(f"{what} must be a list of names, not {value!r}")
    given = tuple(value or ())
    for name in given:
        if not isinstance(name, str):
            raise TypeError(f"{what} must be a list of names, but {name!r} is a {type(name).__name__}")
    return given


def plain(what: str, value: Any) -> Any:
    """Converts NumPy scalars in an option value to Python scalars. Raises `TypeError` or `ValueError` for unsupported
    values."""
    if is_scalar(value):
        value = value.item()
    if isinstance(value, list | tuple):
        return [plain(f"an element of {what}", item) for item in value]
    if not isinstance(value, bool | int | float | str):
        raise TypeError(f"{what} must be a bool, int, float, str or a list of these, not {value!r}")
    return integer(what, value) if isinstance(value, int) and not isinstance(value, bool) else value
