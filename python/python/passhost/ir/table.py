"""The records of a function, as NumPy arrays without a copy.

A function is a table of nodes in program order, and further tables to which nodes refer by row number. Their
columns:

| table | what | columns |
|---|---|---|
| `nodes` | parameters, bindings, nested expressions, blocks, statements | `kind` (a `Kind`), `flags` (of `Flag`), `ty` (row of `types`), `ops` and `n_ops` (rows of `operands`), `attrs` (row of `dicts`), `a` (number of nodes inside a region; for other nodes, the meaning depends on the kind) |
| `operands` | operands of nodes | row of `nodes`, or row of `leaves` with `LEAF_BIT` added |
| `leaves` | operators, functions, constants, shapes | `kind` (a `Leaf`), `flags`, `ty`, `val` (row of `strs`, `prims`, `consts`, depending on the kind) |
| `types` | types | `kind` (a `TypeKind`), `flags`, `dtype`, `ndim`, `off` and `len` (rows of `lists`), `aux` |
| `lists` | lists of types and of dimensions | row of `types` or `prims` |
| `prims` | dimensions | `op`, `flags`, `dtype`, `a`, `b` |
| `strs`, `str_bytes` | strings | `off` and `len` (rows of `str_bytes`) |
| `dicts`, `attrs` | attributes | `off` and `len` (rows of `attrs`); `key` (row of `strs`), `kind`, `flags`, `val` |
| `consts` | constants | `hash_lo`, `hash_hi`, `bytes`, `dtype`, `ty` |
| `buffers` | buffers of TIR | `dtype`, `scope`, shape, strides, offset, `align`, `offset_factor` |
| `names`, `name_bytes`, `var_names` | names of nodes and of symbolic variables | offset into `name_bytes`: length in two bytes, then UTF-8 |

`NONE` stands for a missing row.

>>> import numpy, passhost
>>> mod = passhost.script.from_source('''
... @I.ir_module
... class Module:
...     @R.function
...     def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
...         y = R.add(x, x)
...         return R.multiply(y, y)
... ''')
>>> nodes = mod["main"].table()
>>> int(numpy.count_nonzero(nodes["kind"] == Kind.CALL))
2
>>> counts = numpy.bincount(nodes["kind"])
>>> {Kind(kind).name: int(counts[kind]) for kind in numpy.flatnonzero(counts)}
{'FUNC': 1, 'PARAM': 1, 'BLOCK': 1, 'CALL': 2, 'YIELD': 1}
>>> nodes["kind"] = 0
Traceback (most recent call last):
    ...
ValueError: assignment destination is read-only
>>> operators(mod["main"])
{'relax.add': 1, 'relax.multiply': 1}
"""  # noqa: E501

from __future__ import annotations

from collections import Counter
from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING, Any, Protocol

from passhost import _passhost
from passhost._numpy import np

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["LEAF_BIT", "NONE", "Flag", "Kind", "Leaf", "TypeKind", "operators", "table"]


class _Sealed(Protocol):
    """A function of a module."""

    def _seal(self) -> _passhost.Body: ...


NONE = 2**32 - 1
"""The value of a missing row."""
LEAF_BIT = 2**31
"""The flag of operands that are rows of `leaves`."""


class Kind(IntEnum):
    """Kinds of nodes."""

    FUNC = 0x001
    PARAM = 0x002
    BLOCK = 0x003
    DATAFLOW = 0x004
    CALL = 0x005
    TUPLE = 0x006
    TUPLE_GET = 0x007
    IF = 0x008
    BRANCH = 0x009
    YIELD = 0x00A
    MATCH_CAST = 0x00B
    ALIAS = 0x00C
    EXTERN = 0x00D
    MODULE = 0x00E
    SEQ = 0x00F
    PRIM_FUNC = 0x101
    BUFFER = 0x102
    FOR = 0x103
    SBLOCK = 0x104
    ITER_VAR = 0x105
    STORE = 0x106
    LOAD = 0x107
    ARITH = 0x108
    EVALUATE = 0x109
    INIT = 0x10A
    ACCESS = 0x10B
    LOOP_VAR = 0x10C
    WHILE = 0x10D
    BIND = 0x10E
    COND = 0x10F
    SCOPE = 0x110
    ATTR = 0x111
    ASSERT = 0x112
    SELECT = 0x113
    RAMP = 0x114
    BROADCAST = 0x115
    SHUFFLE = 0x116
    LET = 0x117
    VAR = 0x118
    BUFFER_PART = 0x119
    RETURN = 0x11A
    BREAK = 0x11B
    CONTINUE = 0x11C
    LAUNCH = 0x11D
    WHERE = 0x11E
    ANNOTATE = 0x11F
    COMBINER = 0x120


class Flag(IntFlag):
    """Flags of nodes."""

    BOUND = 1
    REGION = 2
    DATAFLOW = 4
    TERM = 8
    IMPURE = 16
    OWNER = 32
    INNER = 64
    PRIVATE = 128


class Leaf(IntEnum):
    """Kinds of leaves."""

    OP = 1
    GLOBAL_VAR = 2
    CONST = 3
    SHAPE = 4
    PRIM = 5
    STR = 6
    DTYPE = 7
    EXTERN_FUNC = 8
    TYPE = 9
    ATTR = 10


class TypeKind(IntEnum):
    """Kinds of types."""

    OBJECT = 1
    PRIM = 2
    SHAPE = 3
    TENSOR = 4
    TUPLE = 5
    CALLABLE = 6
    BUFFER = 7
    POINTER = 8
    DTENSOR = 9


def table(function: _Sealed, name: str = "nodes") -> npt.NDArray[Any]:
    """Returns a table of a function as a read-only view of its memory. The view keeps the function alive."""
    return np.asarray(_passhost.Records(function._seal(), name))


def operators(function: _Sealed) -> dict[str, int]:
    """Counts the calls of each Relax operator in a function, most frequent first.

    It reads only the tables, so it creates no objects for calls.
    """
    nodes, operands, leaves = (table(function, name) for name in ("nodes", "operands", "leaves"))
    callees = operands[nodes["ops"][nodes["kind"] == Kind.CALL]]
    callees = callees[callees >= LEAF_BIT] - LEAF_BIT
    callees = callees[leaves["kind"][callees] == Leaf.OP]
    strings, text = table(function, "strs"), table(function, "str_bytes").tobytes()
    counted: Counter[str] = Counter()
    for leaf, count in zip(*np.unique(callees, return_counts=True), strict=True):
        begin, length = strings[int(leaves["val"][leaf])]
        counted[text[begin : begin + length].decode()] += int(count)
    return dict(counted.most_common())
