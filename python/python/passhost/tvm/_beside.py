"""Modules and passes between passhost and an installed TVM."""

from __future__ import annotations

import importlib
from typing import Any

from passhost import _given
from passhost.ir.module import IRModule
from passhost.script import from_source
from passhost.tvm._install import _Alias


def _tvm() -> Any:
    """TVM itself."""
    tvm = importlib.import_module("tvm")
    if isinstance(tvm, _Alias):
        raise RuntimeError("`tvm` is passhost in this process, by passhost.tvm.install(); there is no TVM beside it")
    return tvm


def from_tvm(mod: Any) -> IRModule:
    """A module of TVM as one of passhost, with its constants. It goes through TVMScript."""
    if not callable(getattr(mod, "script", None)):
        raise TypeError(f"from_tvm takes an IRModule of TVM, not {mod!r}")
    return from_source(mod.script(show_meta=True), "<from TVM>")


def to_tvm(mod: IRModule) -> Any:
    """A module of passhost as one of TVM, with its constants. It goes through TVMScript."""
    if not isinstance(mod, IRModule):
        raise TypeError(f"to_tvm takes an IRModule of passhost, not {type(mod).__name__}")
    tvm = _tvm()
    return tvm.script.from_source(mod.script())


def tvm_pass(name: str, **options: Any) -> Any:
    """A pass of a plugin as a pass of TVM, for a Sequential of TVM.

    It runs with what it requires, in the current context of passhost. `options` are those of the pass.
    """
    from passhost.passes import passes

    _given.text("the name of a pass", name)
    tvm = _tvm()
    own = passes[name](**options)

    def run(mod: Any, _ctx: Any) -> Any:
        before = from_tvm(mod)
        after = own(before)
        return mod if after is before else to_tvm(after)

    return tvm.transform.module_pass(run, opt_level=own.info.opt_level, name=own.info.name)
