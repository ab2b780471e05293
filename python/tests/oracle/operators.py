"""Compares the signatures of `passhost.relax.op` with TVM 0.27. Needs TVM in the environment.

PYTHONPATH=python/python python python/tests/oracle/operators.py
"""

import inspect
import sys
from types import ModuleType

from tvm.relax import op as theirs

from passhost.relax import op as own

# Operators of TVM whose parameters differ here, with the reason.
DIFFERENT = {"grad.take_backward": "the text of TVM also has the attribute `mode`"}


def functions(module, prefix="", seen=()):
    """Returns the functions of a module and of the modules in it, by name."""
    found = {}
    for name in dir(module):
        value = getattr(module, name)
        if name.startswith("_"):
            continue
        if isinstance(value, ModuleType) and value.__name__.startswith("tvm.relax.op.") and value not in seen:
            if hasattr(value, "__path__"):
                found |= functions(value, f"{prefix}{name}.", (*seen, module))
        elif inspect.isfunction(value) and value.__module__.startswith("tvm.relax.op"):
            found[prefix + name] = value
    return found


def at(module, name):
    """Returns the value of a dotted name; `None` if there is none."""
    for word in name.split("."):
        try:
            module = getattr(module, word)
        except AttributeError:
            return None
    return module


def plain(default):
    """Returns a default value in a form that can be compared."""
    if default is inspect.Parameter.empty:
        return "required"
    if hasattr(default, "value"):
        default = default.value
    # One number applies to all axes.
    is_one = isinstance(default, list | tuple) and len(set(default)) == 1
    return default[0] if is_one else default


def parameters(function):
    """Returns the names, kinds and defaults of parameters."""
    return [(p.name, p.kind, plain(p.default)) for p in inspect.signature(function).parameters.values()]


def main():
    """Exits with code 1 if a signature differs."""
    wrong, missing, n = [], [], 0
    for name, function in sorted(functions(theirs).items()):
        found = at(own, name)
        if found is None:
            missing.append(name)
            continue
        n += 1
        same = parameters(found) == parameters(function)
        if not same and name not in DIFFERENT:
            wrong.append(f"{name}\n    passhost {inspect.signature(found)}\n    TVM      {inspect.signature(function)}")
        elif same and name in DIFFERENT:
            wrong.append(f"{name}: is the same as in TVM")
    print(f"not in passhost: {', '.join(missing)}")
    print("\n".join(wrong) or f"{n} signatures are the same as in TVM")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
