"""Reads TVMScript: from a text, or from the source of decorated Python functions and classes.

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
    """Reads a module from a text. Raises `ScriptError`, with line and column, if the text is not one."""
    return _read(source, origin, strict, unchecked=not check_well_formed)


def _read(source: str, origin: str, strict: bool = False, unchecked: bool = False) -> IRModule:
    _given.text("source", source)
    _given.text("origin", origin)
    _plugins.ensure_loaded()
    handle, said = _passhost.read_module(origin, source, strict, unchecked)
    for line in said:
        warnings.warn(str(Diagnostic.of_json(line)), stacklevel=3)
    return IRModule._of(handle)


def _normal(mod: IRModule) -> IRModule:
    """A module whose nested expressions are bindings."""
    return IRModule._of(_passhost.normalized(mod._handle()), mod)


def parse(source: str, extra_vars: Any = None, check_well_formed: bool = True, **_options: Any) -> Any:
    """Reads a module, or a function if the text has only one."""
    mod = _read(source, "<source>", unchecked=not check_well_formed)
    mod = _normal(mod) if check_well_formed else mod
    if "class " not in source and len(mod) == 1:
        return mod.functions_items()[0][1]
    return mod


ir_module = ir.ir_module
