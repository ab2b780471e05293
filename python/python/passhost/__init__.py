"""Runs compiler passes of plugins, and passes written in Python, over TVM's Relax and TIR modules.

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

from passhost import error, instrument, ir, relax, runtime, script, tirx, transform
from passhost._plugins import load
from passhost.ir.module import IRModule
from passhost.passes import passes
from passhost.runtime import exec

__all__ = [
    "IRModule",
    "error",
    "exec",
    "instrument",
    "ir",
    "load",
    "passes",
    "relax",
    "runtime",
    "script",
    "tirx",
    "transform",
]
