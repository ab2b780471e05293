"""Types of values. Types are equal if they have the same content, with the same symbolic variables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from passhost.ir._node import Node

if TYPE_CHECKING:
    from passhost.ir.expr import Expr


class DataType(str):
    """A data type such as `float32`, equal to its name."""

    __slots__ = ()


class Type(Node):
    """A type. The base class itself is the type of an expression whose type is not known yet."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        """Returns true if both types are equal."""
        if self is other:
            return True
        from passhost.ir.structural import same_types

        return isinstance(other, Type) and same_types(self, other)

    def __ne__(self, other: object) -> bool:
        """Returns true if both types differ."""
        return not self == other

    @staticmethod
    def missing() -> Type:
        """Returns the type of an expression whose type is not known yet."""
        return MISSING

    Missing = missing

    def is_missing(self) -> bool:
        """True if the type is not known yet."""
        return self is MISSING

    def is_base_of(self, derived: Type) -> bool:
        """Returns true if every value of the other type is a value of this one."""
        from passhost.ir.structural import is_base_of

        return is_base_of(self, derived)


MISSING = Type()


class PrimType(Type):
    """The type of a scalar."""

    __slots__ = ("dtype",)
    dtype: DataType

    def __init__(self, dtype: str | PrimType) -> None:
        """Takes a data type."""
        self._dtype = dtype.dtype if isinstance(dtype, PrimType) else DataType(_checked_dtype(dtype))

    def __eq__(self, other: object) -> bool:
        """Returns true if the other one is the same scalar type, or its name."""
        if isinstance(other, str):
            return self.dtype == other
        return isinstance(other, PrimType) and self.dtype == other.dtype

    def __ne__(self, other: object) -> bool:
        """Returns true if the other one differs."""
        return not self == other

    def __hash__(self) -> int:  # type: ignore[override]
        """Hashes the name."""
        return hash(str(self.dtype))

    def __str__(self) -> str:
        """Returns the name."""
        return str(self.dtype)

    def is_scalar(self) -> bool:
        """True if it is not a vector."""
        return "x" not in self.dtype.rpartition("_")[2]

    @property
    def bits(self) -> int:
        """The bits of a lane."""
        if self.dtype == "bool":
            return 1
        digits = "".join(c for c in self.dtype.partition("x")[0].partition("_")[0] if c.isdigit())
        return int(digits or 64)


def _checked_dtype(dtype: object) -> str:
    if isinstance(dtype, str):
        if not dtype:
            raise ValueError("a data type is written like 'float32', 'int64', 'bool'; found ''")
        return _KNOWN.get(dtype) or _parsed(dtype)
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None)
    if isinstance(name, str):
        return _checked_dtype(name)
    raise TypeError(f"a data type is a str such as 'float32' or a PrimType, not {dtype!r}")


def _parsed(dtype: str) -> str:
    from passhost import _passhost

    name: str = _passhost.parse_dtype(str(dtype))
    _KNOWN[str(dtype)] = name
    return name


_KNOWN: dict[str, str] = {name: name for name in ("float32", "float16", "int64", "int32", "bool", "uint8", "float64")}


def as_dtype(dtype: object) -> str | None:
    """Returns the name of a data type, from a str, a PrimType, a NumPy type or None."""
    if dtype is None:
        return None
    if isinstance(dtype, PrimType):
        return str(dtype.dtype)
    return _checked_dtype(dtype) if dtype != "" else None


class StringType(Type):
    """The type of a string."""

    __slots__ = ()


class PointerType(Type):
    """A pointer to elements in a memory scope."""

    __slots__ = ("element_type", "storage_scope")
    element_type: Type
    storage_scope: str

    def __init__(self, element_type: Type, storage_scope: str = "") -> None:
        """Takes the type of the elements."""
        self._element_type = element_type
        self._storage_scope = storage_scope


class TupleType(Type):
    """The type of a tuple."""

    __slots__ = ("fields",)
    fields: tuple[Type, ...]

    def __init__(self, fields: Iterable[Type], span: Any = None) -> None:
        """Takes the types of the elements."""
        self._fields = tuple(checked_type(field) for field in fields)


class FuncType(Type):
    """The type of a function: its parameters (None for any), its result, and its purity."""

    __slots__ = ("params", "purity", "ret")
    params: tuple[Type, ...] | None
    ret: Type
    purity: bool

    def __init__(self, params: Sequence[Type] | None, ret: Type, purity: bool = True, span: Any = None) -> None:
        """Takes the types of the parameters and the result."""
        self._params = None if params is None else tuple(checked_type(param) for param in params)
        self._ret = checked_type(ret)
        self._purity = bool(purity)

    @staticmethod
    def opaque_func(*, ret: Type | None = None, purity: bool = False, span: Any = None) -> FuncType:
        """Returns the type of a function with any parameters."""
        from passhost.relax.type import AnyType

        return FuncType(None, ret if ret is not None else AnyType(), purity)


def checked_type(ty: object) -> Type:
    """Converts to a type, from a type or from an annotation of `passhost.script.relax`."""
    if isinstance(ty, Type):
        return ty
    if isinstance(ty, str):
        return PrimType(ty)
    as_type = getattr(ty, "as_type", None)
    if as_type is not None:
        made = as_type()
        if isinstance(made, Type):
            return made
    raise TypeError(f"ty must be a Type or primitive dtype string, not {type(ty).__name__}")


def dims_of(shape: Iterable[object]) -> tuple[Expr, ...]:
    """Converts numbers and expressions to dimensions."""
    from passhost.error import IllFormedError
    from passhost.ir.expr import as_dim

    dims = tuple(as_dim(dim) for dim in shape)
    for dim in dims:
        if str(dim.ty).startswith(("float", "bfloat", "T.float", "T.bfloat")):
            raise IllFormedError(f"the value in ShapeType can only have dtype of int64: {dim} is a {dim.ty}")
    return dims
