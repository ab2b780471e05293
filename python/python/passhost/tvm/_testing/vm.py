"""Names of `tvm.relax.testing.vm`: packed functions with which tests inspect the virtual machine."""

from __future__ import annotations

from typing import Any

import numpy as np

from passhost.runtime import Tensor, VirtualMachine, register_global_func, tensor
from passhost.tvm._testing import assert_allclose

__all__ = ["check_saved_func"]


@register_global_func("test.vm.move", override=True)
def _move(value: Any) -> Any:
    return value


@register_global_func("test.vm.add", override=True)
def _add(a: Tensor, b: Tensor) -> Tensor:
    return tensor(a.numpy() + b.numpy())


@register_global_func("test.vm.mul", override=True)
def _mul(a: Tensor, b: Tensor) -> Tensor:
    return tensor(a.numpy() * b.numpy())


@register_global_func("test.vm.equal_zero", override=True)
def _equal_zero(a: Tensor) -> Tensor:
    return tensor(np.all(a.numpy() == 0))


@register_global_func("test.vm.subtract_one", override=True)
def _subtract_one(a: Tensor) -> Tensor:
    return tensor(a.numpy() - 1)


@register_global_func("test.vm.identity", override=True)
def _identity(source: Tensor, target: Tensor) -> None:
    target.copyfrom(source)


@register_global_func("test.vm.tile", override=True)
def _tile(source: Tensor, target: Tensor) -> None:
    target.copyfrom(np.tile(source.numpy(), (1, 2)))


@register_global_func("test.vm.add_scalar", override=True)
def _add_scalar(a: Any, b: Any) -> Any:
    return a + b


@register_global_func("test.vm.check_if_defined", override=True)
def _check_if_defined(value: Any) -> bool:
    return value is not None


def check_saved_func(vm: VirtualMachine, func_name: str, *inputs: Any) -> Any:
    """Returns the result of a function, and checks that a function saved with the same inputs returns it, too."""
    vm.save_function(func_name, f"{func_name}_saved", *inputs)
    result = vm[func_name](*inputs)
    assert_allclose(result, vm[f"{func_name}_saved"](), rtol=1e-7, atol=1e-7)
    return result
