"""Buffers."""

from __future__ import annotations

from typing import Any

from passhost.ir.expr import Expr, dims_of
from passhost.ir.prim import prim_type
from passhost.ir.type import MISSING, PointerType, PrimType, Type


class BufferType(Type):
    """The type of a buffer: shape, data type, strides, offset, memory scope and alignment."""

    __slots__ = ("data_alignment", "dtype", "elem_offset", "offset_factor", "scope_", "shape", "strides", "tiled")
    shape: tuple[Expr, ...]
    dtype: PrimType
    strides: tuple[Expr, ...]
    elem_offset: Expr | None
    scope_: str
    data_alignment: int
    offset_factor: int
    tiled: bool

    def __init__(
        self,
        shape: Any,
        dtype: str | PrimType = "float32",
        strides: Any = (),
        elem_offset: Expr | None = None,
        scope: str = "global",
        data_alignment: int = 64,
        offset_factor: int = 1,
    ) -> None:
        """Creates a type from a shape and a data type."""
        self._shape, self._strides = dims_of(shape), dims_of(strides or ())
        self._dtype = prim_type(str(dtype))
        self._elem_offset, self._scope_ = elem_offset, scope
        self._data_alignment, self._offset_factor, self._tiled = data_alignment, offset_factor, False

    def scope(self) -> str:
        """The memory scope."""
        return self.scope_


def buffer_type(
    shape: Any, dtype: str, strides: Any, offset: Any, scope: str, align: int, factor: int, tiled: bool
) -> BufferType:
    """Returns the type of a host buffer."""
    made = BufferType(shape, dtype, strides, offset, scope, align, factor)
    made._tiled = tiled
    return made


def pointer_type(dtype: str, scope: str) -> PointerType:
    """Returns the type of a host pointer."""
    return PointerType(MISSING if dtype == "void" else prim_type(dtype), scope)


class DTensorType(Type):
    """The type of a tensor that is distributed over a device mesh, which is identified by number."""

    __slots__ = ("device_mesh", "placement", "tensor_ty")
    tensor_ty: Type
    device_mesh: int
    placement: Any

    def __init__(self, tensor_ty: Type, device_mesh: int, placement: Any) -> None:
        """Creates a type from the tensor, the mesh, and the tensor axis that each mesh axis divides."""
        self._tensor_ty, self._device_mesh, self._placement = tensor_ty, device_mesh, placement


def dtensor_type(parts: tuple[Any, ...], mesh: int) -> DTensorType:
    """Returns the type of a distributed tensor of the host."""
    return DTensorType(parts[0], mesh, parts[1])
