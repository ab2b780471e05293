"""Computations of Relax operators as tensors.

The plugin that declares an operator legalizes it, and the PrimFunc that it returns is read back as tensor expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, NamedTuple, cast

from passhost import _passhost
from passhost.ir._node import fields_of
from passhost.ir.expr import Constant, Expr, Op, Tuple, Var
from passhost.ir.prim import Add, And, Max, Min, Mul, Or, convert, prim_type, scalar, wider
from passhost.relax import op as operators
from passhost.relax.type import TensorType
from passhost.te.expr import IterVar, Pair, PairItem, Reduce, Tensor
from passhost.tirx.stmt import Bind, BufferStore, For, SBlock, SBlockRealize, TensorLoad, stmt_list
from passhost.tirx.stmt import IterVar as BlockIter


class Operand(NamedTuple):
    """An argument of an operator: its shape, its data type, and the function that returns its element at indices."""

    shape: tuple[Any, ...]
    dtype: str
    read: Callable[..., Any]
    name: str = "A"


def operand(value: Any) -> Operand:
    """Returns a tensor or a number as an operand.

    As in TVM, a number has its own type: an int is int32, or int64 if it is large, and a float is float32.
    """
    if isinstance(value, Operand):
        return value
    if isinstance(value, Tensor):
        return Operand(value.shape, value.dtype, value, value.name)
    wide = isinstance(value, int) and not -(1 << 31) <= value < 1 << 31
    number = scalar(value, "int64" if wide else None)
    return Operand((), str(number.ty), lambda: number)


def of_type(value: Operand, dtype: str) -> Operand:
    """Returns an operand whose elements are converted to a data type."""
    if value.dtype == dtype:
        return value
    return value._replace(dtype=dtype, read=lambda *i: convert(dtype, value.read(*i)))


def of_one_type(*values: Any) -> list[Operand]:
    """Returns tensors and numbers as operands whose elements are converted to the widest of their types."""
    each = [operand(value) for value in values]
    widest = each[0].dtype
    for one in each[1:]:
        widest = wider(prim_type(widest), prim_type(one.dtype)).dtype
    return [of_type(one, widest) for one in each]


def legalized(op: str, *args: Any, **attrs: Any) -> list[Tensor]:
    """Returns the tensors that an operator computes.

    Tensors and operands among the arguments and in lists become tensor arguments; other arguments are passed on
    unchanged.
    """
    params: list[Var] = []
    reads: list[Callable[..., Any]] = []

    def param(value: Any) -> Any:
        if isinstance(value, list) and value and isinstance(value[0], Tensor | Operand):
            return Tuple([param(item) for item in value])
        if not isinstance(value, Tensor | Operand):
            return value
        one = operand(value)
        params.append(Var(one.name, TensorType(one.shape, one.dtype)))
        reads.append(one.read)
        return params[-1]

    call = attrgetter(op)(operators)(*[param(arg) for arg in args], **attrs)
    used, symbols, buffers, body = _passhost.legalized(params, call)
    known = dict(zip(buffers, [reads[at] for at in used] + symbols, strict=False))
    made = _Nests(op, known).tensors(body)
    return [made[buffer] for buffer in buffers[len(known) :]]


_KINDS = {Add: "sum", Or: "sum", Mul: "prod", And: "prod", Max: "max", Min: "min"}


class _Nests:
    """Reads the loop nests of a PrimFunc back as tensors."""

    def __init__(self, op: str, known: Mapping[Var, Any]) -> None:
        self.op = op
        self.known = dict(known)
        """For each buffer, the function that returns an element; for each variable, its value."""

    def tensors(self, body: Any) -> dict[Var, Tensor]:
        """Returns the tensor for each buffer that the function writes."""
        made: dict[Var, Tensor] = {}
        for nest in stmt_list(body.block.body):
            while isinstance(nest, For):
                nest = nest.body
            if not isinstance(nest, SBlockRealize):
                raise self.other("a statement outside of a block")
            found = self.block(nest.block)
            if not made.keys().isdisjoint(found):
                raise self.other("a buffer that two blocks write")
            made.update(found)
            self.known.update(found)
        return made

    def block(self, block: SBlock) -> dict[Var, Tensor]:
        """Returns the tensors that a block computes."""
        parts = stmt_list(block.body)
        stores = [part for part in parts if isinstance(part, BufferStore)]
        bound = {part.var: part.value for part in parts if isinstance(part, Bind)}
        starts = [cast(BufferStore, part).value for part in stmt_list(block.init)] if block.init is not None else []
        at = stores[0].indices if stores else ()
        spatial = {axis.var for axis in block.iter_vars if axis.iter_type == BlockIter.DataPar}
        if not spatial.issuperset(at) or len(spatial) > max(len(at), 1):
            raise self.other("a store at indices other than the axes of its block")
        indices = cast(tuple[Var, ...], at)
        axes = tuple(Var(axis.name.removeprefix("v_"), str(axis.ty)) for axis in indices)
        self.known.update(zip(indices, axes, strict=True))
        over = [self.reduced(axis) for axis in block.iter_vars if axis.iter_type == BlockIter.CommReduce]
        if len(parts) == 1 and len(stores) == 1:
            elements = [self.reduction(stores[0], starts, over) if over else self.expr(stores[0].value)]
        elif len(stores) == len(bound) == len(starts) == 2 and len(parts) == 4:
            elements = self.pair([(store.buffer, bound[cast(Var, store.value)]) for store in stores], starts, over)
        else:
            raise self.other("a block with statements that do not define tensors")
        made: dict[Var, Tensor] = {}
        for store, element in zip(stores, elements, strict=True):
            ty: Any = store.buffer.ty
            made[store.buffer] = Tensor(self.expr(ty.shape), str(ty.dtype), store.buffer.name, axes, element)
            made[store.buffer].attrs = dict(block.annotations)
        return made

    def reduction(self, store: BufferStore, starts: list[Expr], over: list[IterVar]) -> Expr:
        value: Any = store.value
        kind = _KINDS.get(type(value))
        if kind is None or len(starts) != 1 or getattr(value.a, "source", None) is not store.buffer:
            raise self.other("a reduction that is not a sum, product, maximum or minimum")
        [start] = starts
        if kind in ("sum", "prod"):
            if getattr(start, "value", None) != (kind == "prod"):
                raise self.other(f"a {kind} that starts from {start}")
            return Reduce(kind, self.expr(value.b), over)
        return Reduce(kind, self.expr(value.b), over, start)

    def pair(self, values: list[tuple[Var, Expr]], starts: list[Expr], over: list[IterVar]) -> list[Expr]:
        current = [Var(buffer.name, str(cast(Any, buffer.ty).dtype)) for buffer, _ in values]
        for (buffer, _), var in zip(values, current, strict=True):
            self.known[buffer] = lambda *_, var=var: var
        pair = Pair(current, self.expr(tuple(starts)), self.expr(tuple(value for _, value in values)), over)
        return [PairItem(pair, 0), PairItem(pair, 1)]

    def reduced(self, axis: BlockIter) -> IterVar:
        made = IterVar(self.expr(axis.dom.extent), axis.var.name.removeprefix("v_"))  # type: ignore[union-attr]
        self.known[axis.var] = made.var
        return made

    def expr(self, expr: Any) -> Any:
        """Returns an expression with elements of tensors in place of elements of buffers.

        It does not recurse, because a concatenation of many tensors is nested deeply.
        """
        done: list[Any] = []
        work: list[tuple[Any, int | None]] = [(expr, None)]
        while work:
            node, n_parts = work.pop()
            if n_parts is not None:
                start = len(done) - n_parts
                done[start:] = [self.made_of(node, done[start:])]
            elif isinstance(node, Var):
                done.append(self.known.get(node, node))
            elif isinstance(node, tuple) or (isinstance(node, Expr) and not isinstance(node, Constant | Op)):
                parts = _parts(node)
                work.append((node, len(parts)))
                work.extend((part, None) for part in reversed(parts))
            else:
                done.append(node)
        return done.pop()

    def made_of(self, node: Any, parts: list[Any]) -> Any:
        """Returns an expression like `node` with different parts."""
        if isinstance(node, tuple):
            return tuple(parts)
        if isinstance(node, TensorLoad):
            return self.known[node.source](*parts)
        if all(a is b for a, b in zip(_parts(node), parts, strict=True)):
            return node
        cls: Any = type(node)
        made = cls.__new__(cls)
        for name, part in zip(fields_of(cls), parts, strict=True):
            setattr(made, f"_{name}", part)
        made._ty = node.ty
        return made

    def other(self, what: str) -> ValueError:
        return ValueError(f"{self.op}: its legalization has {what}, so it is not a tensor expression")


def _parts(node: Any) -> tuple[Any, ...]:
    if isinstance(node, tuple):
        return node
    return (
        node.indices if isinstance(node, TensorLoad) else tuple(getattr(node, name) for name in fields_of(type(node)))
    )
