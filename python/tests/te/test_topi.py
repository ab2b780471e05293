"""Operators as tensor expressions compute what NumPy computes."""

import numpy as np
import pytest

import passhost
from passhost import relax, topi

X = np.linspace(0.1, 0.9, 6, dtype="float32").reshape(2, 3)
Y = np.array([[0.5], [0.25]], dtype="float32")


def run(function, *arrays):
    builder = relax.BlockBuilder()
    params = [relax.Var(f"x{at}", relax.TensorType(array.shape, str(array.dtype))) for at, array in enumerate(arrays)]
    with builder.function("main", params):
        builder.emit_func_output(builder.emit_te(function, *params))
    return passhost.exec(builder.get(), *arrays).numpy()


@pytest.mark.parametrize(
    "name", ["exp", "log", "sqrt", "sin", "cos", "tan", "tanh", "floor", "ceil", "abs", "sign", "round"]
)
def test_functions_of_one_tensor(name):
    np.testing.assert_allclose(run(getattr(topi, name), X), getattr(np, name)(X), rtol=1e-5)


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "less"])
def test_functions_of_two_tensors_broadcast(name):
    np.testing.assert_allclose(run(getattr(topi, name), X, Y), getattr(np, name)(X, Y), rtol=1e-5)
    np.testing.assert_allclose(run(getattr(topi, name), Y, X[0]), getattr(np, name)(Y, X[0]), rtol=1e-5)


def test_integers_are_not_rounded():
    x = np.array([1, -2], "int32")
    assert run(topi.floor, x).tolist() == [1, -2]
    assert run(topi.sign, x).tolist() == [1, -1]
    assert run(topi.abs, x).tolist() == [1, 2]


@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_what_floats_are(name, dtype):
    values = [1.0, -2.0] if dtype == "int32" else [1.0, np.nan, np.inf, -np.inf]
    x = np.array(values, dtype)
    assert run(getattr(topi, name), x).tolist() == getattr(np, name)(x).tolist()


def test_shapes_that_do_not_fit():
    with pytest.raises(ValueError, match="cannot be broadcast together"):
        run(topi.add, X, np.ones((2, 2), "float32"))


def test_movements():
    np.testing.assert_array_equal(run(lambda x: topi.transpose(x, [1, 0]), X), X.T)
    np.testing.assert_array_equal(run(lambda x: topi.squeeze(x, 1), Y), Y[:, 0])
    np.testing.assert_allclose(run(lambda x: topi.clip(x, 0.2, 0.5), X), X.clip(0.2, 0.5))
    np.testing.assert_array_equal(run(lambda x: topi.cast(topi.add(x, 1), "int32"), X), (X + 1).astype("int32"))
    assert run(lambda x: topi.add(x, topi.full((2, 3), "float32", 2)), X)[0, 0] > 2
