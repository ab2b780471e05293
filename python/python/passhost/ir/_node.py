"""What all IR objects have in common."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any


def _read_only(cls: type) -> None:
    """Makes the slots of a class read-only: code of the package writes the slot `op` as `_op`."""
    names = cls.__dict__.get("__slots__", ())
    for name in (names,) if isinstance(names, str) else names:
        if name.startswith("_"):
            continue
        slot = cls.__dict__[name]
        setattr(cls, f"_{name}", slot)
        setattr(cls, name, property(attrgetter(f"_{name}"), _refuse(name), _refuse(name), slot.__doc__))


def _refuse(name: str) -> Callable[..., None]:
    """What happens where a field is written."""

    def refuse(node: object, _value: object = None) -> None:
        raise AttributeError(f"{name!r} of a {type(node).__name__} never changes; make another {type(node).__name__}")

    return refuse


class Node:
    """An IR object. It never changes; what differs is another object."""

    __slots__ = ()
    span: Any = None

    if TYPE_CHECKING:

        def __setattr__(self, name: str, value: Any) -> None:
            """Within the package, `_name` writes the slot `name`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Makes its fields read-only."""
        super().__init_subclass__(**kwargs)
        _read_only(cls)

    def same_as(self, other: object) -> bool:
        """Whether it is the same object."""
        return self is other

    def script(self, **_options: Any) -> str:
        """As TVMScript."""
        from passhost.error import too_deep
        from passhost.ir.printer import text_of

        try:
            return text_of(self)
        except RecursionError as error:
            raise too_deep(error) from None

    def show(self, **_options: Any) -> None:
        """Prints it."""
        print(self.script())

    def __repr__(self) -> str:
        """As in a text."""
        return self.script()


def text_list(items: Any) -> str:
    """Texts of some objects, with commas."""
    return ", ".join(map(repr, items))
