"""Names of `tvm` itself."""

from __future__ import annotations

from typing import Any

from passhost.ir.module import IRModule
from passhost.runtime import Device, Executable, build, cpu, device, get_global_func, register_global_func

__all__ = ["Device", "IRModule", "build", "compile", "cpu", "cuda", "device", "get_global_func", "register_global_func"]


def cuda(index: int = 0) -> Device:
    """Fails, because there is no CUDA device."""
    raise ValueError("passhost executes modules only on the CPU")


def compile(mod: Any, target: Any = None, **options: Any) -> Executable:
    """Builds a module; the same as `build`."""
    return build(mod if isinstance(mod, IRModule) else IRModule.from_expr(mod), target, **options)
