"""Facts about passes and steps, and the names under which passes appear."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from passhost import _given


class Compat:
    """The default of `tvm_compat` for contexts: true for TVM's rules."""

    tvm = False


@dataclass(frozen=True)
class PassInfo:
    """The description of a pass: its name, its required passes, and the lowest opt_level at which it runs unless a
    pass requires it."""

    opt_level: int
    name: str
    required: tuple[str, ...] = ()
    traceable: bool = False

    def __init__(
        self, opt_level: int, name: str, required: Iterable[str] | None = None, traceable: bool = False
    ) -> None:
        """Creates a description from the arguments in TVM's order."""
        object.__setattr__(self, "name", _given.text("the name of a pass", name))
        object.__setattr__(self, "opt_level", _given.level(f"opt_level of pass {name!r}", opt_level))
        object.__setattr__(self, "required", _given.names(f"required of pass {name!r}", required))
        object.__setattr__(self, "traceable", traceable)

    def __repr__(self) -> str:
        """Returns the constructor call."""
        required = ", ".join(f'"{name}"' for name in self.required)
        return f'PassInfo(opt_level={self.opt_level}, name="{self.name}", required=[{required}])'


@dataclass(frozen=True)
class Step:
    """A step of a run: its depth, the pass, its outcome and the reason, seconds, bindings before and after."""

    depth: int
    name: str
    outcome: str
    reason: str
    seconds: float
    verify_seconds: float
    bindings: tuple[int, int]


made_passes: WeakValueDictionary[str, Any] = WeakValueDictionary()
"""The passes defined in Python, keyed by their names in the host."""


def shown_info(name: str, opt_level: int, required: list[str], plugin: str, position: int) -> PassInfo:
    """Returns the description of a pass for an instrument, with the name that the pass's author chose."""
    made = made_passes.get(name)
    if made is None or made._taken:
        return PassInfo(opt_level, shown_name(name), required)
    info: PassInfo = made.info
    return info


def shown_name(name: str) -> str:
    """Returns the name that TVM uses for a Relax pass, if TVM's rules apply."""
    return name.removeprefix("relax.") if Compat.tvm else name
