"""Names of `tvm.testing`."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from passhost._tensor import Tensor


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7, verbose: bool = True) -> None:
    """Raises `AssertionError` if two arrays differ in shape, or by more than the tolerance."""
    arrays = [value.numpy() if isinstance(value, Tensor) else np.asanyarray(value) for value in (actual, desired)]
    np.testing.assert_allclose(arrays[0], arrays[1], rtol=rtol, atol=atol, verbose=verbose)
    assert arrays[0].shape == arrays[1].shape


def parameter(*values: Any, ids: Any = None) -> Any:
    """Returns a pytest fixture with one test for each value."""
    import pytest

    @pytest.fixture(params=values, ids=ids)
    def as_fixture(request: Any) -> Any:
        return request.param

    return as_fixture


def main() -> None:
    """Runs the tests of the main file."""
    import pytest

    file = sys.modules["__main__"].__file__
    sys.exit(pytest.main([str(file), *sys.argv[1:]]))
