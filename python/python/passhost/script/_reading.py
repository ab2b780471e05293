"""Parses modules from source text."""

from __future__ import annotations

import os
import warnings

from passhost import _given, _passhost, _plugins, _provided
from passhost.error import Diagnostic
from passhost.ir.module import IRModule


def from_source(
    source: str, origin: str = "<source>", *, strict: bool = False, check_well_formed: bool = True
) -> IRModule:
    """Parses a module. Raises `ScriptError`, with line and column, if the text is invalid."""
    return read(source, origin, strict, unchecked=not check_well_formed)


def _no_text(source: object) -> str:
    """Describes a source that is not a string."""
    kind = type(source)
    found = "None" if source is None else f"an object of {kind.__module__}.{kind.__qualname__}"
    words = f"source must be the text of a module, not {found}"
    frontends = {"torch": "torch.from_exported_program", "onnx": "onnx.from_onnx"}
    families = [base.__module__.partition(".")[0] for base in kind.__mro__]
    frontend = next((frontends[family] for family in families if family in frontends), None)
    if frontend is not None:
        return f"{words}; convert it with tvm.relax.frontend.{frontend}, and pass the script() of that module"
    if isinstance(source, IRModule):
        return f"{words}; it is already a module"
    if isinstance(source, os.PathLike):
        return f"{words}; read the file, as with Path.read_text()"
    if isinstance(source, bytes):
        return f"{words}; decode it, as with source.decode()"
    return words


def read(source: str, origin: str, strict: bool = False, unchecked: bool = False) -> IRModule:
    """Parses a module, and checks its types unless it is `unchecked`."""
    if not isinstance(source, str):
        raise TypeError(_no_text(source))
    _given.text("origin", origin)
    _plugins.ensure_loaded()
    handle, said = _passhost.read_module(origin, source, strict, unchecked)
    for line in said:
        warnings.warn(str(Diagnostic.of_json(line)), stacklevel=3)
    return IRModule._of(handle)


def normal(mod: IRModule) -> IRModule:
    """Returns a module whose nested expressions are bindings."""
    return IRModule._of(_passhost.normalized(mod._handle()), mod)


_provided.from_source = from_source
