"""NumPy, which is imported when something of it is first used: importing it takes longer than importing passhost."""

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
    """Whether it is a scalar of NumPy, of which there is none before NumPy is imported, or where it cannot be."""
    return sys.modules.get("numpy") is not None and isinstance(value, np.generic)


def is_integer(value: object) -> TypeGuard[int | np.integer]:
    """Whether it is an integer of Python or of NumPy. A `bool` of Python is one, too."""
    return isinstance(value, int) or (is_scalar(value) and isinstance(value, np.integer))


def is_number(value: object) -> TypeGuard[float | np.generic]:
    """Whether it is an integer or float of Python, or a scalar of NumPy."""
    return isinstance(value, int | float) or is_scalar(value)


def is_real(value: object) -> TypeGuard[float | np.generic]:
    """Whether it is an integer or float of Python, or a truth value, integer or float of NumPy; `V` is for bfloat16."""
    return isinstance(value, int | float) or (is_scalar(value) and value.dtype.kind in "biufV")
