"""Types of values. Types are equal if they have the same content, with the same symbolic variables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from passhost import _passhost
from passhost.ir._node import Comparison, Node


class DataType(str):
    """A data type such as `float32`, equal to its name."""

    __slots__ = ()


class Type(Node):
    """A type. The base class is also the type of expressions whose type is not known yet."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        """Returns true if both types are equal."""
        if self is other:
            return True
        return isinstance(other, Type) and self._equals(other)

    def _equals(self, other: Type) -> bool:
        """Returns true if both types are equal, with the same symbolic variables."""
        return Comparison(free=False).same(self, other)

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
        """Returns true if every value of the other type is also a value of this type."""
        return self == derived or self._includes(derived)

    def _includes(self, derived: Type) -> bool:
        """Returns true if every value of the other type, which is not equal, is also a value of this type."""
        return False


MISSING = Type()


class PrimType(Type):
    """The type of a scalar."""

    __slots__ = ("dtype",)
    dtype: DataType

    def __init__(self, dtype: str | PrimType) -> None:
        """Creates a type from a data type."""
        self._dtype = dtype.dtype if isinstance(dtype, PrimType) else DataType(_checked_dtype(dtype))

    def __eq__(self, other: object) -> bool:
        """Returns true if the other object is the same scalar type, or the name of this type."""
        if isinstance(other, str):
            return self.dtype == other
        return isinstance(other, PrimType) and self.dtype == other.dtype

    def __ne__(self, other: object) -> bool:
        """Returns true if the other object differs."""
        return not self == other

    def __hash__(self) -> int:  # type: ignore[override]
        """Hashes the name."""
        return hash(str(self.dtype))

    def _same(self, other: object, by: Comparison, defines: bool) -> bool:
        return type(self) is type(other) and self == other

    def __str__(self) -> str:
        """Returns the name."""
        return str(self.dtype)

    def is_scalar(self) -> bool:
        """True if the type is not a vector."""
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
    raise TypeError(f"a data type must be a str such as 'float32' or a PrimType, not {dtype!r}")


def _parsed(dtype: str) -> str:
    name: str = _passhost.parse_dtype(str(dtype))
    _KNOWN[str(dtype)] = name
    return name


_KNOWN: dict[str, str] = {}


def as_dtype(dtype: object) -> str | None:
    """Returns the name of a data type, from a str, a PrimType, a NumPy type or None."""
    if dtype is None:
        return None
    if isinstance(dtype, PrimType):
        return str(dtype.dtype)
    return _checked_dtype(dtype) if dtype != "" else None


class AnyType(Type):
    """The type of any value."""

    __slots__ = ()

    def __init__(self, span: Any = None) -> None:
        """Creates the type; all are equal."""

    def _includes(self, derived: Type) -> bool:
        return True


class StringType(Type):
    """The type of a string."""

    __slots__ = ()


class PointerType(Type):
    """A pointer to elements in a memory scope."""

    __slots__ = ("element_type", "storage_scope")
    element_type: Type
    storage_scope: str

    def __init__(self, element_type: Type, storage_scope: str = "") -> None:
        """Creates a type from the type of the elements."""
        self._element_type = element_type
        self._storage_scope = storage_scope


class TupleType(Type):
    """The type of a tuple."""

    __slots__ = ("fields",)
    fields: tuple[Type, ...]

    def __init__(self, fields: Iterable[Type], span: Any = None) -> None:
        """Creates a type from the types of the elements."""
        self._fields = tuple(checked_type(field) for field in fields)

    def _includes(self, derived: Type) -> bool:
        if not isinstance(derived, TupleType) or len(self.fields) != len(derived.fields):
            return False
        return all(a.is_base_of(b) for a, b in zip(self.fields, derived.fields, strict=True))


class FuncType(Type):
    """The type of a function: its parameters (None for any), its result, and its purity."""

    __slots__ = ("params", "purity", "ret")
    params: tuple[Type, ...] | None
    ret: Type
    purity: bool

    def __init__(self, params: Sequence[Type] | None, ret: Type, purity: bool = True, span: Any = None) -> None:
        """Creates a type from the types of the parameters and the result."""
        self._params = None if params is None else tuple(checked_type(param) for param in params)
        self._ret = checked_type(ret)
        self._purity = bool(purity)

    def _includes(self, derived: Type) -> bool:
        if not isinstance(derived, FuncType):
            return False
        pure = derived.purity or not self.purity
        params = self.params is None or (derived.params is not None and len(self.params) == len(derived.params))
        return pure and params and self.ret.is_base_of(derived.ret)

    @staticmethod
    def opaque_func(*, ret: Type | None = None, purity: bool = False, span: Any = None) -> FuncType:
        """Returns the type of a function with any parameters."""
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
