"""The base class of all IR objects."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self


def _read_only(cls: type) -> None:
    """Makes the slots of a class read-only; code of the package writes the slot `op` as `_op`."""
    names = cls.__dict__.get("__slots__", ())
    for name in (names,) if isinstance(names, str) else names:
        if name.startswith("_"):
            continue
        slot = cls.__dict__[name]
        setattr(cls, f"_{name}", slot)
        setattr(cls, name, property(attrgetter(f"_{name}"), _refuse(name), _refuse(name), slot.__doc__))


def _refuse(name: str) -> Callable[..., None]:
    """Returns the function called when a field is written, which raises an error."""

    def refuse(node: object, _value: object = None) -> None:
        raise AttributeError(f"{name!r} of a {type(node).__name__} never changes; make another {type(node).__name__}")

    return refuse


class Node:
    """An IR object. It is immutable; a changed object is a new one."""

    __slots__ = ()
    span: Any = None

    if TYPE_CHECKING:

        def __setattr__(self, name: str, value: Any) -> None:
            """Writes the slot `name` through `_name`, within the package."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Makes its fields read-only."""
        super().__init_subclass__(**kwargs)
        _read_only(cls)

    def same_as(self, other: object) -> bool:
        """Returns true if both are the same object."""
        return self is other

    def __copy__(self) -> Self:
        """Returns the object itself, because it is immutable."""
        return self

    def __deepcopy__(self, memo: object) -> Self:
        """Returns the object itself, because it is immutable."""
        return self

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Raises `TypeError`, because its meaning depends on the function or module around it; pickle that instead."""
        raise TypeError(f"a {type(self).__name__} alone cannot be pickled; pickle the function or module that it is in")

    def script(self, **_options: Any) -> str:
        """Returns the object as TVMScript."""
        from passhost.error import too_deep
        from passhost.ir.printer import text_of

        try:
            return text_of(self)
        except RecursionError as error:
            raise too_deep(error) from None

    def show(self, **_options: Any) -> None:
        """Prints the object."""
        print(self.script())

    def __repr__(self) -> str:
        """Returns the object as TVMScript."""
        return self.script()


def text_list(items: Any) -> str:
    """Joins the texts of some objects with commas."""
    return ", ".join(map(repr, items))
