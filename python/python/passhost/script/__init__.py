"""Parses TVMScript from a string, or from the source of decorated Python functions and classes.

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

from typing import Any

from passhost.script import ir, relax, tirx
from passhost.script._reading import from_source, normal, read

__all__ = ["from_source", "ir", "ir_module", "parse", "relax", "tirx"]


def parse(source: str, extra_vars: Any = None, check_well_formed: bool = True, **_options: Any) -> Any:
    """Parses a module, or a function if the text contains only one."""
    mod = read(source, "<source>", unchecked=not check_well_formed)
    mod = normal(mod) if check_well_formed else mod
    if "class " not in source and len(mod) == 1:
        return mod.functions_items()[0][1]
    return mod


ir_module = ir.ir_module
