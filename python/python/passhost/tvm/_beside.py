"""Converts modules and passes between passhost and an installed TVM."""

from __future__ import annotations

import importlib
from typing import Any

from passhost import _given
from passhost.ir.module import IRModule
from passhost.passes import passes
from passhost.script import from_source
from passhost.tvm._install import _Alias


def _tvm() -> Any:
    """Imports TVM itself."""
    tvm = importlib.import_module("tvm")
    if isinstance(tvm, _Alias):
        raise RuntimeError("`tvm` is passhost in this process, by passhost.tvm.install(); TVM itself is unavailable")
    return tvm


def from_tvm(mod: Any) -> IRModule:
    """Converts a TVM module, with its constants, through TVMScript."""
    if not callable(getattr(mod, "script", None)):
        raise TypeError(f"from_tvm takes a TVM IRModule, not {mod!r}")
    return from_source(mod.script(show_meta=True), "<from TVM>")


def to_tvm(mod: IRModule) -> Any:
    """Converts a module to TVM, with its constants, through TVMScript."""
    if not isinstance(mod, IRModule):
        raise TypeError(f"to_tvm takes a passhost IRModule, not {type(mod).__name__}")
    tvm = _tvm()
    return tvm.script.from_source(mod.script(show_meta=True))


def tvm_pass(name: str, **options: Any) -> Any:
    """Wraps a plugin pass as a TVM pass, for a TVM Sequential.

    It runs with its requirements, in passhost's current context. `options` are the options of the pass.
    """
    _given.text("the name of a pass", name)
    tvm = _tvm()
    own = passes[name](**options)

    def run(mod: Any, _ctx: Any) -> Any:
        before = from_tvm(mod)
        after = own(before)
        return mod if after is before else to_tvm(after)

    return tvm.transform.module_pass(run, opt_level=own.info.opt_level, name=own.info.name)
