"""Executes modules without TVM: tensors, the virtual machine, and packed functions in Python.

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
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, overload

from passhost import _given, _html, _passhost, _plugins
from passhost._device import Device, cpu, device
from passhost._memory import usual_memory
from passhost._numpy import np
from passhost._tensor import Tensor, numpy_dtype
from passhost.error import Diagnostic, ExecutionError
from passhost.ir.json import load_json, save_json
from passhost.ir.module import IRModule
from passhost.relax.type import TensorType

__all__ = [
    "BenchmarkResult",
    "Device",
    "Executable",
    "Shape",
    "Tensor",
    "VirtualMachine",
    "benchmark",
    "build",
    "cpu",
    "device",
    "empty",
    "exec",
    "load_module",
    "register_global_func",
    "tensor",
]


class Shape(tuple[int, ...]):
    """A shape, as a value of a module."""

    __slots__ = ()


def tensor(array: Any, device: Any = None) -> Tensor:
    """Creates a CPU tensor from an array, anything with `__dlpack__`, or nested lists."""
    if isinstance(array, Tensor):
        return array
    if hasattr(array, "__dlpack__") and not isinstance(array, np.ndarray):
        array = np.from_dlpack(array)
    return Tensor(np.array(array))


def empty(shape: Sequence[int], dtype: str = "float32", device: Any = None, mem_scope: Any = None) -> Tensor:
    """Returns a tensor to be written later; its elements are 0."""
    return Tensor(np.zeros(tuple(shape), numpy_dtype(dtype)), dtype)


class _Values:
    """Converts the values of one call between Python and the virtual machine."""

    def __init__(self) -> None:
        self.tensors: dict[_passhost.Array, Tensor] = {}
        self.handles: dict[int, _passhost.Array] = {}

    def given(self, value: Any) -> Any:
        """Converts a value for the virtual machine."""
        if isinstance(value, Tensor):
            # A tensor that is passed twice becomes one array, even if its host copy is not cached.
            handle = self.handles.get(id(value)) or value._handle()
            self.tensors[handle] = value
            self.handles[id(value)] = handle
            return handle
        if isinstance(value, Shape):
            return _passhost.Shape(list(value))
        if isinstance(value, np.ndarray) or hasattr(value, "__dlpack__"):
            return self.given(tensor(value))
        if isinstance(value, np.generic):
            return _passhost.Scalar(value.item(), str(value.dtype))
        if isinstance(value, tuple | list):
            return tuple(self.given(field) for field in value)
        return value

    def taken(self, value: Any) -> Any:
        """Converts a value of the virtual machine for Python. A tensor that was an argument stays the same object."""
        if isinstance(value, _passhost.Array):
            known = self.tensors.get(value)
            return known if known is not None else Tensor._of(value)
        if isinstance(value, _passhost.Shape):
            return Shape(value.extents)
        if isinstance(value, tuple):
            return tuple(self.taken(field) for field in value)
        return value


F = TypeVar("F", bound=Callable[..., Any])
_functions: dict[str, Callable[..., Any]] = {}


@overload
def register_global_func(name: F, function: None = None, override: bool = False) -> F: ...


@overload
def register_global_func(name: str, function: None = None, override: bool = False) -> Callable[[F], F]: ...


@overload
def register_global_func(name: str, function: F, override: bool = False) -> F: ...


def register_global_func(
    name: str | Callable[..., Any], function: Callable[..., Any] | None = None, override: bool = False
) -> Any:
    """Registers a Python function under a name that modules call with `R.call_packed` and related operators.

    Writes to tensor arguments are visible after the call. A function for `R.call_dps_packed` receives the results as
    its last arguments, and writes into their arrays.
    """
    if callable(name):
        return register_global_func(name.__name__, name, override)

    def register(chosen: Callable[..., Any]) -> Callable[..., Any]:
        if name in _functions and not override:
            raise ValueError(f"the function {name!r} is already registered; override=True replaces it")
        _functions[name] = chosen
        return chosen

    return register if function is None else register(function)


def get_global_func(name: str, allow_missing: bool = False) -> Callable[..., Any] | None:
    """Returns a registered function. Raises an error if there is none, unless `allow_missing` is set."""
    if name not in _functions and not allow_missing:
        raise ValueError(f"Cannot find global function {name}")
    return _functions.get(name)


def _returning(function: Callable[..., Any]) -> Callable[[Sequence[Any]], tuple[Any, list[tuple[int, Any]]]]:
    def call(args: Sequence[Any]) -> tuple[Any, list[tuple[int, Any]]]:
        values = _Values()
        given = [values.taken(arg) for arg in args]
        returned = function(*given)
        for tensor in given:
            if isinstance(tensor, Tensor):
                # Copy tensors that the function may have written to.
                tensor.numpy()
        result = values.given(returned)
        written = [
            (at, tensor._handle())
            for at, (before, tensor) in enumerate(zip(args, given, strict=True))
            if isinstance(tensor, Tensor) and tensor._bytes() != before.data()
        ]
        return result, written

    return call


def _filling(function: Callable[..., Any]) -> Callable[[Sequence[Any], Sequence[Any]], list[Any]]:
    def fill(args: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
        filled = [Tensor._of(output) for output in outputs]
        function(*map(_Values().taken, args), *filled)
        return [output._handle() for output in filled]

    return fill


def exec(
    mod: IRModule,
    *args: Any,
    function: str = "main",
    limit_memory: int | None = None,
    limit_work: int = 2**64 - 1,
    backend: str = "auto",
) -> Any:
    """Executes a function of a module: takes arrays and returns tensors.

    `args` are NumPy arrays, tensors, numbers, `Shape`s, strings, or tuples of these, one for each parameter. A
    tensor that the function overwrites, as `R.call_tir_inplace` does, has the new elements after the call; a result
    that is an argument is the same object. `limit_memory` is in bytes; by default, it is half of the machine's
    memory. `limit_work` is in units of work, as for `passhost exec`.

    `backend="llvm"` compiles TIR functions to native code, which requires an LLVM library; `"interpreter"`
    interprets them. `"auto"` compiles long-running functions if the library is available. Results are bitwise
    identical for all backends. Compiled code is kept with the module, so later calls do not compile it again.

    Raises `ExecutionError`, with the position, if the execution fails. The error is also a `TypeError` if the kind
    of a value contradicts its type, and a `ValueError` if its data type or number of dimensions differs.
    """
    if not isinstance(mod, IRModule):
        raise TypeError(f"exec takes an IRModule, not {mod!r}")
    _given.text("function", function)
    memory = usual_memory() if limit_memory is None else _given.amount("limit_memory", limit_memory)
    limits = (memory, _given.amount("limit_work", limit_work))
    _given.backend(backend)
    _plugins.ensure_loaded()
    functions = [(name, _returning(chosen), _filling(chosen)) for name, chosen in _functions.items()]
    values = _Values()
    given = [values.given(value) for value in args]
    try:
        result, written, note = _passhost.execute(mod._handle(), function, given, functions, print, limits, backend)
    except ExecutionError as error:
        error.diagnostics = tuple(map(_advised, error.diagnostics))
        raise
    if note is not None:
        warnings.warn(note, RuntimeWarning, stacklevel=2)
    for before, after in written:
        values.tensors[before].copyfrom(Tensor._of(after))
    return values.taken(result)


_ADVICE = {
    "use --limit-memory SIZE to allow more": "use a larger limit_memory",
    "use --limit-work N to allow more": "use a larger limit_work",
    "use --random SEED to create matching inputs, or correct the arrays of --inputs FILE": "give arguments that fit",
    "use --function NAME with": "use function= with",
    "--backend llvm": 'backend="llvm"',
    "; use --trace to show": "; use `passhost exec --trace` to show",
}
"""Hints about command-line flags, and the Python equivalents."""


def _advised(diagnostic: Diagnostic) -> Diagnostic:
    """Rewrites the hints of an execution's diagnostic for Python."""
    texts = {"message": diagnostic.message, "help": diagnostic.help or "", "rendered": diagnostic.rendered}
    for flags, own in _ADVICE.items():
        texts = {name: text.replace(flags, own) for name, text in texts.items()}
    message, help, rendered = texts.values()
    return replace(diagnostic, message=message, help=help if diagnostic.help is not None else None, rendered=rendered)


class Executable:
    """A module that a `VirtualMachine` can run."""

    def __init__(self, mod: IRModule) -> None:
        """Creates an executable from a module."""
        self.mod = mod

    def jit(self, *_options: Any, **_more: Any) -> Executable:
        """Returns itself, because nothing is left to compile."""
        return self

    def export_library(self, file_name: str | os.PathLike[str], **_options: Any) -> None:
        """Writes the module to a file for `load_module`. The file does not contain machine code, so other programs
        cannot load it.
        """
        with open(file_name, "w", encoding="utf-8") as file:
            file.write(save_json(self.mod))


def load_module(path: str | os.PathLike[str]) -> Executable:
    """Loads an executable written by `export_library`."""
    try:
        with open(path, encoding="utf-8") as file:
            mod = load_json(file.read())
    except (UnicodeDecodeError, ValueError) as error:
        raise ValueError(f"{os.fspath(path)} was not written by Executable.export_library: {error}") from None
    if not isinstance(mod, IRModule):
        raise ValueError(f"{os.fspath(path)} does not contain a module, but a {type(mod).__name__}")
    return Executable(mod)


def build(mod: IRModule, target: Any = None, **options: Any) -> Executable:
    """Returns an executable of a module. Its functions are compiled for this machine when they run; `target` and the
    options have no effect.
    """
    if not isinstance(mod, IRModule):
        raise TypeError(f"only an IRModule can be built, not {type(mod).__name__}")
    mod._handle()
    return Executable(mod)


@dataclass(frozen=True)
class BenchmarkResult:
    """The mean seconds per call of each repetition."""

    results: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean of the repetitions."""
        import statistics

        return statistics.fmean(self.results)

    @property
    def median(self) -> float:
        """The median of the repetitions."""
        import statistics

        return statistics.median(self.results)

    @property
    def min(self) -> float:
        """The fastest repetition."""
        return min(self.results)

    @property
    def max(self) -> float:
        """The slowest repetition."""
        return max(self.results)

    @property
    def std(self) -> float:
        """The standard deviation of the repetitions."""
        import statistics

        return statistics.pstdev(self.results)

    def __str__(self) -> str:
        """Formats the times in milliseconds."""
        figures = ("mean", self.mean), ("median", self.median), ("min", self.min), ("max", self.max), ("std", self.std)
        return ", ".join(f"{name} {seconds * 1e3:.3f} ms" for name, seconds in figures)

    def _repr_html_(self) -> str:
        heads = ("mean", "median", "min", "max", "std")
        return _html.table([f"{name} (ms)" for name in heads], [[f"{getattr(self, name) * 1e3:.3f}" for name in heads]])


def benchmark(
    mod: IRModule, *args: Any, function: str = "main", number: int = 1, repeat: int = 5, backend: str = "auto"
) -> BenchmarkResult:
    """Times a function of a module: one unmeasured call, then `repeat` repetitions of `number` calls each. `backend` is
    as for `exec`.
    """
    if number < 1 or repeat < 1:
        raise ValueError(f"number and repeat must be 1 or more, not {number} and {repeat}")
    return VirtualMachine(mod, backend=backend).time_evaluator(function, number=number, repeat=repeat)(*args)


class VirtualMachine(Mapping[str, Callable[..., Any]]):
    """Runs the functions of a module: `vm["main"](x)`."""

    def __init__(
        self, rt_mod: Executable | IRModule, device: Any = None, memory_cfg: Any = None, *, backend: str = "auto"
    ) -> None:
        """Creates a machine for an executable. It always runs on the CPU. `backend` is as for `exec`."""
        if not isinstance(rt_mod, Executable | IRModule):
            raise ValueError(f"a VirtualMachine runs an Executable or an IRModule, not {type(rt_mod).__name__}")
        self.mod = rt_mod.mod if isinstance(rt_mod, Executable) else rt_mod
        self._backend = _given.backend(backend)
        self._inputs: dict[str, tuple[Any, ...]] = {}
        self._outputs: dict[str, Any] = {}
        self._saved: dict[str, Callable[..., Any]] = {}

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """Returns a function, which can be called."""
        if name in self._saved:
            return self._saved[name]
        self._check(name)

        def call(*args: Any) -> Any:
            if name in self._inputs:
                raise RuntimeError(f"the inputs of {name!r} were set with set_input; call it with invoke_stateful")
            return self._exec(name, args)

        return call

    def _exec(self, name: str, args: tuple[Any, ...]) -> Any:
        return exec(self.mod, *args, function=name, backend=self._backend)

    def _check(self, name: str) -> None:
        if self.mod._handle().get(name) is None:
            raise AttributeError(f"the module does not have a function {name!r}")

    def __iter__(self) -> Iterator[str]:
        """Iterates over the names of the functions."""
        return iter([name for name, _ in self.mod._handle().functions()])

    def __len__(self) -> int:
        """Returns the number of functions."""
        return len(self.mod._handle())

    def _arguments(self, name: str, args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """Arranges arguments in the order of the parameters; positional arguments fill the positions that named
        arguments leave. Numbers for tensor parameters become tensors.
        """
        self._check(name)
        params = getattr(self.mod[name], "params", ())
        unknown = sorted(named.keys() - {param.name for param in params})
        if unknown:
            raise TypeError(f"{name!r} does not have a parameter {unknown[0]!r}")
        if len(args) + len(named) != len(params):
            raise TypeError(f"{name!r} takes {len(params)} arguments, found {len(args) + len(named)}")
        rest = iter(args)
        given = [named[param.name] if param.name in named else next(rest) for param in params]
        return tuple(
            _number_tensor(value) if isinstance(param.ty, TensorType) else value
            for param, value in zip(params, given, strict=True)
        )

    def set_input(self, func_name: str, *args: Any, **named: Any) -> None:
        """Sets the arguments for `invoke_stateful`, in order or by parameter name."""
        self._inputs[func_name] = self._arguments(func_name, args, named)

    def invoke_stateful(self, func_name: str) -> None:
        """Calls a function with its stored arguments; `get_outputs` returns the result."""
        if func_name not in self._inputs:
            raise ValueError(f"no inputs of {func_name!r} were set; call set_input first")
        self._outputs[func_name] = self._exec(func_name, self._inputs[func_name])

    def get_outputs(self, func_name: str) -> Any:
        """Returns the result of the last `invoke_stateful`."""
        if func_name not in self._outputs:
            raise ValueError(f"{func_name!r} was not invoked; call invoke_stateful first")
        return self._outputs[func_name]

    def save_function(
        self, func_name: str, saved_name: str, *args: Any, include_return: bool = True, **named: Any
    ) -> None:
        """Makes `vm[saved_name]()` call a function with these arguments; it returns the result if `include_return` is
        set."""
        if self.mod._handle().get(saved_name) is not None:
            raise ValueError(f"the module has a function {saved_name!r}; save it under a different name")
        given = self._arguments(func_name, args, named)

        def call() -> Any:
            result = self._exec(func_name, given)
            return result if include_return else None

        self._saved[saved_name] = call

    def time_evaluator(
        self,
        func_name: str,
        dev: Any = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        f_preproc: str = "",
    ) -> Callable[..., BenchmarkResult]:
        """Returns a function that measures a function of the module, a function saved by `save_function`, or
        `invoke_stateful`. It takes the arguments, and makes one unmeasured call, then `repeat` repetitions of
        `number` calls each.

        A repetition that takes less than `min_repeat_ms` is repeated with more calls. After each `repeats_to_cooldown`
        repetitions, it waits for `cooldown_interval_ms`. `f_preproc` is a registered function that is called with the
        arguments before each repetition.
        """
        measured = self.invoke_stateful if func_name == "invoke_stateful" else self[func_name]
        prepare = get_global_func(f_preproc) if f_preproc else None

        def measure(*args: Any) -> BenchmarkResult:
            measured(*args)
            results, calls = [], number
            for at in range(1, repeat + 1):
                if prepare is not None:
                    prepare(*args)
                seconds = _seconds(measured, args, calls)
                while seconds * 1e3 < min_repeat_ms:
                    calls = max(calls + 1, int(calls * min(2.0, min_repeat_ms / (seconds * 1e3) * 1.1)))
                    seconds = _seconds(measured, args, calls)
                results.append(seconds / calls)
                if cooldown_interval_ms and at % repeats_to_cooldown == 0:
                    time.sleep(cooldown_interval_ms / 1e3)
            return BenchmarkResult(tuple(results))

        return measure

    def _repr_html_(self) -> str:
        return _html.preformatted(f"VirtualMachine({', '.join(self)})")


def _seconds(function: Callable[..., Any], args: tuple[Any, ...], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        function(*args)
    return max(time.perf_counter() - start, 1e-9)


def _number_tensor(value: Any) -> Any:
    """Converts a Python number to a tensor, as TVM does."""
    if isinstance(value, bool | int):
        return Tensor(value, "int32")
    return Tensor(value, "float32") if isinstance(value, float) else value
