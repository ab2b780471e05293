"""`I`: modules of decorated classes."""

from __future__ import annotations

from typing import Any

from passhost.ir.module import IRModule
from passhost.script._decorators import Anything, caller, read

__all__ = ["ir_module"]


def ir_module(mod: Any = None, **_options: Any) -> Any:
    """Reads a class as a module: `@I.ir_module`."""
    frame = caller()
    if mod is None:
        return lambda cls: _read(cls, frame)
    return _read(mod, frame)


def _read(cls: Any, frame: Any) -> IRModule:
    if not isinstance(cls, type):
        raise TypeError(f"I.ir_module decorates a class, not {cls!r}")
    made: IRModule = read(cls, frame, "ir_module")
    return made


def __getattr__(name: str) -> Any:
    if name.startswith(("_", "pytest")):
        raise AttributeError(name)
    return Anything(f"I.{name}")
