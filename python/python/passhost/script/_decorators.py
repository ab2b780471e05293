"""What the decorators of Relax, TIR and modules have in common."""

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

_DECORATORS = {"ir_module": "I.ir_module", "function": "R.function", "prim_func": "T.prim_func"}


def in_module_class(frame: FrameType | None) -> bool:
    """Whether a function is decorated in the body of a class that is decorated itself: the class is read as a whole."""
    return frame is not None and "__qualname__" in frame.f_locals and "__module__" in frame.f_locals


def read(target: Any, frame: FrameType | None, word: str, check_well_formed: bool = True) -> IRModule:
    """A decorated class as a module."""
    from passhost.script import _normal, _read

    source, origin = source_of(target)
    calls = PythonCalls(origin)
    source = standalone(source, scopes_of(target, frame), _DECORATORS, calls)
    if word != "ir_module":
        # A private function is one of a module.
        source = f"@I.ir_module\nclass Module:\n{textwrap.indent(source, '    ')}"
    mod = _read(source, origin, unchecked=bool(calls) or not check_well_formed)
    if calls:
        mod = calls.evaluated(mod)
        if check_well_formed:
            _passhost.verify(mod._handle(), True)
    return _normal(mod) if check_well_formed else mod


def read_function(target: Any, frame: FrameType | None, word: str, check_well_formed: bool = True) -> BaseFunc:
    """A decorated function."""
    mod = read(target, frame, word, check_well_formed)
    return mod.functions_items()[0][1]


def caller() -> FrameType | None:
    """Whoever called the function that calls this."""
    frame = inspect.currentframe()
    return frame.f_back.f_back if frame is not None and frame.f_back is not None else None


class Anything:
    """What stands in the source of a function and is never run, such as `R.dataflow`."""

    def __init__(self, name: str) -> None:
        """Of its name."""
        self._name = name

    def __getattr__(self, name: str) -> Anything:
        """What is in it."""
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything(f"{self._name}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Anything:
        """What an annotation makes of it."""
        return self

    def __getitem__(self, item: Any) -> Anything:
        """What an annotation makes of it."""
        return self

    def __repr__(self) -> str:
        """Its name."""
        return self._name
