"""Common parts of the decorators for Relax, TIR and modules."""

from __future__ import annotations

import inspect
import textwrap
from types import FrameType
from typing import Any

from passhost import _passhost
from passhost.ir.function import BaseFunc
from passhost.ir.module import IRModule
from passhost.script._capture import scopes_of, source_of, standalone
from passhost.script._python_calls import PythonCalls
from passhost.script._reading import normal
from passhost.script._reading import read as read_text

_DECORATORS = {"ir_module": "I.ir_module", "function": "R.function", "prim_func": "T.prim_func"}


def in_module_class(frame: FrameType | None) -> bool:
    """Returns true if a function is decorated inside a decorated class, which is parsed as a whole."""
    return frame is not None and "__qualname__" in frame.f_locals and "__module__" in frame.f_locals


def read(target: Any, frame: FrameType | None, word: str, check_well_formed: bool = True) -> IRModule:
    """Parses a decorated class as a module."""
    source, origin = source_of(target)
    calls = PythonCalls(origin)
    source = standalone(source, scopes_of(target, frame), _DECORATORS, calls)
    if word != "ir_module":
        # A private function must be part of a module.
        source = f"@I.ir_module\nclass Module:\n{textwrap.indent(source, '    ')}"
    mod = read_text(source, origin, unchecked=bool(calls) or not check_well_formed)
    if calls:
        mod = calls.evaluated(mod)
        if check_well_formed:
            _passhost.verify(mod._handle(), True)
    return normal(mod) if check_well_formed else mod


def read_function(target: Any, frame: FrameType | None, word: str, check_well_formed: bool = True) -> BaseFunc:
    """Parses a decorated function."""
    mod = read(target, frame, word, check_well_formed)
    return mod.functions_items()[0][1]


def caller() -> FrameType | None:
    """Returns the frame of the caller's caller."""
    frame = inspect.currentframe()
    return frame.f_back.f_back if frame is not None and frame.f_back is not None else None


class Anything:
    """A name that occurs in the source of functions but is never executed, such as `R.dataflow`."""

    def __init__(self, name: str) -> None:
        """Creates an object with this name."""
        self._name = name

    def __getattr__(self, name: str) -> Anything:
        """Returns an attribute."""
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything(f"{self._name}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Anything:
        """Returns the result of a call in an annotation."""
        return self

    def __getitem__(self, item: Any) -> Anything:
        """Returns the result of a subscript in an annotation."""
        return self

    def __repr__(self) -> str:
        """Returns the name."""
        return self._name
