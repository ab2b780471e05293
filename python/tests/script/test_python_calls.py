"""Tests calls of Python functions in decorated functions, and names of Python values there."""

import numpy as np
import pytest

import passhost
from passhost import relax, topi
from passhost.ir import assert_structural_equal
from passhost.script import ir as I
from passhost.script import relax as R
from passhost.script import tirx as T


def names(mod):
    return [var.name_hint for var in mod.get_global_vars()]


def test_emit_te_adds_a_prim_func_and_calls_it():
    scale = 3

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            with R.dataflow():
                lv = R.emit_te(lambda a: topi.multiply(a, scale), x, primfunc_name_hint="scaled")
                gv = R.add(lv, R.emit_te(topi.exp, x))
                R.output(gv)
            return gv

    assert names(Module) == ["exp", "main", "scaled"]
    assert Module["main"].ret_ty == relax.TensorType((2, 3), "float32")
    relax.analysis.well_formed(Module)
    x = np.arange(6, dtype="float32").reshape(2, 3)
    np.testing.assert_allclose(passhost.exec(Module, x).numpy(), x * 3 + np.exp(x), rtol=1e-6)


def test_each_emit_te_has_a_function_of_its_own():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            y = R.emit_te(topi.exp, x)
            z = R.emit_te(topi.exp, y)
            return z

    assert names(Module) == ["exp", "exp1", "main"]


def test_symbolic_shapes_and_branches():
    def zeros(shape):
        return topi.full(shape, "float32", 0)

    @I.ir_module
    class Module:
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor(("m", "n"), "float32")):
            m = T.int64()
            n = T.int64()
            if c:  # noqa: SIM108 - the source is not executed as Python
                y = R.emit_te(zeros, [m * n])
            else:
                y = R.reshape(x, R.shape([m * n]))
            return y

    m, n = Module["main"].params[1].ty.shape.values
    assert Module["main"].ret_ty == relax.TensorType((m * n,), "float32")
    relax.analysis.well_formed(Module)


def test_what_a_function_of_python_returns_is_read_like_what_is_written():
    def gelu(x, approximate):
        return R.nn.gelu_tanh(x) if approximate else R.nn.gelu(x)

    def both(x, y):
        return R.add(x, y), x

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            y = gelu(R.exp(x), approximate=True)
            z = both(x, y)
            return z

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            e = R.exp(x)
            y = R.nn.gelu_tanh(e)
            s = R.add(x, y)
            z = (s, x)
            return z

    assert_structural_equal(Module, Expected)


def test_declared_types_of_variables_stay():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor(ndim=2, dtype="float32"):
            y: R.Tensor(ndim=2) = R.emit_te(topi.exp, x)  # noqa: F841
            z = R.emit_te(topi.exp, x)
            return z

    y, z = (binding.var for binding in Module["main"].body.blocks[0].bindings)
    assert (y.ty, z.ty) == (relax.TensorType(ndim=2, dtype=""), relax.TensorType((2, 3), "float32"))
    # The annotation declares the known part of the result's type.
    assert Module["main"].ret_ty == relax.TensorType((2, 3), "float32")


def test_an_error_of_a_function_of_python_says_where_it_was_called():
    def fails(x):
        raise LookupError(str(x.ty))

    with pytest.raises(LookupError, match="float32") as raised:

        @I.ir_module
        class Module:
            @R.function
            def main(x: R.Tensor((2, 3), "float32")):
                y = fails(x)
                return y

    assert "in `fails(x)`" in raised.value.__notes__[0]

    def text(x):
        return {"x": x}

    with pytest.raises(TypeError, match="the value of `text"):

        @I.ir_module
        class Other:
            @R.function
            def main(x: R.Tensor((2, 3), "float32")):
                y = text(x)
                return y


def test_what_follows_must_fit():
    with pytest.raises(ValueError, match="matmul") as raised:

        @I.ir_module
        class Module:
            @R.function
            def main(x: R.Tensor((2, 3), "float32")):
                y = R.emit_te(topi.exp, x)
                z = R.matmul(y, x)
                return z

    assert "in function `main`" in raised.value.__notes__[0]


def test_emit_te_is_written_in_a_function_that_is_read():
    with pytest.raises(RuntimeError, match=r"BlockBuilder\.emit_te"):
        R.emit_te(topi.exp, relax.Var("x", relax.TensorType((2,), "float32")))


def test_meta_variables_are_values_of_python():
    width = 4

    @T.prim_func
    def fill(A: T.Buffer((8,), "int32")):
        half = T.meta_var(width)
        for i in range(half):
            A[i] = half + 1

    @T.prim_func
    def expected(A: T.Buffer((8,), "int32")):
        for i in range(4):
            A[i] = 4 + 1

    assert_structural_equal(fill, expected.with_attr("global_symbol", "fill"))


def test_expressions_that_only_python_makes():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            a = R.TupleGetItem(R.tuple(x, R.shape([2])), 0)
            b = R.emit_with_ty(
                "relax.builtin.alloc_tensor", (R.shape([2]), R.dtype("float32"), 0, R.str("global")), a.ty
            )
            return b

    a, b = (binding.value for binding in Module["main"].body.blocks[0].bindings)
    assert isinstance(a, relax.TupleGetItem)
    assert (b.op.name, b.ty) == ("relax.builtin.alloc_tensor", relax.TensorType((2,), "float32"))


def test_functions_of_python_write_expressions_of_tir():
    width = 4

    def mixed(a, b, more=1):
        a = T.Cast("float32", a.astype("float16")) * b + more
        return T.if_then_else(a > b, T.exp(-a), 2 / b)

    @T.prim_func
    def written(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            A[i] = mixed(A[i % width], B[7 - i])

    @T.prim_func
    def expected(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            A[i] = T.if_then_else(
                T.Cast("float32", T.Cast("float16", A[i % 4])) * B[7 - i] + 1 > B[7 - i],
                T.exp(-(T.Cast("float32", T.Cast("float16", A[i % 4])) * B[7 - i] + 1)),
                2 / B[7 - i],
            )

    assert_structural_equal(written, expected.with_attr("global_symbol", "written"))

    def decides(a):
        return a if a > 0 else -a

    with pytest.raises(TypeError, match="has no value while the function is parsed") as raised:

        @T.prim_func
        def fails(A: T.Buffer((8,), "float32")):
            A[0] = decides(A[1])

    assert "in `decides(A[1])`" in raised.value.__notes__[0]
