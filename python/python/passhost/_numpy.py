"""NumPy, imported on first use, because importing it takes longer than importing passhost."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeGuard

__all__ = ["is_integer", "is_number", "is_real", "is_scalar", "np"]

if TYPE_CHECKING:
    import numpy as np
else:

    class _Later:
        def __getattr__(self, name: str) -> object:
            import numpy

            found = getattr(numpy, name)
            setattr(self, name, found)
            return found

    np = _Later()


def is_scalar(value: object) -> TypeGuard[np.generic]:
    """Returns true if a value is a NumPy scalar. There are none until NumPy is imported."""
    return sys.modules.get("numpy") is not None and isinstance(value, np.generic)


def is_integer(value: object) -> TypeGuard[int | np.integer]:
    """Returns true if a value is a Python integer (including `bool`) or a NumPy integer."""
    return isinstance(value, int) or (is_scalar(value) and isinstance(value, np.integer))


def is_number(value: object) -> TypeGuard[float | np.generic]:
    """Returns true if a value is a Python integer or float, or a NumPy scalar."""
    return isinstance(value, int | float) or is_scalar(value)


def is_real(value: object) -> TypeGuard[float | np.generic]:
    """Returns true if a value is a Python integer or float, or a NumPy boolean, integer or float. Kind `V` is
    bfloat16."""
    return isinstance(value, int | float) or (is_scalar(value) and value.dtype.kind in "biufV")
