"""The base class of all IR objects, and their structural comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Self

from passhost import _provided
from passhost._tensor import Tensor
from passhost.error import too_deep


def _read_only(cls: type) -> None:
    """Makes the slots of a class read-only; within the package, the slot `op` is written as `_op`."""
    names = cls.__dict__.get("__slots__", ())
    for name in (names,) if isinstance(names, str) else names:
        if name.startswith("_"):
            continue
        slot = cls.__dict__[name]
        setattr(cls, f"_{name}", slot)
        setattr(cls, name, property(attrgetter(f"_{name}"), _refuse(name), _refuse(name), slot.__doc__))


def _refuse(name: str) -> Callable[..., None]:
    """Returns the setter of a field, which raises an error."""

    def refuse(node: object, _value: object = None) -> None:
        raise AttributeError(f"cannot set {name!r}: a {type(node).__name__} is immutable; create a new one")

    return refuse


_FIELDS: dict[Any, tuple[str, ...]] = {}


def fields_of(cls: type) -> tuple[str, ...]:
    """Returns the field names of a class, except `ty`, which the other fields determine."""
    found = _FIELDS.get(cls)
    if found is None:
        found = _FIELDS[cls] = _fields(cls)
    return found


def _fields(cls: type) -> tuple[str, ...]:
    slots = [name for base in reversed(cls.__mro__) for name in base.__dict__.get("__slots__", ())]
    return tuple(name for name in slots if not name.startswith("_") and name != "ty")


class Node:
    """An IR object. It is immutable; changing it means creating a new object."""

    __slots__ = ()
    _defines: ClassVar[tuple[str, ...]] = ()
    """Fields that define variables for the fields after them."""
    _is_var: ClassVar[bool] = False
    span: Any = None

    if TYPE_CHECKING:

        def __setattr__(self, name: str, value: Any) -> None:
            """Writes the slot `name` through `_name`, within the package."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Makes the fields of the subclass read-only."""
        super().__init_subclass__(**kwargs)
        _read_only(cls)

    def same_as(self, other: object) -> bool:
        """Returns true if both are the same object."""
        return self is other

    def _same(self, other: object, by: Comparison, defines: bool) -> bool:
        """Returns true if another node is structurally equal. `defines` is as in `Comparison.same`."""
        if type(self) is not type(other):
            return False
        if self is other and not by.forth:
            return True
        if self._defines:
            return by.definitions(self, other)
        for name in fields_of(type(self)):  # noqa: SIM110 - a generator takes more stack
            if not by.same(getattr(self, name), getattr(other, name), defines):
                return False
        return True

    def __copy__(self) -> Self:
        """Returns the object itself, because it is immutable."""
        return self

    def __deepcopy__(self, memo: object) -> Self:
        """Returns the object itself, because it is immutable."""
        return self

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Raises `TypeError`, because the meaning of the object depends on the enclosing function or module; pickle
        that instead."""
        raise TypeError(f"a {type(self).__name__} alone cannot be pickled; pickle the function or module that it is in")

    def script(self, **_options: Any) -> str:
        """Returns the object as TVMScript."""
        try:
            return _provided.text_of(self)
        except RecursionError as error:
            raise too_deep(error) from None

    def show(self, **_options: Any) -> None:
        """Prints the object."""
        print(self.script())

    def __repr__(self) -> str:
        """Returns the object as TVMScript."""
        return self.script()


class Comparison:
    """The state of a structural comparison: which variables of both sides correspond.

    The method `_same` of a class compares its objects.
    """

    def __init__(self, free: bool) -> None:
        """Creates an empty correspondence. With `free`, free variables of both sides may differ."""
        self.free = free
        self.forth: dict[int, tuple[Any, Any]] = {}
        self.back: dict[int, Any] = {}

    def same(self, a: Any, b: Any, defines: bool = False) -> bool:
        """Returns true if two objects are equal. With `defines`, scalar variables in them are defined here."""
        if isinstance(a, Node):
            return a._same(b, self, defines)
        if isinstance(a, tuple | list) and isinstance(b, tuple | list):
            return len(a) == len(b) and all(self.same(x, y, defines) for x, y in zip(a, b, strict=True))
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            return a.keys() == b.keys() and all(self.same(value, b[key], defines) for key, value in a.items())
        if isinstance(a, Tensor) and isinstance(b, Tensor):
            return a.dtype == b.dtype and a.shape == b.shape and a._bytes() == b._bytes()
        return type(a) is type(b) and bool(a == b)

    def variables(self, a: Any, b: Any, defines: bool) -> bool:
        """Returns true if two variables correspond. With `defines`, they are defined here if they are scalars."""
        known = self.forth.get(id(a))
        if known is not None:
            return known[1] is b
        if id(b) in self.back:
            return False
        if a is b:
            return not self.free or self._record(a, b)
        return (self.free or defines) and a._prim and b._prim and a.ty == b.ty and self._record(a, b)

    def used(self, a: Any, b: Any) -> bool:
        """Returns true if two variables correspond; variables without a definition are matched here."""
        if self.variables(a, b, False):
            return True
        return id(a) not in self.forth and id(b) not in self.back and self.define(a, b)

    def free_variables(self, a: Any, b: Any) -> bool:
        """Returns true if two free variables can correspond."""
        known = a._prim or id(a) in self.forth or id(b) in self.back
        return self.free and not known and type(a) is type(b) and self.define(a, b)

    def define(self, a: Any, b: Any) -> bool:
        """Defines two variables here. Returns false if their classes or types differ."""
        if type(a) is not type(b) or not self.same(a.ty, b.ty, defines=True):
            return False
        return self._record(a, b)

    def _record(self, a: Any, b: Any) -> bool:
        self.forth[id(a)], self.back[id(b)] = (a, b), a
        return True

    def defined(self, a: Any, b: Any) -> bool:
        """Compares fields with variables that are defined here."""
        if isinstance(a, tuple) and isinstance(b, tuple):
            return len(a) == len(b) and all(map(self.defined, a, b))
        if not (isinstance(a, Node) and a._is_var and isinstance(b, Node) and b._is_var):
            return self.same(a, b)
        known = self.forth.get(id(a))
        return known[1] is b if known is not None else self.define(a, b)

    def definitions(self, a: Node, b: Node) -> bool:
        """Compares nodes of a class that defines variables. Its fields are declared with definitions before uses."""
        names = [name for name in type(a).__annotations__ if not name.startswith("_")]
        defines = type(a)._defines
        return all(
            (self.defined if name in defines else self.same)(getattr(a, name), getattr(b, name)) for name in names
        )


def text_list(items: Any) -> str:
    """Joins the texts of the given objects with commas."""
    return ", ".join(map(repr, items))
