"""Tests scalar arithmetic."""

import numpy as np
import pytest

from passhost import ir, relax, tirx

n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (n + 1, "n + T.int64(1)"),
        (1 + n * 2, "T.int64(1) + (n * T.int64(2))"),
        (n // 2 % m, "(n // T.int64(2)) % m"),
        (n < m, "n < m"),
        (-n, "n * T.int64(-1)"),
        (tirx.max(n, 3), "T.max(n, T.int64(3))"),
        (tirx.all(n < 1, m < 2), "(n < T.int64(1)) and (m < T.int64(2))"),
    ],
)
def test_operators(made, text):
    assert repr(made) == text


def test_what_is_known_is_computed():
    assert n + 0 is n and n * 1 is n and n // 1 is n
    assert int(tirx.IntImm("int64", 3) * 4 + 1) == 13
    assert int(tirx.IntImm("int64", -7) // 2) == -4


def test_equality_is_identity():
    assert n == n and bool(n != m)
    assert {n: 1}[n] == 1
    x = relax.Var("x", relax.TensorType([2], "float32"))
    assert x == x and x != relax.Var("x", relax.TensorType([2], "float32"))


def test_errors():
    with pytest.raises(RuntimeError, match="integer divisions"):
        n / 2
    with pytest.raises(ValueError, match="out of range"):
        tirx.IntImm("int8", 1000)
    with pytest.raises(TypeError, match="mismatched types"):
        tirx.Add(n, tirx.IntImm("int32", 1))
    with pytest.raises(ValueError, match="and / or / not"):
        bool(n < m)


def test_types():
    assert relax.TensorType([n, 2]) == relax.TensorType([n, 2])
    assert relax.TensorType([n, 2]) != relax.TensorType([m, 2])
    assert relax.TensorType([1]).dtype == "float32"
    assert ir.PrimType("int64") == "int64"
    with pytest.raises(ValueError, match="float33x"):
        ir.PrimType("float33x")
    ir.assert_structural_equal(relax.TensorType([n, n]), relax.TensorType([m, m]), map_free_vars=True)
    with pytest.raises(ValueError):
        ir.assert_structural_equal(relax.TensorType([n, n]), relax.TensorType([n, m]), map_free_vars=True)


def test_numbers_of_numpy_are_operands_and_are_compared():
    n = tirx.Var("n", "int64")
    half = n * np.float32(0.5)
    assert str(half.ty) == "float32" and repr(half) == 'T.Cast("float32", n) * T.float32(0.5)'
    assert repr(n * np.float16(0.5)) == repr(half)
    assert tirx.IntImm("int64", 3) == np.int64(3)
    assert tirx.IntImm("int64", 3) == 3.0
    assert tirx.IntImm("int64", 3) != np.float32(3.5)
    assert isinstance((n == np.int64(3)).asobject(), tirx.EQ)


def test_what_takes_integers_refuses_floats():
    n, f = tirx.Var("n", "int64"), tirx.Var("f", "float32")
    for make in (
        lambda: n << 2.5,
        lambda: n // 2.5,
        lambda: n % np.float32(2.5),
        lambda: f // 2,
        lambda: tirx.floordiv(f, 2),
        lambda: f & 1,
    ):
        with pytest.raises(TypeError, match="takes integers"):
            make()
    with pytest.raises(TypeError, match="a float, not complex"):
        tirx.FloatImm("float32", 1j)
    with pytest.raises(TypeError, match="an operand must be a scalar, not ndarray"):
        tirx.min(n, np.ones(2))


def test_a_choice_has_the_wider_type():
    n = tirx.Var("n", "int64")
    assert str(tirx.if_then_else(n > 0, n, 0.5).ty) == "float32"
