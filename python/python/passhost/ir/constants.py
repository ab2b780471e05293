"""Data of constants, between NumPy and the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from passhost.ir.expr import Tensor


def of_bytes(data: bytes, dtype: str, shape: list[int]) -> Tensor:
    """A tensor of its bytes. Where NumPy has no type for the elements, its array has the bytes."""
    from passhost.relax.expr import numpy_dtype

    try:
        element = numpy_dtype(dtype)
    except ValueError:
        return Tensor(np.frombuffer(data, np.uint8), dtype)
    array = np.frombuffer(data, element)
    count = int(np.prod(shape, dtype=np.int64))
    return Tensor(array.reshape(shape) if array.size == count else np.frombuffer(data, np.uint8), dtype)


def to_bytes(value: Any) -> bytes:
    """The bytes of a tensor or array, row by row."""
    array = value.numpy() if hasattr(value, "numpy") else np.asarray(value)
    return bytes(np.ascontiguousarray(array).tobytes())
