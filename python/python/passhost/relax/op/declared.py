"""Functions that create calls of declared operators."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from operator import index
from typing import Any

from passhost import _passhost, _plugins
from passhost._numpy import is_scalar
from passhost.ir.attrs import Attrs
from passhost.ir.expr import Call, EqualOp, Expr, Op, StringImm, Tuple, checked_expr
from passhost.ir.prim import FloatImm, IntImm
from passhost.ir.type import MISSING, as_dtype
from passhost.relax.expr import ExternFunc, ShapeExpr


class Signature:
    """The arguments and attributes of an operator."""

    def __init__(self, facts: dict[str, Any]) -> None:
        """Creates a signature from the operator's metadata."""
        self.name: str = facts["name"]
        self.args: list[tuple[str, str, bool]] = facts["args"]
        self.attrs: list[tuple[str, str, str, Any, bool]] = facts["attrs"]
        self.doc: str = facts["doc"]
        self.variadic = bool(self.args) and self.args[-1][0].startswith("*")
        self.kinds = {name: kind for name, kind, _ in self.args}
        self.types = {name: ty for name, ty, *_ in self.attrs}
        self.lengths = {
            name: len(default) for name, ty, how, default, _ in self.attrs if ty == "repeated ints" and how == "value"
        }
        self.signature = inspect.Signature(self._parameters(), return_annotation=Call)

    def _parameters(self) -> list[inspect.Parameter]:
        parameters, optional = [], False
        for name, _, may_miss in self.args:
            kind = inspect.Parameter.VAR_POSITIONAL if name.startswith("*") else _POSITIONAL
            optional = optional or may_miss
            default = None if optional and kind == _POSITIONAL else inspect.Parameter.empty
            parameters.append(inspect.Parameter(name.lstrip("*"), kind, default=default))
        by_name = self.variadic
        for name, _, how, default, named in self.attrs:
            by_name = by_name or named
            if how == "required":
                shown = None if optional and not by_name else inspect.Parameter.empty
            else:
                shown, optional = (default if how == "value" else None), True
            how_given = inspect.Parameter.KEYWORD_ONLY if by_name else _POSITIONAL
            parameters.append(inspect.Parameter(name, how_given, default=shown))
        return _swapped(parameters, _SWAPPED[self.name]) if self.name in _SWAPPED else parameters

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Returns a call with these arguments."""
        try:
            given = self.signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{self.name}{self.signature}: {error}") from None
        return Call(Op.get(self.name), self._exprs(given), self._attributes(given))

    def _exprs(self, given: dict[str, Any]) -> list[Expr]:
        exprs: list[Expr] = []
        missing = None
        for name, kind, _ in self.args:
            value = given.get(name.lstrip("*"))
            if name.startswith("*"):
                exprs.extend(operand(item, kind, name) for item in value or ())
            elif value is None:
                missing = missing or name
            elif missing is not None:
                raise TypeError(f"{self.name}: argument {name} is given without {missing}, which comes before it")
            else:
                exprs.append(operand(value, kind, name))
        return exprs

    def _attributes(self, given: dict[str, Any]) -> Attrs | None:
        if not self.attrs:
            return None
        values: dict[str, Any] = {}
        for name, ty, how, default, _ in self.attrs:
            if name in given and not (given[name] is None and how == "same"):
                values[name] = attribute(self, name, ty, given[name])
            elif how == "value":
                values[name] = tuple(default) if isinstance(default, list) else default
            elif how == "same":
                values[name] = values.get(default)
        return Attrs(values)


def _swapped(parameters: list[inspect.Parameter], swapped: tuple[str, str]) -> list[inspect.Parameter]:
    """Swaps two parameters, and makes all of them positional."""
    names = [parameter.name for parameter in parameters]
    a, b = map(names.index, swapped)
    parameters[a], parameters[b] = parameters[b], parameters[a]
    return [parameter.replace(kind=_POSITIONAL) for parameter in parameters]


_POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD
# Operators, with the two attributes whose order in TVM's functions differs from the order in its texts.
_SWAPPED = {
    **{
        f"relax.{name}": ("dilation", "padding")
        for name in (
            *(f"nn.{kind}_pool{n}d" for kind in ("avg", "max") for n in (1, 2, 3)),
            "grad.avg_pool2d_backward",
            "grad.max_pool2d_backward",
        )
    },
    "relax.dequantize": ("out_dtype", "axis"),
    "relax.nn.pad": ("pad_value", "pad_mode"),
    "relax.quantize": ("out_dtype", "axis"),
}


def operand(value: Any, kind: str, name: str) -> Expr:
    """Converts an argument to an expression. The argument may be an expression, dimensions, a list of tensors, a
    number, or a symbol."""
    if isinstance(value, Expr):
        return value
    if kind == "shape" and isinstance(value, Iterable) and not isinstance(value, str):
        return ShapeExpr(value)
    if kind == "function" and isinstance(value, str):
        return ExternFunc(value)
    if isinstance(value, tuple | list):
        return Tuple(value)
    if isinstance(value, EqualOp):
        return value.asobject()
    if isinstance(value, int | float | bool | str):
        return checked_expr(value, name)
    raise TypeError(f"argument {name} must be an expression, not {type(value).__name__}")


def attribute(of: Signature, name: str, ty: str, value: Any) -> Any:
    """Converts the value of an attribute to the form that the operator declares."""
    if isinstance(value, IntImm | FloatImm | StringImm):
        value = value.value
    if is_scalar(value):
        value = value.item()
    if ty == "dtype":
        return as_dtype(value)
    if ty in ("ints", "ints | None", "repeated ints"):
        return _ints(of, name, ty, value)
    if ty == "float" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    expected = _TYPES.get(ty)
    wrong_bool = isinstance(value, bool) and expected is not None and bool not in expected
    if expected is not None and (not isinstance(value, expected) or wrong_bool):
        raise TypeError(f"{of.name}: {name} must be of type {ty}, not {value!r}")
    return value


_TYPES: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (float,),
    "str": (str,),
    "int | None": (int, type(None)),
    "str | None": (str, type(None)),
}


def _ints(of: Signature, name: str, ty: str, value: Any) -> tuple[int, ...] | None:
    if value is None and ty == "ints | None":
        return None
    items = [value] if not isinstance(value, Iterable) else list(value)
    try:
        numbers = tuple(index(item.value if isinstance(item, Expr) else item) for item in items)  # type: ignore[attr-defined]
    except (TypeError, ValueError, AttributeError):
        raise TypeError(f"{of.name}: {name} must be a list of int, not {value!r}") from None
    wanted = of.lengths.get(name, len(numbers))
    if ty == "repeated ints" and numbers and wanted % len(numbers) == 0:
        numbers *= wanted // len(numbers)
    return numbers


@cache
def signatures() -> dict[str, Signature]:
    """Returns the signatures of all operators."""
    _plugins.ensure_loaded()
    return {facts["name"]: Signature(facts) for facts in _passhost.operators()}


def maker(name: str) -> Callable[..., Call]:
    """Returns the function that creates calls of an operator."""
    signature = signatures()[name]
    n_args = len(signature.args)
    plain = not signature.attrs and not signature.variadic
    op = Op.get(name)

    def call(*args: Any, **kwargs: Any) -> Call:
        if plain and not kwargs and len(args) == n_args:
            for arg in args:
                if not isinstance(arg, Expr):
                    break
            else:
                made = Call.__new__(Call)
                made._op = op
                made._args = args
                made._attrs = None
                made._ty_args = ()
                made._ty = MISSING
                return made
        return signature.call(args, kwargs)

    call.__name__ = call.__qualname__ = name.rpartition(".")[2]
    call.__doc__ = signature.doc
    call.operator = name  # type: ignore[attr-defined]
    call.__signature__ = signature.signature  # type: ignore[attr-defined]
    return call


class Namespace:
    """The operators with a common prefix."""

    def __init__(self, prefix: str, special: Mapping[str, Callable[..., Any]] | None = None) -> None:
        """Creates the namespace of a prefix, which ends with a dot. `special` maps full names to functions
        that replace those of operators, or supplement them."""
        self._prefix = prefix
        self._special = special or {}

    def __getattr__(self, word: str) -> Any:
        """Returns the operator or namespace with this name."""
        if word.startswith("__"):
            raise AttributeError(word)
        full = self._prefix + word
        known = signatures()
        found: Any
        if full in self._special:
            found = self._special[full]
        elif full in known:
            found = maker(full)
        elif any(name.startswith(f"{full}.") for name in known):
            found = Namespace(f"{full}.", self._special)
        else:
            Op.get(full)
            raise AttributeError(f"no operator {full}")
        setattr(self, word, found)
        return found

    def __dir__(self) -> list[str]:
        """Lists the names in the namespace."""
        n = len(self._prefix)
        names = (*signatures(), *self._special)
        return sorted({name[n:].split(".")[0] for name in names if name.startswith(self._prefix)})

    def __repr__(self) -> str:
        """Returns the prefix."""
        return f"<operators {self._prefix}*>"
