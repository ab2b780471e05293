"""Runs compiler passes, from plugins or written in Python, on TVM's Relax and TIR modules.

>>> import passhost
>>> mod = passhost.script.from_source('''
... @I.ir_module
... class Module:
...     @R.function
...     def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
...         return R.add(x, x)
... ''')
>>> print(passhost.passes.relax.LegalizeOps()(mod).script())  # doctest: +ELLIPSIS
# from tvm.script import ir as I
...
"""

from __future__ import annotations

from passhost import error, instrument, ir, relax, runtime, s_tir, script, te, tirx, topi, transform
from passhost._models import load_model
from passhost._plugins import load
from passhost._validate import validate
from passhost.ir.diff import diff
from passhost.ir.module import IRModule
from passhost.passes import passes
from passhost.runtime import benchmark, exec

__all__ = [
    "IRModule",
    "benchmark",
    "diff",
    "error",
    "exec",
    "instrument",
    "ir",
    "load",
    "load_model",
    "passes",
    "relax",
    "runtime",
    "s_tir",
    "script",
    "te",
    "tirx",
    "topi",
    "transform",
    "validate",
]
