"""Parameters and modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from passhost import tirx
from passhost.ir.expr import Expr, Tuple, Var
from passhost.ir.module import IRModule
from passhost.relax.block_builder import BlockBuilder
from passhost.relax.frontend.nn import spec
from passhost.relax.frontend.nn.op import Dim, Tensor
from passhost.relax.type import TensorType


class Parameter(Tensor):
    """A tensor that belongs to a module and becomes a parameter of the exported functions."""

    def __init__(self, shape: Sequence[int], dtype: str | None = None) -> None:
        """Creates a parameter from a shape and a data type, by default float32."""
        super().__init__(_expr=None)
        for dim in shape:
            if isinstance(dim, bool) or not isinstance(dim, int):
                raise TypeError(f"a dimension of a parameter must be an integer, not {dim!r}")
        self._shape = list(shape)
        self._dtype = dtype or "float32"
        self._data: Any = None

    @property
    def shape(self) -> list[Dim]:
        """The dimensions."""
        return list(self._shape)

    @property
    def dtype(self) -> str:
        """The data type."""
        return self._dtype

    @property
    def data(self) -> Any:
        """The values (an array or a tensor), if they are set."""
        return self._data

    @data.setter
    def data(self, values: Any) -> None:
        shape, dtype = list(values.shape), str(values.dtype)
        if shape != self._shape or dtype != self._dtype:
            raise ValueError(f"the values have shape {shape} and data type {dtype}, but the parameter is {self!r}")
        self._data = values

    def to(self, dtype: str | None = None) -> None:
        """Changes the data type; only possible before values are set."""
        if dtype is not None and dtype != self._dtype:
            if self._data is not None:
                raise ValueError(f"{self!r} has its values already; change its data type before")
            self._dtype = dtype


class Module:
    """A layer, or several: its attributes are parameters and other modules, and `forward` computes its result."""

    forward: Callable[..., Any]

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """Iterates over the parameters and their attribute paths; shared parameters appear once."""
        seen: set[int] = set()
        for name, parameter in _parameters(self, prefix):
            if id(parameter) not in seen:
                seen.add(id(parameter))
                yield name, parameter

    def parameters(self) -> Iterator[Parameter]:
        """Iterates over the parameters."""
        return (parameter for _, parameter in self.named_parameters())

    def state_dict(self) -> dict[str, Parameter]:
        """Returns the parameters by name."""
        return dict(self.named_parameters())

    def load_state_dict(self, values: Mapping[str, Any], strict: bool = True) -> tuple[list[str], list[str]]:
        """Sets the values of the parameters; returns the names that `values` lacks, and those that the module lacks."""
        own = self.state_dict()
        missing = [name for name in own if name not in values]
        unexpected = [name for name in values if name not in own]
        if strict and (missing or unexpected):
            raise KeyError(f"missing: {missing}; not in the module: {unexpected}")
        for name, value in values.items():
            if name in own:
                own[name].data = value.data if isinstance(value, Parameter) else value
        return missing, unexpected

    def to(self, dtype: str | None = None) -> None:
        """Changes the data type of all parameters."""
        for parameter in self.parameters():
            parameter.to(dtype)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls `forward`."""
        return self.forward(*args, **kwargs)

    def export_tvm(
        self, spec: Mapping[str, Mapping[str, Any]], debug: bool = False, allow_extern: bool = False
    ) -> tuple[IRModule, list[tuple[str, Parameter]]]:
        """Returns a module with a function for each method in `spec`, and the parameters that follow its arguments.

        `spec` maps methods to their arguments: `{"forward": {"x": spec.Tensor((1, 4), "int8")}}`.
        """
        if debug or allow_extern:
            raise NotImplementedError("passhost exports neither effects for debugging nor modules of other languages")
        params = list(self.named_parameters())
        builder = BlockBuilder()
        for method, arguments in spec.items():
            _export(builder, self, method, arguments, params)
        return builder.get(), params


def _parameters(module: Any, prefix: str) -> Iterator[tuple[str, Parameter]]:
    items = module.items() if isinstance(module, ModuleDict) else vars(module).items()
    if isinstance(module, ModuleList):
        items = ((str(at), part) for at, part in enumerate(module))
    for name, part in items:
        path = f"{prefix}.{name}" if prefix else name
        if isinstance(part, Parameter):
            yield path, part
        elif isinstance(part, Module | ModuleList | ModuleDict):
            yield from _parameters(part, path)


def _export(
    builder: BlockBuilder,
    module: Module,
    method: str,
    arguments: Mapping[str, Any],
    params: list[tuple[str, Parameter]],
) -> None:
    function = getattr(module, method, None)
    if not callable(function):
        raise AttributeError(f"{type(module).__name__} lacks the method {method!r}")
    symbols: dict[str, tirx.Var] = {}
    inputs = {name: _input(name, what, symbols) for name, what in arguments.items()}
    weights = [Var(name.replace(".", "_"), TensorType(list(param.shape), param.dtype)) for name, param in params]
    every = [*_variables(list(inputs.values())), *weights]
    try:
        for (_, param), weight in zip(params, weights, strict=True):
            param._value = weight
        with builder.function(method, every, attrs={"num_input": len(every) - len(weights)}):
            with builder.dataflow():
                result = builder.emit_output(_unwrapped(function(**inputs)))
            builder.emit_func_output(result)
    finally:
        for _, param in params:
            param._value = None


def _input(name: str, what: Any, symbols: dict[str, tirx.Var]) -> Any:
    if isinstance(what, tuple | list):
        return type(what)(_input(f"{name}_{at}", part, symbols) for at, part in enumerate(what))
    if not isinstance(what, spec.Tensor):
        raise TypeError(f"argument {name!r} is described by nn.spec.Tensor or several of them, not by {what!r}")
    dims = [symbols.setdefault(dim, tirx.Var(dim, "int64")) if isinstance(dim, str) else dim for dim in what.shape]
    return Tensor(_expr=Var(name, TensorType(dims, what.dtype)))


def _variables(inputs: Any) -> list[Any]:
    if isinstance(inputs, tuple | list):
        return [variable for part in inputs for variable in _variables(part)]
    return [inputs._expr]


def _unwrapped(result: Any) -> Expr:
    if isinstance(result, tuple | list):
        return Tuple([_unwrapped(part) for part in result])
    if not isinstance(result, Tensor):
        raise TypeError(f"a method returns tensors, or tuples of them, not {type(result).__name__}")
    return result._expr


class ModuleList(Module):
    """A sequence of modules."""

    def __init__(self, modules: Sequence[Module]) -> None:
        """Creates a list of the modules, in order."""
        self.modules = list(modules)

    def __iter__(self) -> Iterator[Module]:
        """Iterates over the modules."""
        return iter(self.modules)

    def __getitem__(self, at: int) -> Module:
        """Returns the module at a position."""
        return self.modules[at]

    def __len__(self) -> int:
        """Returns the number of modules."""
        return len(self.modules)

    def append(self, module: Module) -> None:
        """Appends a module."""
        self.modules.append(module)

    def forward(self, x: Any) -> Any:
        """Applies the modules in order, each to the result of the previous one."""
        for module in self.modules:
            x = module(x)
        return x


class ModuleDict(Module):
    """Modules by name."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        """Creates a dictionary from the modules by name."""
        self.modules = dict(modules or {})

    def __getitem__(self, name: str) -> Module:
        """Returns the module named `name`."""
        return self.modules[name]

    def __setitem__(self, name: str, module: Module) -> None:
        """Adds the module under `name`, or replaces the one there."""
        self.modules[name] = module

    def items(self) -> Iterator[tuple[str, Module]]:
        """Iterates over names and modules."""
        return iter(self.modules.items())
