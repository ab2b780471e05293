"""Tests ill-formed decorated modules, and handles that become buffers."""

import pytest

import passhost
from passhost import relax
from passhost.ir import assert_structural_equal
from passhost.script import from_source
from passhost.script import ir as I
from passhost.script import relax as R
from passhost.script import tirx as T

WRONG_CALL = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        y = R.matmul(x, x)
        return y
"""


@pytest.mark.parametrize(
    "source",
    [
        WRONG_CALL,
        WRONG_CALL.replace("y = R.matmul(x, x)", 'y: R.Tensor((2, 3), "int32") = R.add(x, x)'),
        WRONG_CALL.replace("y = R.matmul(x, x)", "y: R.Tensor(ndim=3) = R.add(x, x)"),
    ],
)
def test_a_module_that_contradicts_itself_is_read_if_nothing_is_checked(source):
    with pytest.raises(passhost.error.ScriptError):
        from_source(source)
    mod = from_source(source, check_well_formed=False)
    assert [param.name for param in mod["main"].params] == ["x"]
    with pytest.warns(UserWarning, match="not well formed"):
        assert not relax.analysis.check_well_formed(mod)


def test_decorators_say_whether_anything_is_checked():
    with pytest.raises(passhost.error.ScriptError):

        @I.ir_module
        class Wrong:
            @R.function
            def main(x: R.Tensor((2, 3), "float32")):
                return R.matmul(x, x)

    @I.ir_module(check_well_formed=False)
    class Unchecked:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            return R.matmul(x, x)

    @R.function(check_well_formed=False)
    def unchecked(x: R.Tensor((2, 3), "float32")):
        return R.matmul(x, x)

    for found in (Unchecked, unchecked):
        with pytest.raises(passhost.error.IllFormedError):
            relax.analysis.well_formed(found)


def test_handles_that_a_function_matches_are_buffers():
    @T.prim_func(s_tir=True)
    def written(a: T.handle, h: T.handle, b: T.handle, n: T.int32):
        T.func_attr({"tirx.noalias": True})
        m = T.int64()
        A = T.match_buffer(a, (m, 4), "float32", strides=(8, 1))
        k = T.int64()
        B = T.match_buffer(b, (m, k))
        for i in range(m):
            B[i, 0] = A[i, 0]

    @T.prim_func(s_tir=True)
    def expected(
        A: T.Buffer(("m", 4), "float32", strides=(8, 1)), h: T.handle, B: T.Buffer(("m", "k"), "float32"), n: T.int32
    ):
        m = T.int64()
        k = T.int64()  # noqa: F841
        T.func_attr({"tirx.noalias": True})
        for i in range(m):
            B[i, 0] = A[i, 0]

    assert_structural_equal(written, expected.with_attr("global_symbol", "written"))
    assert "(A: T.Buffer" in written.script()


def test_a_handle_that_is_used_by_itself_stays_one():
    @T.prim_func
    def written(a: T.handle):
        A = T.match_buffer(a, (4,), "float32")
        A[0] = T.float32(1)
        T.evaluate(a)

    assert "(a: T.handle)" in written.script()
