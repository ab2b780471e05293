"""Tests that operators as tensor expressions compute the same results as NumPy."""

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
    with pytest.raises(ValueError, match="do not broadcast"):
        run(topi.add, X, np.ones((2, 2), "float32"))


def test_movements():
    np.testing.assert_array_equal(run(lambda x: topi.transpose(x, [1, 0]), X), X.T)
    np.testing.assert_array_equal(run(lambda x: topi.squeeze(x, 1), Y), Y[:, 0])
    np.testing.assert_allclose(run(lambda x: topi.clip(x, 0.2, 0.5), X), X.clip(0.2, 0.5))
    np.testing.assert_array_equal(run(lambda x: topi.cast(topi.add(x, 1), "int32"), X), (X + 1).astype("int32"))
    assert run(lambda x: topi.add(x, topi.full((2, 3), "float32", 2)), X)[0, 0] > 2


def test_shapes():
    x = np.arange(24, dtype="float32").reshape(2, 3, 4)
    np.testing.assert_array_equal(run(lambda a: topi.reshape(a, [4, -1]), x), x.reshape(4, 6))
    np.testing.assert_array_equal(run(topi.flatten, x), x.reshape(2, 12))
    np.testing.assert_array_equal(run(lambda a: topi.expand_dims(a, -1), x), x[..., None])
    np.testing.assert_array_equal(run(lambda a: topi.tile(a, [2, 1, 3]), x), np.tile(x, (2, 1, 3)))
    np.testing.assert_array_equal(run(lambda a: topi.repeat(a, 2, 1), x), np.repeat(x, 2, 1))
    np.testing.assert_array_equal(run(lambda a: topi.flip(a, 1), x), np.flip(x, 1))
    np.testing.assert_array_equal(run(lambda a: topi.broadcast_to(a, [5, 2, 3]), Y), np.broadcast_to(Y, (5, 2, 3)))
    for k, upper in ((0, True), (1, True), (-1, False)):
        expected = (np.triu if upper else np.tril)(x, k)
        np.testing.assert_array_equal(run(lambda a, k=k, u=upper: topi.trilu(a, k, u), x), expected)
    for wrong in (lambda a: topi.reshape(a, [5, 5]), lambda a: topi.broadcast_to(a, [2, 3, 5])):
        with pytest.raises(ValueError, match="cannot be reshaped|target shape, to broadcast"):
            run(wrong, x)


def test_several_tensors():
    x, y = np.ones((2, 3), "float32"), np.full((2, 2), 5, "float32")
    np.testing.assert_array_equal(run(lambda a, b: topi.concatenate((a, b), axis=1), x, y), np.concatenate((x, y), 1))
    np.testing.assert_array_equal(run(lambda a, b: topi.stack([a, b], 1), y, -y), np.stack([y, -y], 1))
    picked = np.array([[True, False], [False, True]])
    np.testing.assert_array_equal(run(topi.where, picked, y, -y), np.where(picked, y, -y))
    halves = [run(lambda a, at=at: topi.split(a, 2, axis=1)[at], np.hstack([x, -x])) for at in range(2)]
    np.testing.assert_array_equal(halves, [x, -x])
    with pytest.raises(ValueError, match="cannot be split into 2 equal parts"):
        run(lambda a: topi.split(a, 2, axis=1)[0], x)


def test_products():
    a, b = np.arange(6, dtype="float32").reshape(2, 3), np.arange(12, dtype="float32").reshape(3, 4)
    np.testing.assert_allclose(run(topi.nn.matmul, a, b), a @ b)
    np.testing.assert_allclose(run(lambda x, y: topi.nn.matmul(x, y, transpose_a=True), a.T.copy(), b), a @ b)
    bias = np.arange(4, dtype="float32")
    np.testing.assert_allclose(run(topi.nn.dense, a, b.T.copy(), bias), a @ b + bias)


def windows(x, rows, columns, down, across):
    high, wide = (x.shape[2] - rows) // down + 1, (x.shape[3] - columns) // across + 1
    return np.array(
        [
            [x[:, :, i * down : i * down + rows, j * across : j * across + columns] for j in range(wide)]
            for i in range(high)
        ]
    )


def test_images():
    generator = np.random.default_rng(1)
    x = generator.standard_normal((1, 2, 7, 6)).astype("float32")
    w = generator.standard_normal((3, 2, 3, 2)).astype("float32")
    padded = np.pad(x, ((0, 0), (0, 0), (1, 2), (0, 1)))
    expected = np.einsum("ijncab,ocab->noij", windows(padded, 3, 2, 2, 1), w)
    made = run(lambda a, b: topi.nn.conv2d(a, b, strides=(2, 1), padding=(1, 0, 2, 1), dilation=1), x, w)
    np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-5)
    spread = np.zeros((3, 2, 5, 2), "float32")
    spread[:, :, ::2] = w
    made = run(lambda a, b: topi.nn.conv2d(a, b, 1, 0, (2, 1)), x, w)
    np.testing.assert_allclose(
        made, np.einsum("ijncab,ocab->noij", windows(x, 5, 2, 1, 1), spread), rtol=1e-4, atol=1e-5
    )

    made = run(lambda a: topi.nn.pool2d(a, (2, 3), (2, 1), (1, 1), (0, 0, 0, 0), "max"), x)
    np.testing.assert_array_equal(made, windows(x, 2, 3, 2, 1).max((4, 5)).transpose(2, 3, 0, 1))
    around = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    made = run(lambda a: topi.nn.pool2d(a, 2, 1, 1, 1, "avg"), x)
    np.testing.assert_allclose(
        made, windows(around, 2, 2, 1, 1).mean((4, 5)).transpose(2, 3, 0, 1), rtol=1e-4, atol=1e-6
    )
    inside = windows(np.pad(np.ones_like(x), ((0, 0), (0, 0), (1, 1), (1, 1))), 2, 2, 1, 1).sum((4, 5))
    sums = windows(around, 2, 2, 1, 1).sum((4, 5))
    made = run(lambda a: topi.nn.pool2d(a, 2, 1, 1, 1, "avg", count_include_pad=False), x)
    np.testing.assert_allclose(made, (sums / inside).transpose(2, 3, 0, 1), rtol=1e-4, atol=1e-6)
    made = run(lambda a: topi.nn.global_pool(a, "avg"), x)
    np.testing.assert_allclose(made, x.mean((2, 3), keepdims=True), rtol=1e-4)
    np.testing.assert_array_equal(run(lambda a: topi.nn.upsampling(a, 2.0, 3.0), x), x.repeat(2, 2).repeat(3, 3))


def test_activations():
    x = np.linspace(-2, 2, 12, dtype="float32").reshape(3, 4)
    np.testing.assert_array_equal(run(topi.nn.relu, x), np.maximum(x, 0))
    np.testing.assert_allclose(run(lambda a: topi.nn.leaky_relu(a, 0.5), x), np.where(x > 0, x, x * 0.5))
    for axis in (0, -1):
        powers = np.exp(x)
        expected = powers / powers.sum(axis, keepdims=True)
        np.testing.assert_allclose(run(lambda a, axis=axis: topi.nn.softmax(a, axis), x), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [("int32", 0.5, "float32"), ("int32", 2, "int32"), ("uint8", 2, "int32"), ("float16", 0.5, "float32")],
)
def test_a_number_beside_a_tensor_has_its_own_type(dtype, value, expected):
    x = relax.Var("x", relax.TensorType([4], dtype))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit_te(topi.multiply, x, value))
    result = passhost.exec(bb.get(), np.arange(1, 5).astype(dtype)).numpy()
    assert result.dtype == expected
    assert result.tolist() == [value, 2 * value, 3 * value, 4 * value]


def test_integers_are_divided_as_in_c():
    x = relax.Var("x", relax.TensorType([3], "int32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit_te(topi.divide, x, 2))
    assert passhost.exec(bb.get(), np.array([-3, 4, 5], "int32")).numpy().tolist() == [-1, 2, 2]


def test_operators_of_python_are_those_of_topi():
    x = relax.Var("x", relax.TensorType([2, 3], "float32"))
    y = relax.Var("y", relax.TensorType([2, 1], "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x, y]):
        bb.emit_func_output(bb.emit_te(lambda a, b: (1 - a * 2) / (b + np.float32(0.5)) - (-a).astype("float32"), x, y))
    result = passhost.exec(bb.get(), X, Y).numpy()
    np.testing.assert_allclose(result, (1 - X * 2) / (Y + 0.5) + X, rtol=1e-6)
    with pytest.raises(TypeError, match="unsupported operand"):
        passhost.te.placeholder((2,), "float32", "A") + "one"
