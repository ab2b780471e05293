"""Tests tensor expressions."""

import numpy as np
import pytest

import passhost
from passhost import relax, te, tirx


def built(func, *shapes, **options):
    bb = relax.BlockBuilder()
    params = [relax.Var(f"x{at}", relax.TensorType(shape, "float32")) for at, shape in enumerate(shapes)]
    with bb.function("main", params):
        bb.emit_func_output(bb.emit_te(func, *params, **options))
    mod = bb.get()
    relax.analysis.well_formed(mod)
    return mod


def run(mod, *arrays):
    return passhost.exec(mod, *arrays).numpy()


def test_elementwise_and_reduction():
    def matmul(a, b):
        k = te.reduce_axis((0, a.shape[1]), "k")
        doubled = te.compute(a.shape, lambda i, j: a[i, j] * 2 + 1, name="doubled")
        shape = (a.shape[0], b.shape[1])
        return te.compute(shape, lambda i, j: te.sum(doubled[i, k] * b[k, j], axis=k), name="product")

    mod = built(matmul, (2, 3), (3, 4))
    a, b = np.arange(6, dtype="float32").reshape(2, 3), np.ones((3, 4), "float32")
    np.testing.assert_allclose(run(mod, a, b), (a * 2 + 1) @ b)


def test_choices_and_functions():
    def clipped(a):
        return te.compute(a.shape, lambda *i: te.if_then_else(a(*i) > 0, te.exp(a(*i)), te.max(a(*i), -1.0)))

    a = np.array([[-3.0, -0.5, 2.0]], "float32")
    np.testing.assert_allclose(run(built(clipped, (1, 3)), a), np.where(a > 0, np.exp(a), np.maximum(a, -1)), rtol=1e-6)


def test_symbolic_shapes_are_shared_and_equal_functions_are_one():
    n = tirx.Var("n", "int64")

    def twice(a):
        return te.compute(a.shape, lambda i: a[i] + a[i])

    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([n], "float32"))
    with bb.function("main", [x]):
        y = bb.emit_te(twice, bb.emit_te(twice, x))
        assert y.ty == relax.TensorType([n], "float32")
        bb.emit_func_output(y)
    assert len(bb.get()) == 2
    np.testing.assert_allclose(run(bb.get(), np.ones(5, "float32")), np.full(5, 4.0))


def test_axes_have_the_names_of_the_function_and_blocks_the_annotations():
    def negated(a):
        attrs = {"schedule_rule": "acme.rule", "axis": 1, "layout_free_placeholders": [a]}
        return te.compute(a.shape, lambda row, column: -a[row, column], name="negated", attrs=attrs)

    text = built(negated, (2, 3)).script()
    assert "for row, column in T.grid(T.int64(2), T.int64(3)):" in text
    assert 'T.sblock_attr({"axis": 1, "schedule_rule": "acme.rule"})' in text


def test_errors():
    with pytest.raises(ValueError, match="2 dimensions, found 1"):
        built(lambda a: te.compute(a.shape, lambda i, j: a[i]), (2, 3))
    with pytest.raises(ValueError, match="do not match dimension"):
        built(lambda a: te.compute(a.shape, lambda i: a[i, i]), (2, 3))
    with pytest.raises(TypeError, match="returns tensors, not int"):
        built(lambda a: 1, (2, 3))
    other = te.placeholder((2, 3))
    with pytest.raises(ValueError, match="a tensor must be an argument, or be computed from the arguments"):
        built(lambda a: te.compute(a.shape, lambda i, j: other[i, j]), (2, 3))
    with pytest.raises(ValueError, match="whole value of an element"):
        k = te.reduce_axis(3)
        built(lambda a: te.compute((2,), lambda i: te.sum(a[i, k], axis=k) + 1), (2, 3))
