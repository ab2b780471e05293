"""Devices."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Device:
    """A device. Modules always run on the CPU."""

    device_type: int
    index: int = 0

    def dlpack_device_type(self) -> int:
        """The device type, with DLPack's numbering."""
        return self.device_type


def cpu(index: int = 0) -> Device:
    """Returns the CPU."""
    return Device(1, index)


def device(name: str = "cpu", index: int = 0) -> Device:
    """Returns a device by name: `cpu` or `llvm`."""
    if name not in ("cpu", "llvm", "c"):
        raise ValueError(f"passhost executes modules on the CPU, not on {name!r}")
    return cpu(index)
