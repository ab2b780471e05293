"""Tensors: the data of constants, and the arguments and results of executed functions."""

from __future__ import annotations

import math
import sys
import threading
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self, cast

from passhost import _passhost
from passhost._device import Device, cpu
from passhost._numpy import np

if TYPE_CHECKING:
    import numpy.typing as npt

_BITS = {1: "uint8", 2: "uint16"}
"""The NumPy types that hold the bits of elements whose type NumPy lacks, by size in bytes."""
_BYTES = {"bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1}
"""The sizes of such elements in bytes."""


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """Returns the NumPy type of a data type. If NumPy lacks it, the package ml_dtypes is needed."""
    try:
        return np.dtype(dtype)
    except TypeError:
        try:
            import ml_dtypes  # type: ignore[import-not-found,unused-ignore]

            found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, dtype))
            return found
        except (ImportError, AttributeError):
            raise ValueError(f"NumPy lacks a type for {dtype}; the package ml_dtypes has some") from None


def _element(dtype: str) -> np.dtype[Any]:
    """Returns the NumPy type of the elements of a data type, or of their bits if NumPy has none."""
    try:
        return numpy_dtype(dtype)
    except ValueError:
        return np.dtype(_BITS.get(_BYTES.get(dtype, 0), "uint8"))


def _flat_bytes(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Returns the memory of a contiguous array."""
    return array.reshape(-1).view(np.uint8)


_LOCK = threading.RLock()
"""Held while a tensor creates its array from host memory, or a host copy from its array."""


class _Alone:
    """An object whose attribute holds the only reference to a value."""

    __slots__ = ("_array",)

    def __init__(self) -> None:
        self._array = object()

    def references(self) -> int:
        """Returns the result of `sys.getrefcount` for a value with only one reference."""
        return sys.getrefcount(self._array)


_ALONE = _Alone().references()


class Tensor:
    """A tensor, whose elements `numpy()` returns as a NumPy array.

    For data types that NumPy lacks, such as `bfloat16`, the array uses types from the package ml_dtypes; if that is
    not installed, the array contains the bits of the elements.
    """

    __slots__ = ("__weakref__", "_array", "_copy", "dtype", "shape")
    _array: npt.NDArray[Any] | None
    _copy: _passhost.Array | None
    """A host copy of the elements. None once other code holds the array, because that code can write to it."""
    dtype: str
    """The name of the data type, as in `float32`."""
    shape: tuple[int, ...]
    """The shape."""

    def __init__(self, array: npt.ArrayLike | Tensor, dtype: str | None = None) -> None:
        """Creates a tensor from anything that NumPy accepts as an array. An array of this data type is not copied."""
        values = array.numpy() if isinstance(array, Tensor) else np.asarray(array)
        self.dtype = str(dtype) if dtype is not None else str(values.dtype)
        self._array = _as_elements(values, self.dtype)
        self._copy = None
        self.shape = tuple(self._array.shape)

    @classmethod
    def _of_bytes(cls, data: bytes, dtype: str, shape: Sequence[int]) -> Self:
        """Creates a tensor from its bytes in row-major order. If the size of an element is unknown, the array's
        elements are the bytes."""
        made = cls.__new__(cls)
        made.dtype, made.shape, made._copy = dtype, tuple(shape), None
        count = int(np.prod(made.shape, dtype=np.int64))
        flat = np.frombuffer(data, _element(dtype))
        made._array = flat.reshape(made.shape) if flat.size == count else np.frombuffer(data, np.uint8)
        return made

    @classmethod
    def _of(cls, handle: _passhost.Array) -> Self:
        """Wraps the result of a function."""
        made = cls.__new__(cls)
        made.dtype, made.shape, made._array, made._copy = handle.dtype, handle.shape, None, handle
        return made

    def __getstate__(self) -> tuple[npt.NDArray[Any], str, tuple[int, ...]]:
        """Returns the state for `copy` and `pickle`."""
        return self.numpy(), self.dtype, self.shape

    def __setstate__(self, state: tuple[npt.NDArray[Any], str, tuple[int, ...]]) -> None:
        """Restores the state for `copy` and `pickle`."""
        self._array, self.dtype, self.shape = state
        self._copy = None

    def _bytes(self) -> bytes:
        """Returns the bytes in row-major order."""
        made = self._copy
        return made.data() if made is not None else np.ascontiguousarray(self.numpy()).tobytes()

    def _handle(self) -> _passhost.Array:
        """Returns a host copy of the elements, which is reused as long as no other code can write to the array."""
        with _LOCK:
            made = self._copy
            if made is None:
                # No code can obtain the array while the lock is held. If it is private now, the copy stays up to date.
                is_private = self._is_private()
                made = _passhost.Array(self.dtype, self.shape, _flat_bytes(np.ascontiguousarray(self._array)))
                self._copy = made if is_private else None
            return made

    def _is_private(self) -> bool:
        """Returns true if nothing else refers to the array or its memory."""
        if sys.getrefcount(self._array) > _ALONE or self._array is None or weakref.getweakrefcount(self._array):
            return False
        if self._array.flags.owndata:
            return True
        # The memory belongs to the host. Only the array may refer to it, through its base.
        base = self._array.base
        if base is None or not isinstance(base.base, _passhost.Memory) or weakref.getweakrefcount(base):
            return False
        del base
        return max(sys.getrefcount(self._array.base), sys.getrefcount(self._array.base.base)) <= _ALONE

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def device(self) -> Device:
        """The device, which is the CPU."""
        return cpu()

    def numpy(self) -> npt.NDArray[Any]:
        """Returns the elements. Writes to them are visible to other users of this tensor. Elements of constants are
        read-only.

        The array of a result is a view of the function's output buffer. After `numpy()`, the next execution with the
        tensor as an argument copies its elements once. As long as other code holds the array, each execution copies
        them.
        """
        with _LOCK:
            if self._array is None:
                is_alone = sys.getrefcount(self._copy) <= _ALONE
                self._array = _array_of(self._copy, is_alone)
            self._copy = None
            return self._array

    def copyfrom(self, source: npt.ArrayLike | Tensor) -> Tensor:
        """Copies the elements of an array of the same shape into this tensor."""
        np.copyto(self.numpy(), source.numpy() if isinstance(source, Tensor) else np.asarray(source))
        return self

    def copyto(self, target: Tensor | Any) -> Tensor:
        """Copies the elements to a tensor of the same shape, or to a new tensor on a device."""
        if isinstance(target, Tensor):
            return target.copyfrom(self)
        return Tensor(self.numpy().copy(), self.dtype)

    def __setitem__(self, at: Any, value: npt.ArrayLike | Tensor) -> None:
        """Writes elements, as in `x[:] = y`."""
        self.numpy()[at] = value.numpy() if isinstance(value, Tensor) else value

    def __getitem__(self, at: Any) -> Any:
        """Reads elements, with NumPy's indexing: `x[0]` of a matrix is its first row."""
        return self.numpy()[at]

    def __len__(self) -> int:
        """Returns the first extent."""
        return len(self.numpy())

    def __bool__(self) -> bool:
        """Returns true if the only element is not 0."""
        return bool(self.numpy())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Converts to an array, for NumPy."""
        return np.array(self.numpy(), dtype=dtype, copy=copy) if copy else np.asarray(self.numpy(), dtype=dtype)

    def __dlpack__(self, **arguments: Any) -> Any:
        """Exports the tensor to other array libraries."""
        return self.numpy().__dlpack__(**arguments)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Returns the CPU device."""
        return cast("tuple[int, int]", self.numpy().__dlpack_device__())

    def __repr__(self) -> str:
        """Returns the elements and the data type."""
        return f"Tensor({self.numpy()!r})"


def _array_of(handle: _passhost.Array | None, is_alone: bool) -> npt.NDArray[Any]:
    """Returns an array of elements from the host: a view if nothing else refers to the host's memory, otherwise a
    copy."""
    if handle is None:
        raise AssertionError("a tensor has neither an array nor host memory")
    element, shape = _element(handle.dtype), handle.shape
    if math.prod(shape) * element.itemsize != handle.nbytes:
        return np.frombuffer(bytearray(handle.data()), np.uint8)
    memory = handle.memory() if is_alone else None
    if memory is not None:
        return np.asarray(memory).view(element).reshape(shape)
    made = np.empty(shape, element)
    handle.copy_to(_flat_bytes(made))
    return made


def bytes_of(value: Any) -> bytes:
    """Returns the bytes of a tensor or array in row-major order."""
    return (value if isinstance(value, Tensor) else Tensor(value))._bytes()


def _as_elements(values: npt.NDArray[Any], dtype: str) -> npt.NDArray[Any]:
    """Returns an array with elements of a data type."""
    if dtype not in _BYTES:
        return values.astype(numpy_dtype(dtype), copy=False)
    bits = _BITS[_BYTES[dtype]]
    try:
        element = numpy_dtype(dtype)
    except ValueError:
        element = np.dtype(bits)
    if values.dtype == element:
        return values
    if values.dtype != bits:
        raise TypeError(f"NumPy lacks {dtype}; give its bits as {bits}")
    return values.view(element)
