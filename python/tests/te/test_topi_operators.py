"""Tests that each operator of `topi` computes what `LegalizeOps` makes of the Relax operator."""

import types

import numpy as np
import pytest

import passhost
from passhost import relax, tirx, topi
from passhost.ir import structural_equal
from passhost.tirx.math import FLOAT_FUNCTIONS, ROUNDINGS

N, M = tirx.Var("n", "int64"), tirx.Var("m", "int64")
DTYPES = ("float16", "float32", "int8", "int32", "uint8", "bool")
FLOATING = ("float16", "float32")
REFUSED = (ValueError, passhost.error.PasshostError)
R = relax.op

OF_ONE = {
    **{name: getattr(R, name) for name in sorted((FLOAT_FUNCTIONS | ROUNDINGS) & set(dir(R)))},
    **{name: getattr(R, name) for name in ("abs", "sign", "negative", "isnan", "isinf", "isfinite")},
    **{name: getattr(R, name) for name in ("bitwise_not", "logical_not", "sum", "prod", "max", "min")},
    "nn.log_softmax": R.nn.log_softmax,
    "nn.softplus": R.nn.softplus,
    "nn.relu": R.nn.relu,
    "nn.leaky_relu": lambda x: R.nn.leakyrelu(x, 0.25),
    "nn.softmax": lambda x: R.nn.softmax(x, 0),
    "nn.flatten": R.nn.batch_flatten,
    "flatten": R.nn.batch_flatten,
    "transpose": R.permute_dims,
    "cast": lambda x: R.astype(x, "int32"),
    "clip": lambda x: R.clip(x, -3, 5),
    "reshape": lambda x: R.reshape(x, (-1,)),
    "squeeze": lambda x: R.squeeze(x, [at for at, dim in enumerate(x.ty.shape.values) if dim_is_one(dim)]),
    "expand_dims": lambda x: R.expand_dims(x, [1, 2]),
    "broadcast_to": lambda x: R.broadcast_to(x, (4, *x.ty.shape.values)),
    "split": lambda x: R.split(x, [1, 2], 1),
    "tile": lambda x: R.tile(x, [3, 1, 2]),
    "repeat": lambda x: R.repeat(x, 3, 1),
    "flip": lambda x: R.flip(x, 1),
    "trilu": lambda x: R.triu(x, 1),
}
OF_ONE_ARGUMENTS = {
    "nn.leaky_relu": (0.25,),
    "nn.softmax": (0,),
    "cast": ("int32",),
    "clip": (-3, 5),
    "reshape": ((-1,),),
    "expand_dims": (1, 2),
    "split": ([1, 2], 1),
    "tile": ([3, 1, 2],),
    "repeat": (3, 1),
    "flip": (1,),
    "trilu": (1, True),
}
OF_TWO = (
    *("add", "subtract", "multiply", "divide", "floor_divide", "floor_mod", "maximum", "minimum", "power"),
    *("less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "left_shift", "right_shift"),
    *("mod", "log_add_exp", "bitwise_and", "bitwise_or", "bitwise_xor", "logical_and", "logical_or", "logical_xor"),
)
OTHERS = {
    "nn.prelu",
    "full",
    "concatenate",
    "stack",
    "where",
    "nn.matmul",
    "nn.dense",
    "nn.conv2d",
    "nn.pool2d",
    "nn.global_pool",
    "nn.pad",
    "nn.upsampling",
}
WITHOUT_OPERATOR = {"identity", *(FLOAT_FUNCTIONS | ROUNDINGS) - set(dir(R))}
"""Functions that no Relax operator computes. Those of one float are the TIR function of the same name."""


def dim_is_one(dim):
    return isinstance(dim, tirx.IntImm) and dim.value == 1


def function_of(name):
    made = topi
    for word in name.split("."):
        made = getattr(made, word)
    return made


def var(shape, dtype, name="x"):
    return relax.Var(name, relax.TensorType(shape, dtype))


def module_of(params, emit):
    bb = relax.BlockBuilder()
    with bb.function("main", params):
        bb.emit_func_output(emit(bb))
    return bb.get()


def by_topi(params, function):
    """Returns the PrimFunc of a function of `topi`, or None if it is refused."""
    try:
        return only(module_of(params, lambda bb: bb.emit_te(function, *params)))
    except REFUSED:
        return None


def by_relax(params, function):
    """Returns the PrimFunc to which `LegalizeOps` converts a call, or None if it refuses the call."""
    try:
        return only(passhost.passes.relax.LegalizeOps()(module_of(params, lambda bb: bb.emit(function(*params)))))
    except REFUSED:
        return None


def only(module):
    functions = [function for var, function in module.functions_items() if var.name_hint != "main"]
    return functions[0] if len(functions) == 1 else None


def check(params, of_topi, of_relax, refused=False):
    made, expected = by_topi(params, of_topi), by_relax(params, of_relax)
    if expected is None:
        assert refused
        assert made is None
    else:
        assert made is not None
        assert structural_equal(named(made), named(expected)), f"{made.script()}\n{expected.script()}"


def named(function):
    return function.with_attrs({"global_symbol": "f"}) if hasattr(function, "with_attrs") else function


def public():
    """Returns the names of all functions of `topi`."""
    names = set(FLOAT_FUNCTIONS | ROUNDINGS)
    for prefix, module in (("", topi), ("nn.", topi.nn)):
        for name, value in vars(module).items():
            if isinstance(value, types.FunctionType) and not name.startswith("_") and value.__module__ in HOMES:
                names.add(prefix + name)
    return names


HOMES = {"passhost.topi", "passhost.topi.nn"}


def test_each_function_is_compared():
    assert public() == {*OF_ONE, *OF_TWO, *OTHERS, *WITHOUT_OPERATOR}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", sorted(OF_ONE))
def test_operators_of_one_tensor(name, dtype):
    function, arguments = function_of(name), OF_ONE_ARGUMENTS.get(name, ())

    def of_topi(x):
        return function(x, (4, *x.shape)) if name == "broadcast_to" else function(x, *arguments)

    shapes = [(2, 3), (2, N)] if name == "split" else [(2, 3), (N, M), (N, 4)]
    for shape in [(2, 3, 4), *shapes] if name != "squeeze" else [(1, 3, 1), (N, 1)]:
        check([var(shape, dtype)], of_topi, OF_ONE[name], refused=name == "logical_not" or dtype not in FLOATING)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OF_TWO)
def test_operators_of_two_tensors(name, dtype):
    refused = dtype == "bool" or "shift" in name or name.startswith(("bitwise", "logical", "log_add"))
    for a, b in (((2, 3), (2, 3)), ((2, 3), (3,)), ((N, M), (N, M)), ((4, N, 1), (N, M)), ((), (5,))):
        check([var(a, dtype), var(b, dtype, "y")], getattr(topi, name), getattr(R, name), refused)


@pytest.mark.parametrize("dtype", DTYPES)
def test_operators_with_arguments_of_their_own(dtype):
    for shape in ((2, 3), (N, 3)):
        x, y = var(shape, dtype), var(shape, dtype, "y")
        condition = var((2, 1) if shape[0] == 2 else (N, 1), "bool", "c")
        check([condition, x, y], topi.where, R.where)
        check([x, var((3,), dtype, "s")], topi.nn.prelu, R.nn.prelu, refused=True)
        for name in ("sum", "max"):
            of_topi, of_relax = getattr(topi, name), getattr(R, name)
            check([x], lambda a, f=of_topi: f(a, 1, True), lambda a, f=of_relax: f(a, 1, True), refused=True)
        check([x, y], lambda a, b: topi.concatenate([a, b], 1), lambda a, b: R.concat([a, b], 1))
        check([x, y], lambda a, b: topi.stack([a, b], -1), lambda a, b: R.stack([a, b], -1))
        for k, upper in ((-1, True), (2, False), (0, False)):
            of_relax = R.triu if upper else R.tril
            check([x], lambda a, k=k, upper=upper: topi.trilu(a, k, upper), lambda a, k=k, f=of_relax: f(a, k))
        check([x], lambda a: topi.transpose(a, [1, 0]), lambda a: R.permute_dims(a, [1, 0]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("batch", "channels"), [(1, 2), (N, 2), (N, M)])
def test_operators_of_images(dtype, batch, channels):
    refused = dtype not in FLOATING
    x = var((batch, channels, 8, 7), dtype)
    w = var((3, channels, 3, 2), dtype, "w")
    check(
        [x, w],
        lambda a, b: topi.nn.conv2d(a, b, (2, 1), (1, 0, 2, 1), (1, 2)),
        lambda a, b: R.nn.conv2d(a, b, strides=(2, 1), padding=(1, 0, 2, 1), dilation=(1, 2)),
        refused,
    )
    for kind, pool in (("max", R.nn.max_pool2d), ("avg", R.nn.avg_pool2d)):
        for ceil, count in ((False, True), (True, False), (False, False)):
            check(
                [x],
                lambda a, kind=kind, ceil=ceil, count=count: topi.nn.pool2d(
                    a, (2, 3), (2, 1), (1, 1), (1, 0, 1, 1), kind, ceil, "NCHW", count
                ),
                lambda a, pool=pool, ceil=ceil, count=count: pool(
                    a, (2, 3), (2, 1), padding=(1, 0, 1, 1), ceil_mode=ceil, count_include_pad=count
                ),
                refused,
            )
    check([x], lambda a: topi.nn.global_pool(a, "avg"), lambda a: R.nn.adaptive_avg_pool2d(a, (1, 1)), refused)


@pytest.mark.parametrize("dtype", DTYPES)
def test_products(dtype):
    """Transposed matrices are read at swapped indices instead of being copied."""
    for n in (4, N):
        a, b = var((n, 5), dtype), var((5, 6), dtype, "y")
        check([a, b], lambda x, y: renamed(topi.nn.matmul(x, y), "matmul"), R.matmul, refused=dtype == "bool")


def renamed(tensor, name):
    tensor.name = name
    return tensor


def run(function, *arrays):
    params = [var(array.shape, str(array.dtype), f"x{at}") for at, array in enumerate(arrays)]
    return passhost.exec(module_of(params, lambda bb: bb.emit_te(function, *params)), *arrays).numpy()


FLOATS = np.array([np.nan, -np.inf, np.inf, -0.0, 0.0, 1e-30, -2.5, 2.5, 3.4e38, -3.4e38], "float32")


def extremes(dtype):
    if dtype.startswith("float"):
        with np.errstate(over="ignore"):
            return FLOATS.astype(dtype)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    return np.array([low, low + 1, high, high - 1, 0, 1, 2, 3, 7, 100], dtype)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "int32", "uint8"])
def test_values_at_extremes(dtype):
    x = extremes(dtype)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(run(topi.abs, x), np.abs(x))
        np.testing.assert_array_equal(run(topi.sign, x[1:]), np.sign(x[1:]))
        np.testing.assert_array_equal(run(topi.negative, x), np.negative(x))
        # A maximum or minimum with NaN is the second operand, as in TVM.
        x = x[~np.isnan(x)]
        np.testing.assert_array_equal(run(topi.nn.relu, x), np.maximum(x, 0))
        np.testing.assert_array_equal(run(lambda a: topi.clip(a, 2, 5), x), np.clip(x, np.array(2, dtype), 5))
        a, b = np.meshgrid(x, x)
        for name in ("add", "subtract", "multiply", "maximum", "minimum", "less", "greater_equal"):
            np.testing.assert_array_equal(run(getattr(topi, name), a, b), getattr(np, name)(a, b), name)
        nonzero = b != 0
        for name in ("floor_divide", "floor_mod"):
            got, expected = (
                run(getattr(topi, name), a[nonzero], b[nonzero]),
                getattr(np, name.replace("floor_mod", "mod")),
            )
            if not dtype.startswith("float"):
                np.testing.assert_array_equal(got, expected(a[nonzero], b[nonzero]), name)
        if not dtype.startswith("float"):
            exponents = np.abs(b) % 9
            np.testing.assert_array_equal(run(topi.power, a, exponents), np.power(a, exponents))
            shifts = np.abs(b) % 8
            np.testing.assert_array_equal(run(topi.left_shift, a, shifts), np.left_shift(a, shifts))
            np.testing.assert_array_equal(run(topi.right_shift, a, shifts), np.right_shift(a, shifts))


def test_clip_bounds_beyond_the_data_type():
    x = extremes("int8")
    np.testing.assert_array_equal(run(lambda a: topi.clip(a, -1000, 1000), x), x)


def test_softmax_and_pools_of_infinities():
    x = np.array([[-np.inf, 0.0, -np.inf], [-np.inf, -3e38, -3e38]], "float32")
    np.testing.assert_array_equal(run(topi.nn.softmax, x), np.array([[0, 1, 0], [0, 0.5, 0.5]], "float32"))
    image = np.full((1, 1, 2, 2), -np.inf, "float32")
    assert run(lambda a: topi.nn.pool2d(a, 2, 1, 1, 0, "max"), image).tolist() == [[[[-np.inf]]]]
    assert run(lambda a: topi.nn.global_pool(a, "max"), image).tolist() == [[[[-np.inf]]]]


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("float16", "float32", "float32"),
        ("int8", "int32", "int32"),
        ("int32", "float16", "float16"),
        ("uint8", "int8", "uint8"),
        ("bool", "int8", "int8"),
    ],
)
def test_operands_are_converted_to_the_wider_type(a, b, expected):
    x, y = np.array([0, 1, 1]).astype(a), np.array([1, 2, 3]).astype(b)
    made = run(topi.add, x, y)
    assert made.dtype == expected
    assert made.tolist() == [1, 3, 4]


def test_conditions_of_numbers():
    x, y = np.ones(3, "float32"), np.zeros(3, "float32")
    assert run(topi.where, np.array([2, 0, -128], "int8"), x, y).tolist() == [1, 0, 1]


def test_transposed_products():
    a, b = np.arange(6, dtype="float32").reshape(2, 3), np.arange(12, dtype="float32").reshape(3, 4)
    for transpose_a in (False, True):
        for transpose_b in (False, True):
            x, y = (a.T.copy() if transpose_a else a), (b.T.copy() if transpose_b else b)
            product = run(lambda x, y, t=(transpose_a, transpose_b): topi.nn.matmul(x, y, None, None, *t), x, y)
            np.testing.assert_array_equal(product, a @ b)


def test_padding_and_upsampling():
    for n in (3, N):
        x = var((2, n), "float32")
        check([x], lambda a: topi.nn.pad(a, [1, 0], [0, 2], 1.5), lambda a: R.nn.pad(a, [1, 0, 0, 2], pad_value=1.5))
    numbers, width = np.ones(2, "int32"), tirx.IntImm("int64", 1)
    for value in (7, tirx.const(7, "int32")):
        assert run(lambda a, value=value: topi.nn.pad(a, [width], [0], value), numbers).tolist() == [7, 1, 1]
    y = var((N,), "float32")
    module = module_of([y], lambda bb: bb.emit_te(lambda a: topi.nn.pad(a, [N], [0], 2.0), y))
    assert passhost.exec(module, np.zeros(2, "float32")).numpy().tolist() == [2, 2, 0, 0]
    image = np.arange(24, dtype="float32").reshape(1, 2, 3, 4)
    x = var(image.shape, "float32")
    resized = module_of(
        [x],
        lambda bb: bb.emit(
            R.image.resize2d(
                x,
                (6, 12),
                [0.0] * 4,
                layout="NCHW",
                method="nearest_neighbor",
                coordinate_transformation_mode="asymmetric",
                rounding_method="floor",
            )
        ),
    )
    np.testing.assert_array_equal(
        run(lambda a: topi.nn.upsampling(a, 2, 3), image), passhost.exec(resized, image).numpy()
    )


def test_a_symbolic_diagonal():
    matrix = np.ones((4, 4), "float32")
    for upper, expected in ((True, np.triu(matrix, 1)), (False, np.tril(matrix, 1))):
        x = var((N, N), "float32")
        module = module_of([x], lambda bb, x=x, upper=upper: bb.emit_te(lambda a: topi.trilu(a, N - 3, upper), x))
        np.testing.assert_array_equal(passhost.exec(module, matrix).numpy(), expected)
        check([x], lambda a, upper=upper: topi.trilu(a, N - 3, upper), lambda a, u=upper: (R.tril, R.triu)[u](a, N - 3))


def test_operators_are_combined_into_one_function():
    x = var((N, 4), "float32")
    made = by_topi([x], lambda a: topi.nn.relu(topi.add(topi.nn.softmax(topi.exp(a)), 1) * a))
    blocks = [line.split('"')[1] for line in made.script().splitlines() if " T.sblock(" in line and "#" not in line]
    softmax = ["T_softmax_maxelem", "T_softmax_exp", "T_softmax_expsum", "T_softmax_norm"]
    assert blocks == ["compute", *softmax, "T_add", "T_multiply", "compute_1"]


def test_numbers_without_tensors():
    assert int(topi.add(2, 3)) == 5
    assert float(topi.multiply(tirx.const(2.0, "float32"), 3)) == 6.0


def test_reductions_and_pairs_of_a_legalization_stay_tensors():
    made = by_topi([var((N,), "int32"), var((N,), "int32", "y")], lambda a, b: topi.add(topi.power(a, b), 1))
    assert made.script().count("T.init()") == 1


def test_many_tensors_are_concatenated():
    parts = [np.full(1, at, "float32") for at in range(290)]
    np.testing.assert_array_equal(run(lambda *a: topi.concatenate(a, 0), *parts), np.concatenate(parts))


def test_what_is_not_a_tensor_expression():
    from passhost.topi._host import legalized

    with pytest.raises(ValueError, match="is not a tensor expression"):
        run(lambda x: legalized("cumsum", x, axis=0)[0], np.ones(3, "float32"))
