"""Functions that a module calls although a higher module defines them: the only upward dependencies in the package.

For example, `a + b` creates nodes of classes that are defined above `Expr`, and every node can be printed. Such a
function is declared here, called as `_provided.text_of(node)`, and set by the module that defines it when that module
is imported; `import passhost` imports all of them. A function belongs here only if its caller cannot be in a higher
module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

text_of: Callable[[Any], str]
"""Returns the text of a node, set by `tirx.function`."""

scalar: Callable[[Any, str | None], Any]
"""Returns a number of a data type, set by `ir.prim`."""

arithmetic: Callable[[str, Any, Any, bool], Any]
"""Returns an operation on a scalar and another operand, possibly in swapped order, set by `ir.prim`."""

comparison: Callable[[Any, Any, bool], Any]
"""Returns the expression for `==` or `!=` of two scalars, set by `ir.prim`."""

inverted: Callable[[Any], Any]
"""Returns a scalar with all bits inverted, set by `ir.prim`."""

converted: Callable[[str, Any], Any]
"""Converts a scalar to a data type, set by `ir.prim`."""

relax_operator: Callable[[str], Callable[..., Any]]
"""Returns the function that creates calls of a Relax operator, set by `relax.op`."""

functions_of_kind: dict[str, Callable[[Any, str, Any], Any]] = {}
"""For each kind of host function, the function that wraps it for Python, set by `relax.expr` and `tirx.function`.

Its arguments are the host function, its name, and the function that it replaced in a pass, or None.
"""

function_of: Callable[[Any], Any]
"""Wraps an expression in a Relax function without parameters, set by `relax.expr`."""

bind_params: Callable[[Any, Any], Any]
"""Replaces parameters of a Relax function with values, set by `relax.binding`."""

bind_symbolic_vars: Callable[[Any, Any], Any]
"""Replaces symbolic variables of a Relax function with values, set by `relax.binding`."""

topi: Callable[..., Any]
"""Calls a function of `topi`, given by its name, such as `add` for the sum of two tensors, set by `topi`."""

alone: Callable[[Any, str], Any]
"""Returns a module with one function, whose callees are external, set by `relax.analysis`."""

renamed: Callable[[Any, Any], Any]
"""Returns a module with renamed functions and updated calls, set by `relax.expr_functor`."""

from_source: Callable[..., Any]
"""Parses a module, set by `script._reading`."""

pickled: Callable[[Any], tuple[Any, ...]]
"""Returns the function and arguments with which `pickle` restores a module or function, set by `ir.json`."""

after_loading: Callable[[], None]
"""Registers the Python passes again after plugins were loaded, set by `_passes`."""
