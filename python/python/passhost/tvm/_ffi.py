"""Names of `tvm_ffi`."""

from __future__ import annotations

from passhost.ir.structural import structural_equal, structural_hash
from passhost.runtime import Shape, get_global_func, register_global_func

__all__ = ["Shape", "get_global_func", "register_global_func", "structural_equal", "structural_hash"]
