"""Attributes of calls and functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple


class Attrs(Mapping[str, Any]):
    """Attributes by name: `attrs["axis"]`, or `attrs.axis`."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Creates attributes from the entries."""
        self._entries = {**(entries or {}), **more}

    def __getitem__(self, key: str) -> Any:
        """Returns the value of a key."""
        return self._entries[key]

    def __getattr__(self, key: str) -> Any:
        """Returns the value of a key."""
        if key.startswith("__") or key == "_entries":
            raise AttributeError(key)
        try:
            return self._entries[key]
        except KeyError:
            raise AttributeError(f"no attribute {key!r}; there are: {', '.join(self._entries) or 'none'}") from None

    def __iter__(self) -> Iterator[str]:
        """Iterates over the keys."""
        return iter(self._entries)

    def __len__(self) -> int:
        """Returns the number of entries."""
        return len(self._entries)

    def __hash__(self) -> int:
        """Hashes by identity."""
        return id(self)

    def get_str(self, key: str) -> str:
        """Returns the value of a key, which must be a string."""
        return str(self[key])

    def get_int(self, key: str) -> int:
        """Returns the value of a key, which must be an integer."""
        return int(self[key])

    def __repr__(self) -> str:
        """Formats the attributes as a dict."""
        return f"{type(self).__name__}({self._entries})"


class DictAttrs(Attrs):
    """Attributes of functions and modules."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Formats the attributes as a dict."""
        return repr(self._entries)


class AttrObject(NamedTuple):
    """A constructed object such as `T.target({...})`: its constructor and arguments, each with its keyword or None."""

    name: str
    args: tuple[tuple[str | None, Any], ...]


def make_node(name: str, **entries: Any) -> Attrs:
    """Creates attributes: `make_node("ir.DictAttrs", key=value)`."""
    return DictAttrs(entries) if name.endswith("DictAttrs") else Attrs(entries)
