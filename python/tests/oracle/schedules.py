"""Compares the method signatures of `passhost.s_tir.Schedule` with TVM 0.27. Needs TVM in the environment.

    PYTHONPATH=python/python python python/tests/oracle/schedules.py

tests/oracle/schedules.py compares the effects of the primitives, on the same cases as python/tests/s_tir.
"""

import inspect
import sys

from tvm import s_tir as theirs

from passhost import s_tir as own

# Names that TVM lacks, with the reason.
OWN = {"get_block": "the name of get_sblock before TVM 0.24"}


def parameters(function):
    """Returns the names, kinds and defaults of parameters."""
    return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]


def main():
    """Exits with code 1 if a signature differs."""
    wrong = []
    for name, function in vars(own.Schedule).items():
        if name.startswith("_") and name != "__init__":
            continue
        other = getattr(theirs.Schedule, name, None)
        if other is None:
            wrong += [] if name in OWN else [f"{name}: TVM has no such name"]
        elif isinstance(function, property):
            wrong += [] if isinstance(other, property) else [f"{name}: no property in TVM"]
        elif name != "show" and parameters(function) != parameters(other):
            wrong.append(f"{name}: {inspect.signature(function)}, and TVM {inspect.signature(other)}")
    missing = [name for name in vars(theirs.Schedule) if not name.startswith("_") and not hasattr(own.Schedule, name)]
    print(f"not in passhost: {', '.join(sorted(missing))}")
    print("\n".join(wrong) or "all signatures are the same as in TVM")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
