"""Parses TVMScript from a text, or from the source of decorated Python functions and classes.

>>> from passhost.script import from_source
>>> mod = from_source('''
... @I.ir_module
... class Module:
...     @R.function
...     def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
...         return R.add(x, x)
... ''')
>>> len(mod)
1
"""

from __future__ import annotations

import os
import warnings
from typing import Any

from passhost import _given, _passhost, _plugins
from passhost.error import Diagnostic
from passhost.ir.module import IRModule
from passhost.script import ir, relax, tirx

__all__ = ["from_source", "ir", "ir_module", "parse", "relax", "tirx"]


def from_source(
    source: str, origin: str = "<source>", *, strict: bool = False, check_well_formed: bool = True
) -> IRModule:
    """Parses a module. Raises `ScriptError`, with line and column, if the text is invalid."""
    return _read(source, origin, strict, unchecked=not check_well_formed)


def _no_text(source: object) -> str:
    """Describes a source that is not a text."""
    kind = type(source)
    found = "None" if source is None else f"an object of {kind.__module__}.{kind.__qualname__}"
    words = f"source is the text of a module, not {found}"
    frontends = {"torch": "torch.from_exported_program", "onnx": "onnx.from_onnx"}
    families = [base.__module__.partition(".")[0] for base in kind.__mro__]
    frontend = next((frontends[family] for family in families if family in frontends), None)
    if frontend is not None:
        return f"{words}; TVM makes a module of it (tvm.relax.frontend.{frontend}), whose script() is such a text"
    if isinstance(source, IRModule):
        return f"{words}; it is a module already"
    if isinstance(source, os.PathLike):
        return f"{words}; read the file, as with Path.read_text()"
    if isinstance(source, bytes):
        return f"{words}; decode it, as with source.decode()"
    return words


def _read(source: str, origin: str, strict: bool = False, unchecked: bool = False) -> IRModule:
    if not isinstance(source, str):
        raise TypeError(_no_text(source))
    _given.text("origin", origin)
    _plugins.ensure_loaded()
    handle, said = _passhost.read_module(origin, source, strict, unchecked)
    for line in said:
        warnings.warn(str(Diagnostic.of_json(line)), stacklevel=3)
    return IRModule._of(handle)


def _normal(mod: IRModule) -> IRModule:
    """Returns a module whose nested expressions are bindings."""
    return IRModule._of(_passhost.normalized(mod._handle()), mod)


def parse(source: str, extra_vars: Any = None, check_well_formed: bool = True, **_options: Any) -> Any:
    """Parses a module, or a function if the text contains only one."""
    mod = _read(source, "<source>", unchecked=not check_well_formed)
    mod = _normal(mod) if check_well_formed else mod
    if "class " not in source and len(mod) == 1:
        return mod.functions_items()[0][1]
    return mod


ir_module = ir.ir_module
