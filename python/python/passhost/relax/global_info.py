"""Global infos of a module, to which types can refer."""

from __future__ import annotations

from typing import Any

from passhost.ir._node import Node


class GlobalInfo(Node):
    """A global info of a module, to which types can refer."""

    __slots__ = ()


class DummyGlobalInfo(GlobalInfo):
    """An empty global info."""

    __slots__ = ()


class VDevice(GlobalInfo):
    """A virtual device: target, number and memory scope. `index` is its position in the module."""

    __slots__ = ("index", "memory_scope", "target", "vdevice_id")
    target: Any
    vdevice_id: int
    memory_scope: str
    index: int | None
    _index: int | None

    def __init__(self, target: Any = None, vdevice_id: int = 0, memory_scope: str = "global") -> None:
        """Creates a device from a target, a number and a memory scope."""
        self._target, self._vdevice_id, self._memory_scope, self._index = target, vdevice_id, memory_scope, None

    @staticmethod
    def _at(index: int) -> VDevice:
        """Returns the device at the given position in the module."""
        made = VDevice()
        made._index = index
        return made

    def __eq__(self, other: object) -> bool:
        """Returns true if both are the same device."""
        if not isinstance(other, VDevice):
            return False
        if self.index is not None or other.index is not None:
            return self.index == other.index
        return (self.target, self.vdevice_id, self.memory_scope) == (
            other.target,
            other.vdevice_id,
            other.memory_scope,
        )

    def __hash__(self) -> int:
        """Hashes the number."""
        return hash((self.vdevice_id, self.memory_scope))
