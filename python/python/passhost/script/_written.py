"""TIR expressions as text, with which Python functions are called before their arguments are parsed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_WRITING: ContextVar[Callable[[Any], str | None] | None] = ContextVar("writing", default=None)
"""Set while a Python function is called: converts values that are not `Written` to text."""


class Written:
    """An expression as text. Its operators, calls and subscripts return expressions as text, too."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        """Creates an expression from the text."""
        self._text = text

    def __str__(self) -> str:
        """Returns the text."""
        return self._text

    def __bool__(self) -> bool:
        """Raises an error, because the value of the expression is not known yet."""
        raise TypeError(f"`{self}` has no value while the function is parsed; use T.if_then_else, or `if` outside")

    def __getattr__(self, name: str) -> Written:
        """Returns an attribute or method."""
        if name.startswith("_"):
            raise AttributeError(name)
        return Written(f"{self}.{name}")

    def astype(self, dtype: str) -> Written:
        """Converts to another data type."""
        return Written(f'T.Cast("{dtype}", {self})')

    def __getitem__(self, index: Any) -> Written:
        """Returns an element."""
        items = index if isinstance(index, tuple) else (index,)
        return Written(f"{self}[{', '.join(map(_text, items))}]")

    def __call__(self, *args: Any, **kwargs: Any) -> Written:
        """Returns a call, such as `T.exp(x)`."""
        given = [*map(_text, args), *(f"{name}={_text(value)}" for name, value in kwargs.items())]
        return Written(f"{self}({', '.join(given)})")

    def __neg__(self) -> Written:
        """Returns `-x`."""
        return Written(f"(-{self})")

    def __invert__(self) -> Written:
        """Returns `~x`."""
        return Written(f"(~{self})")

    __hash__ = None  # type: ignore[assignment]


def _text(value: Any) -> str:
    literal = _WRITING.get()
    text = str(value) if isinstance(value, Written) or literal is None else literal(value)
    if text is None:
        raise TypeError(f"a value of type {type(value).__name__} cannot be written into a TIR function")
    return text


def _operator(word: str, reflected: bool = False) -> Callable[[Written, Any], Written]:
    def made(self: Written, other: Any) -> Written:
        a, b = (_text(other), str(self)) if reflected else (str(self), _text(other))
        return Written(f"({a} {word} {b})")

    return made


for _name, _word in {
    **{"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**"},
    **{"lshift": "<<", "rshift": ">>", "and": "&", "or": "|", "xor": "^"},
}.items():
    setattr(Written, f"__{_name}__", _operator(_word))
    setattr(Written, f"__r{_name}__", _operator(_word, reflected=True))
for _name, _word in {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}.items():
    setattr(Written, f"__{_name}__", _operator(_word))


@contextmanager
def writing(literal: Callable[[Any], str | None]) -> Iterator[None]:
    """Makes functions of `T` return source text within the context."""
    token = _WRITING.set(literal)
    try:
        yield
    finally:
        _WRITING.reset(token)


def is_writing() -> bool:
    """Returns true if functions of `T` return source text."""
    return _WRITING.get() is not None
