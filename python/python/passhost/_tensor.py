"""Arrays of modules: data of constants, and arguments and results of functions that are executed."""

from __future__ import annotations

import math
import sys
import threading
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self, cast

from passhost import _passhost
from passhost._numpy import np

if TYPE_CHECKING:
    import numpy.typing as npt

_BITS = {1: "uint8", 2: "uint16"}
"""Types of NumPy by which arrays show the bits of elements that NumPy has no type for, by their bytes."""
_BYTES = {"bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1}
"""Bytes of such elements."""


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The NumPy type of a data type. Those that NumPy lacks need the package ml_dtypes."""
    try:
        return np.dtype(dtype)
    except TypeError:
        try:
            import ml_dtypes  # type: ignore[import-not-found,unused-ignore]

            found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, dtype))
            return found
        except (ImportError, AttributeError):
            raise ValueError(f"NumPy has no type for {dtype}; the package ml_dtypes has some") from None


def _element(dtype: str) -> np.dtype[Any]:
    """The NumPy type of the elements of a data type, or of their bits where NumPy has none."""
    try:
        return numpy_dtype(dtype)
    except ValueError:
        return np.dtype(_BITS.get(_BYTES.get(dtype, 0), "uint8"))


def _flat_bytes(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """The memory of a contiguous array."""
    return array.reshape(-1).view(np.uint8)


_LOCK = threading.RLock()
"""Held while a tensor makes its array from what the host has, or a copy for the host from its array."""


class _Alone:
    """An object whose one attribute holds the only reference to a value."""

    __slots__ = ("_array",)

    def __init__(self) -> None:
        self._array = object()

    def references(self) -> int:
        """How many references `sys.getrefcount` counts of that value."""
        return sys.getrefcount(self._array)


_ALONE = _Alone().references()


class Tensor:
    """An array of a module: its elements are those of a NumPy array, which `numpy()` gives.

    Of a data type that NumPy lacks, such as `bfloat16`, the elements are those of the package ml_dtypes, or their bits
    if that is not installed.
    """

    __slots__ = ("__weakref__", "_array", "_copy", "dtype", "shape")
    _array: npt.NDArray[Any] | None
    _copy: _passhost.Array | None
    """The same elements as the host has them. None as soon as somebody else has the array, and can write to it."""
    dtype: str
    """Name of the data type, as in `float32`."""
    shape: tuple[int, ...]
    """Its extents."""

    def __init__(self, array: npt.ArrayLike | Tensor, dtype: str | None = None) -> None:
        """Of anything that NumPy takes for an array. An array of this data type is not copied."""
        values = array.numpy() if isinstance(array, Tensor) else np.asarray(array)
        self.dtype = str(dtype) if dtype is not None else str(values.dtype)
        self._array = _as_elements(values, self.dtype)
        self._copy = None
        self.shape = tuple(self._array.shape)

    @classmethod
    def _of_bytes(cls, data: bytes, dtype: str, shape: Sequence[int]) -> Self:
        """Of its bytes, row by row. Where not even the size of an element is known, the array has the bytes."""
        made = cls.__new__(cls)
        made.dtype, made.shape, made._copy = dtype, tuple(shape), None
        count = int(np.prod(made.shape, dtype=np.int64))
        flat = np.frombuffer(data, _element(dtype))
        made._array = flat.reshape(made.shape) if flat.size == count else np.frombuffer(data, np.uint8)
        return made

    @classmethod
    def _of(cls, handle: _passhost.Array) -> Self:
        """A result of a function."""
        made = cls.__new__(cls)
        made.dtype, made.shape, made._array, made._copy = handle.dtype, handle.shape, None, handle
        return made

    def __getstate__(self) -> tuple[npt.NDArray[Any], str, tuple[int, ...]]:
        """For `copy` and `pickle`."""
        return self.numpy(), self.dtype, self.shape

    def __setstate__(self, state: tuple[npt.NDArray[Any], str, tuple[int, ...]]) -> None:
        """For `copy` and `pickle`."""
        self._array, self.dtype, self.shape = state
        self._copy = None

    def _bytes(self) -> bytes:
        """Its bytes, row by row."""
        made = self._copy
        return made.data() if made is not None else np.ascontiguousarray(self.numpy()).tobytes()

    def _handle(self) -> _passhost.Array:
        """As the host takes it: a copy of the elements, which is kept as long as nobody else can write to the array."""
        with _LOCK:
            made = self._copy
            if made is None:
                # Nobody gets the array while the lock is held. So if nobody has it now, the copy will be up to date.
                is_private = self._is_private()
                made = _passhost.Array(self.dtype, self.shape, _flat_bytes(np.ascontiguousarray(self._array)))
                self._copy = made if is_private else None
            return made

    def _is_private(self) -> bool:
        """Whether nothing else refers to the array or its memory."""
        if sys.getrefcount(self._array) > _ALONE or self._array is None or weakref.getweakrefcount(self._array):
            return False
        if self._array.flags.owndata:
            return True
        # The memory is the host's. Only the array may refer to it, through its base.
        base = self._array.base
        if base is None or not isinstance(base.base, _passhost.Memory) or weakref.getweakrefcount(base):
            return False
        del base
        return max(sys.getrefcount(self._array.base), sys.getrefcount(self._array.base.base)) <= _ALONE

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def device(self) -> Any:
        """Where it is: on the CPU."""
        from passhost.runtime import cpu

        return cpu()

    def numpy(self) -> npt.NDArray[Any]:
        """Its elements. What is written to them is seen by other users of this tensor. Those of a constant cannot be
        written.

        The array of a result has the memory that the function wrote to. After this, the next call with the tensor
        copies its elements once. As long as somebody keeps the array, each call copies them.
        """
        with _LOCK:
            if self._array is None:
                is_alone = sys.getrefcount(self._copy) <= _ALONE
                self._array = _array_of(self._copy, is_alone)
            self._copy = None
            return self._array

    def copyfrom(self, source: npt.ArrayLike | Tensor) -> Tensor:
        """Takes the elements of an array of the same shape."""
        np.copyto(self.numpy(), source.numpy() if isinstance(source, Tensor) else np.asarray(source))
        return self

    def copyto(self, target: Tensor | Any) -> Tensor:
        """Copies the elements to a tensor of the same shape, or to a new one on a device."""
        if isinstance(target, Tensor):
            return target.copyfrom(self)
        return Tensor(self.numpy().copy(), self.dtype)

    def __setitem__(self, at: Any, value: npt.ArrayLike | Tensor) -> None:
        """Writes elements, as in `x[:] = y`."""
        self.numpy()[at] = value.numpy() if isinstance(value, Tensor) else value

    def __getitem__(self, at: Any) -> Any:
        """Elements as NumPy gives them: `x[0]` of a matrix is its first row."""
        return self.numpy()[at]

    def __len__(self) -> int:
        """Its first extent."""
        return len(self.numpy())

    def __bool__(self) -> bool:
        """Of one element, whether it is not 0."""
        return bool(self.numpy())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """For NumPy."""
        return np.array(self.numpy(), dtype=dtype, copy=copy) if copy else np.asarray(self.numpy(), dtype=dtype)

    def __dlpack__(self, **arguments: Any) -> Any:
        """For other libraries of arrays."""
        return self.numpy().__dlpack__(**arguments)

    def __dlpack_device__(self) -> tuple[int, int]:
        """The CPU."""
        return cast("tuple[int, int]", self.numpy().__dlpack_device__())

    def __repr__(self) -> str:
        """Its elements and data type."""
        return f"Tensor({self.numpy()!r})"


def _array_of(handle: _passhost.Array | None, is_alone: bool) -> npt.NDArray[Any]:
    """The elements of what the host has: in its memory if nothing else has that, or as a copy."""
    if handle is None:
        raise AssertionError("a tensor has an array or what the host has")
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
    """The bytes of a tensor or array, row by row."""
    return (value if isinstance(value, Tensor) else Tensor(value))._bytes()


def _as_elements(values: npt.NDArray[Any], dtype: str) -> npt.NDArray[Any]:
    """An array with elements of a data type."""
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
        raise TypeError(f"NumPy has no {dtype}; give its bits as {bits}")
    return values.view(element)
