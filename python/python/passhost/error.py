"""Errors of passhost.

Every error is a `PasshostError` with its diagnostics, and also an instance of the class that TVM raises in the same
case:

>>> issubclass(PlanError, ValueError) and issubclass(PlanError, PasshostError)
True
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from passhost import _html

__all__ = [
    "ConfigError",
    "Diagnostic",
    "ExecutionError",
    "IllFormedError",
    "InternalError",
    "ManifestError",
    "NameNotFoundError",
    "NestedTooDeepError",
    "PassFailedError",
    "PasshostError",
    "Place",
    "PlanError",
    "PluginError",
    "ScheduleError",
    "ScriptError",
    "ValueKindError",
    "ValueTypeError",
]


@dataclass(frozen=True)
class Place:
    """A position in a text: lines and columns count from 1, in characters."""

    origin: str
    line: int
    column: int
    end_line: int
    end_column: int
    label: str
    primary: bool


@dataclass(frozen=True)
class Diagnostic:
    """A message from the host or a pass: a level, a text, positions, notes, and a hint.

    The levels are `error`, `warning`, `remark`, `missed` and `matched`.
    """

    level: str
    message: str
    places: tuple[Place, ...] = ()
    notes: tuple[str, ...] = ()
    help: str | None = None
    rendered: str = ""
    about: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def of_json(line: str) -> Diagnostic:
        """Parses a line of JSON, as printed by `passhost --message-format json`."""
        record: dict[str, Any] = json.loads(line)
        places = tuple(
            Place(
                place["origin"],
                place["start"]["line"],
                place["start"]["column"],
                place["end"]["line"],
                place["end"]["column"],
                place["label"],
                place["primary"],
            )
            for place in record.pop("places")
        )
        known = {name: record.pop(name) for name in ("level", "message", "help", "rendered")}
        return Diagnostic(places=places, notes=tuple(record.pop("notes")), about=record, **known)

    def __str__(self) -> str:
        """Formats the diagnostic like the command line, with the position underlined."""
        return self.rendered.rstrip("\n") or f"{self.level}: {self.message}"

    def _repr_html_(self) -> str:
        return _html.diagnostic(self.level, str(self))


class PasshostError(Exception):
    """An error of passhost, with all diagnostics. `exit_code` is the exit code of the command line for this error."""

    def __init__(self, message: str, diagnostics: Sequence[Diagnostic] = (), exit_code: int = 3) -> None:
        """Creates an error from the message and the host's diagnostics."""
        super().__init__(message)
        self.diagnostics = tuple(diagnostics)
        self.exit_code = exit_code

    def __str__(self) -> str:
        """Formats the diagnostics like the command line."""
        return "\n".join(str(each) for each in self.diagnostics) or super().__str__()


class InternalError(PasshostError, RuntimeError):
    """An inconsistency, for which TVM raises `InternalError`."""


class ManifestError(PasshostError, ValueError):
    """The manifest or a lockfile is invalid."""


class PluginError(PasshostError, RuntimeError):
    """A plugin was refused, or does not build."""


class NameNotFoundError(PasshostError, ValueError, AttributeError):
    """No pass, operator or config option has this name."""


class PlanError(PasshostError, ValueError):
    """The passes cannot be planned: an option is invalid, or a required pass is disabled."""


class ConfigError(PasshostError, ValueError, AttributeError):
    """A config option is unknown, or its value has the wrong type or is out of range."""


class ScriptError(PasshostError, ValueError):
    """The source is not a valid module; `diagnostics` contains the line and the column."""


class IllFormedError(InternalError, ValueError):
    """The module is ill-formed."""


class NestedTooDeepError(PasshostError, RecursionError):
    """An expression is nested too deeply for Python's stack, or a visitor recurses infinitely."""


def too_deep(error: RecursionError) -> NestedTooDeepError:
    """Returns the error for an exhausted Python stack."""
    if isinstance(error, NestedTooDeepError):
        return error
    return NestedTooDeepError(
        "an expression is nested too deeply for Python's stack, or a visitor recurses infinitely; "
        "bind nested expressions to variables, or raise the limit with sys.setrecursionlimit"
    )


class PassFailedError(InternalError):
    """A pass failed. The module is unchanged."""


class ScheduleError(PasshostError, RuntimeError):
    """A schedule primitive was refused. The schedule is unchanged."""


class ExecutionError(PasshostError, RuntimeError):
    """The execution of a function failed."""


class ValueKindError(ExecutionError, TypeError):
    """The kind of a value contradicts its type, such as a tuple in place of a tensor."""


class ValueTypeError(ExecutionError, ValueError):
    """The data type or number of dimensions of a tensor or shape contradicts its type."""


_CLASSES: dict[str, type[PasshostError]] = {
    "manifest": ManifestError,
    "plugin": PluginError,
    "name": NameNotFoundError,
    "plan": PlanError,
    "config": ConfigError,
    "text": ScriptError,
    "ill-formed": IllFormedError,
    "step": PassFailedError,
    "instrument": PassFailedError,
    "execution": ExecutionError,
    "execution-kind": ValueKindError,
    "execution-type": ValueTypeError,
}


def of_host(message: str, kind: str, exit_code: int, reports: Sequence[str]) -> PasshostError:
    """Returns the exception for an error of the host."""
    diagnostics = [Diagnostic.of_json(report) for report in reports]
    return _CLASSES.get(kind, InternalError)(message, diagnostics, exit_code)
