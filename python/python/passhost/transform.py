"""Pass contexts, Sequentials, and passes made from Python functions, as in `tvm.transform`.

>>> import passhost
>>> from passhost.transform import module_pass, Sequential
>>> @module_pass(opt_level=1)
... def look(mod, ctx):
...     print(len(mod.functions), "function at opt_level", ctx.opt_level)
...     return mod
>>> mod = passhost.script.from_source('''
... @I.ir_module
... class Module:
...     @R.function
...     def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
...         return R.add(x, x)
... ''')
>>> same = Sequential([look, passhost.passes.relax.Normalize()])(mod)
1 function at opt_level 2
"""

from __future__ import annotations

from passhost._context import PassContext
from passhost._pass_info import PassInfo, Step
from passhost._passes import ModulePass, Pass, Plan, PrintIR, Sequential, module_pass

__all__ = ["ModulePass", "Pass", "PassContext", "PassInfo", "Plan", "PrintIR", "Sequential", "Step", "module_pass"]
