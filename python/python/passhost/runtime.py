"""Executes modules, without TVM: tensors, the virtual machine, and packed functions of Python.

>>> import numpy, passhost
>>> mod = passhost.script.from_source('''
... @I.ir_module
... class Module:
...     @R.function
...     def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
...         return R.add(x, x)
... ''')
>>> passhost.exec(mod, numpy.array([1, 2.5], "float32")).numpy()
array([2., 5.], dtype=float32)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from passhost import _passhost, _plugins
from passhost._html import preformatted
from passhost.ir.module import IRModule

__all__ = ["Executable", "Shape", "Tensor", "VirtualMachine", "build", "exec", "register_global_func", "tensor"]

_UNUSUAL = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}
"""Data types that NumPy lacks, with those of the same size by which arrays show their bits."""


class Tensor:
    """An array of a module: immutable for modules, and a NumPy array for Python.

    `numpy()` gives the elements. Of a data type that NumPy lacks, such as `bfloat16`, it gives the bits.
    """

    __slots__ = ("_array", "dtype")

    def __init__(self, array: npt.ArrayLike, dtype: str | None = None) -> None:
        """Of anything that NumPy takes for an array."""
        values = np.asarray(array)
        self.dtype = dtype or str(values.dtype)
        """Name of the data type, as in `float32`."""
        if self.dtype in _UNUSUAL and values.dtype != _UNUSUAL[self.dtype]:
            raise TypeError(f"NumPy has no {self.dtype}; give its bits as {_UNUSUAL[self.dtype]}")
        self._array = values if self.dtype in _UNUSUAL else values.astype(self.dtype, copy=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """Its extents."""
        return self._array.shape

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self._array.ndim

    def numpy(self) -> npt.NDArray[Any]:
        """Its elements. What is written to them is seen by other users of this tensor."""
        return self._array

    def copyfrom(self, source: npt.ArrayLike | Tensor) -> Tensor:
        """Takes the elements of an array of the same shape."""
        np.copyto(self._array, source._array if isinstance(source, Tensor) else np.asarray(source))
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """For NumPy."""
        return np.array(self._array, dtype=dtype, copy=copy) if copy else np.asarray(self._array, dtype=dtype)

    def __dlpack__(self, **arguments: Any) -> Any:
        """For other libraries of arrays."""
        return self._array.__dlpack__(**arguments)

    def __dlpack_device__(self) -> tuple[int, int]:
        """The CPU."""
        return cast("tuple[int, int]", self._array.__dlpack_device__())

    def __repr__(self) -> str:
        """Its elements and data type."""
        return f"Tensor({self._array!r})" if self.dtype not in _UNUSUAL else f"Tensor({self.dtype} {self.shape})"

    def _handle(self) -> _passhost.Array:
        return _passhost.Array(self.dtype, self._array.shape, np.ascontiguousarray(self._array).tobytes())

    @staticmethod
    def _of(handle: _passhost.Array) -> Tensor:
        stored = np.frombuffer(handle.data(), _UNUSUAL.get(handle.dtype, handle.dtype))
        return Tensor(stored.reshape(handle.shape).copy(), handle.dtype)


class Shape(tuple[int, ...]):
    """Extents, as a value of a module."""

    __slots__ = ()


def tensor(array: Any, device: Any = None) -> Tensor:
    """A tensor of an array, of anything with `__dlpack__`, or of nested lists. It is on the CPU."""
    if isinstance(array, Tensor):
        return array
    if hasattr(array, "__dlpack__") and not isinstance(array, np.ndarray):
        array = np.from_dlpack(array)
    return Tensor(np.array(array))


def _given(value: Any) -> Any:
    """A value for the machine."""
    if isinstance(value, Tensor):
        return value._handle()
    if isinstance(value, Shape):
        return _passhost.Shape(list(value))
    if isinstance(value, np.ndarray) or hasattr(value, "__dlpack__"):
        return tensor(value)._handle()
    if isinstance(value, np.generic):
        return _passhost.Scalar(value.item(), str(value.dtype))
    if isinstance(value, tuple | list):
        return tuple(_given(field) for field in value)
    return value


def _taken(value: Any) -> Any:
    """A value of the machine for Python."""
    if isinstance(value, _passhost.Array):
        return Tensor._of(value)
    if isinstance(value, _passhost.Shape):
        return Shape(value.extents)
    if isinstance(value, tuple):
        return tuple(_taken(field) for field in value)
    return value


_functions: dict[str, Callable[..., Any]] = {}


def register_global_func(
    name: str | Callable[..., Any], function: Callable[..., Any] | None = None, override: bool = False
) -> Any:
    """Registers a Python function under a name that modules call, by `R.call_packed` and its siblings.

    A function for `R.call_dps_packed` gets the results as its last arguments, and writes into their arrays.
    """
    if callable(name):
        return register_global_func(name.__name__, name, override)

    def register(chosen: Callable[..., Any]) -> Callable[..., Any]:
        if name in _functions and not override:
            raise ValueError(f"the function {name!r} is registered already; override=True replaces it")
        _functions[name] = chosen
        return chosen

    return register if function is None else register(function)


def get_global_func(name: str, allow_missing: bool = False) -> Callable[..., Any] | None:
    """A registered function; an error if there is none, unless `allow_missing`."""
    if name not in _functions and not allow_missing:
        raise ValueError(f"Cannot find global function {name}")
    return _functions.get(name)


def _returning(function: Callable[..., Any]) -> Callable[[Sequence[Any]], Any]:
    return lambda args: _given(function(*map(_taken, args)))


def _filling(function: Callable[..., Any]) -> Callable[[Sequence[Any], Sequence[Any]], list[Any]]:
    def fill(args: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
        filled = [Tensor._of(output) for output in outputs]
        function(*map(_taken, args), *filled)
        return [output._handle() for output in filled]

    return fill


def _memory() -> int:
    """Half of the memory of the machine."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, ValueError, OSError):
        return 8 << 30


def exec(
    mod: IRModule,
    *args: Any,
    function: str = "main",
    limit_memory: int | None = None,
    limit_work: int = 2**64 - 1,
) -> Any:
    """Executes a function of a module: arrays in, tensors out.

    `args` are NumPy arrays, tensors, numbers, `Shape`s, strings, or tuples of these, one for each parameter.
    `limit_memory` is in bytes, and half of the memory of the machine if it is left out; `limit_work` is in units
    of work, as for `passhost exec`. Raises `ExecutionError` where the function has no result, with the place.
    """
    _plugins.ensure_loaded()
    functions = [(name, _returning(chosen), _filling(chosen)) for name, chosen in _functions.items()]
    values = [_given(value) for value in args]
    memory = _memory() if limit_memory is None else limit_memory
    return _taken(_passhost.execute(mod._handle(), function, values, functions, print, (memory, limit_work)))


class Executable:
    """A module that a `VirtualMachine` runs."""

    def __init__(self, mod: IRModule) -> None:
        """Of a module."""
        self.mod = mod


def build(mod: IRModule, target: Any = None, **options: Any) -> Executable:
    """An executable of a module, which is interpreted: `target` and the options, which are for code, change nothing."""
    if not isinstance(mod, IRModule):
        raise TypeError(f"an IRModule is built, not {type(mod).__name__}")
    mod._handle()
    return Executable(mod)


class VirtualMachine(Mapping[str, Callable[..., Any]]):
    """Runs the functions of a module: `vm["main"](x)`."""

    def __init__(self, executable: Executable | IRModule, device: Any = None, **options: Any) -> None:
        """On the CPU, whatever the device says."""
        self.mod = executable.mod if isinstance(executable, Executable) else executable
        self._inputs: dict[str, tuple[Any, ...]] = {}
        self._outputs: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """A function, which can be called."""
        if self.mod._handle().get(name) is None:
            raise AttributeError(f"the module has no function {name!r}")
        return lambda *args: exec(self.mod, *args, function=name)

    def __iter__(self) -> Iterator[str]:
        """Names of the functions."""
        return iter([name for name, _ in self.mod._handle().functions()])

    def __len__(self) -> int:
        """Number of the functions."""
        return len(self.mod._handle())

    def set_input(self, name: str, *args: Any) -> None:
        """Arguments for the next `invoke_stateful`."""
        self._inputs[name] = args

    def invoke_stateful(self, name: str) -> None:
        """Calls a function with its inputs; `get_outputs` gives the result."""
        if name not in self._inputs:
            raise ValueError(f"no inputs of {name!r} were set; call set_input first")
        self._outputs[name] = self[name](*self._inputs[name])

    def get_outputs(self, name: str) -> Any:
        """The result of the last `invoke_stateful`."""
        if name not in self._outputs:
            raise ValueError(f"{name!r} was not invoked; call invoke_stateful first")
        return self._outputs[name]

    def _repr_html_(self) -> str:
        return preformatted(f"VirtualMachine({', '.join(self)})")
