"""Names of `tvm` itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from passhost.ir.module import IRModule
from passhost.runtime import Executable, build, get_global_func, register_global_func

__all__ = ["Device", "IRModule", "build", "compile", "cpu", "cuda", "device", "get_global_func", "register_global_func"]


@dataclass(frozen=True)
class Device:
    """A device. Modules are executed on the CPU, whatever it says."""

    dlpack_device_type: int
    index: int = 0


def cpu(index: int = 0) -> Device:
    """The CPU."""
    return Device(1, index)


def device(name: str = "cpu", index: int = 0) -> Device:
    """A device by its name: `cpu` or `llvm`."""
    if name not in ("cpu", "llvm", "c"):
        raise ValueError(f"passhost executes modules on the CPU, not on {name!r}")
    return cpu(index)


def cuda(index: int = 0) -> Device:
    """There is none."""
    raise ValueError("passhost executes modules on the CPU, and has no CUDA device")


def compile(mod: Any, target: Any = None, **options: Any) -> Executable:
    """As `build`."""
    return build(mod if isinstance(mod, IRModule) else IRModule.from_expr(mod), target, **options)
