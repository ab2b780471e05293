"""PrimFuncs of tensor expressions, and calls of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from passhost import _passhost
from passhost.ir._node import fields_of
from passhost.ir.expr import Call, Expr, GlobalVar, Tuple
from passhost.relax.expr import ShapeExpr
from passhost.relax.op.special import call_tir
from passhost.relax.type import ShapeType, TensorType
from passhost.te.expr import Tensor, TensorRead
from passhost.tirx.function import PrimFunc


class Builder(Protocol):
    """The methods of `BlockBuilder` that a call uses."""

    def _operand(self, expr: Expr) -> Expr: ...

    def _add_func(self, func: PrimFunc, func_name: str, shared: bool) -> GlobalVar: ...


class _Arguments:
    """Converts Relax values to tensors."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.tensors: list[tuple[Tensor, Expr]] = []

    def convert(self, value: Any) -> Any:
        """Converts an argument for a function of tensor expressions."""
        if isinstance(value, list | tuple):
            return type(value)(self.convert(item) for item in value)
        if isinstance(value, dict):
            return {key: self.convert(item) for key, item in value.items()}
        if not isinstance(value, Expr) or value._prim:
            return value
        if isinstance(value, ShapeExpr):
            return list(value.values)
        if isinstance(value, Tuple):
            return [self.convert(item) for item in value.fields]
        return self.tensor(self.builder._operand(value))

    def tensor(self, value: Expr) -> Tensor:
        """Returns a tensor for a value."""
        ty = value.ty
        assert not isinstance(ty, ShapeType), "a shape is an argument only if it is written as a ShapeExpr"
        if not isinstance(ty, TensorType) or not isinstance(ty.shape, ShapeExpr) or ty.dtype is None:
            raise TypeError(f"an argument must be a tensor of known shape and data type, not a value of type {ty!r}")
        at = len(self.tensors)
        name = chr(ord("A") + at) if at < 26 else f"input{at}"
        made = Tensor(ty.shape.values, str(ty.dtype), name)
        self.tensors.append((made, value))
        return made


def _steps(results: list[Tensor]) -> list[Tensor]:
    """Returns the computed tensors, each after its inputs."""
    order: list[Tensor] = []
    seen: set[int] = set()
    work = [(tensor, False) for tensor in reversed(results)]
    while work:
        tensor, done = work.pop()
        if done:
            order.append(tensor)
        elif id(tensor) not in seen and tensor.element is not None:
            seen.add(id(tensor))
            work.append((tensor, True))
            work.extend((read, False) for read in reversed(_reads(tensor.element)))
    return order


def _reads(element: Expr) -> list[Tensor]:
    found: list[Tensor] = []
    work: list[Any] = [element]
    seen: set[int] = set()
    while work:
        part = work.pop()
        if isinstance(part, tuple | list):
            work.extend(reversed(part))
        elif isinstance(part, Expr) and id(part) not in seen:
            seen.add(id(part))
            if isinstance(part, TensorRead):
                found.append(part.tensor)
            work.extend(getattr(part, name) for name in reversed(fields_of(type(part))))
    return found


def prim_func(name: str, inputs: list[Tensor], results: list[Tensor]) -> tuple[_passhost.Body, list[int], list[Expr]]:
    """Returns the PrimFunc of some tensors: its handle, the inputs that it uses, and its symbolic variables."""
    known = [(tensor, tensor.name, TensorType(tensor.shape, tensor.dtype)) for tensor in inputs]
    return _passhost.te_function(name, known, _steps(results), results)


def create_prim_func(ops: Sequence[Tensor]) -> PrimFunc:
    """Returns the PrimFunc of tensors: its parameters are the placeholders, then the computed tensors."""
    tensors = list(ops)
    inputs = [tensor for tensor in tensors if tensor.element is None]
    results = tensors[len(inputs) :]
    if not results or any(tensor.element is None for tensor in results):
        raise ValueError(
            "create_prim_func takes the tensors that are arguments, and after them those that are computed"
        )
    handle, used, symbols = prim_func("main", inputs, results)
    unused = [tensor.name for at, tensor in enumerate(inputs) if at not in used]
    if unused or symbols:
        what = f"the argument {unused[0]} is not used" if unused else f"{symbols[0]} is in no shape of an argument"
        raise ValueError(f"the PrimFunc would have other parameters than these tensors: {what}")
    return PrimFunc._of(handle, "main")


def call_te(
    builder: Builder, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], shared: bool = True
) -> Call:
    """Returns a call of the PrimFunc that computes the result of a function; equal PrimFuncs may be `shared`."""
    hint = kwargs.pop("primfunc_name_hint", None) or getattr(func, "__name__", "te_func")
    attrs = kwargs.pop("primfunc_attrs", None)
    arguments = _Arguments(builder)
    given = arguments.convert(args), arguments.convert(kwargs)
    made = func(*given[0], **given[1])
    results = list(made) if isinstance(made, tuple | list) else [made]
    for result in results:
        if not isinstance(result, Tensor):
            raise TypeError(f"a function of tensor expressions returns tensors, not {type(result).__name__}")
    name = hint if hint.isidentifier() else "te_func"
    handle, used, symbols = prim_func(name, [tensor for tensor, _ in arguments.tensors], results)
    function = PrimFunc._of(handle, name)
    if attrs:
        function = function.with_attrs(attrs)
    gvar = builder._add_func(function, name, shared)
    values = [arguments.tensors[at][1] for at in used] + symbols
    types = [TensorType(result.shape, result.dtype) for result in results]
    return call_tir(gvar, Tuple(values), types if isinstance(made, tuple | list) else types[0])
