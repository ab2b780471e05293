"""Infers the types of operator calls with TVM, and writes them as test data.

Each case is a line: parameters | call | type, or `error` if TVM rejects the call. The test
`plugins/relax-ops/tests/tvm.rs` compares passhost's inference rules with the cases. Run the script without arguments;
it always writes the same cases.
"""

import itertools
import pathlib
import random
import re

from tvm import relax, tirx
from tvm.relax import op as R

OUT = pathlib.Path(__file__).resolve().parents[2] / "plugins" / "relax-ops" / "tests" / "data"
N, M = tirx.Var("n", "int64"), tirx.Var("m", "int64")
CASES = {}


def tensor(shape=None, dtype="float32", ndim=-1):
    return relax.TensorType(shape, dtype) if shape is not None else relax.TensorType(None, dtype, ndim=ndim)


def script(thing):
    text = " ".join(line.strip() for line in thing.script(show_meta=False).splitlines() if not line.startswith("#"))
    # A tuple type by itself is printed with TIR's names.
    return re.sub(r"T\.int64\((-?\d+)\)", r"\1", text).replace("T.Tuple(", "R.Tuple(")


def without_names(ty):
    """Replaces `R.Tensor(x1, ...)`, TVM's form for a shape given by a variable, by the shape in the variable's type."""
    if isinstance(ty, relax.TensorType) and isinstance(ty.shape, relax.Var):
        shape = ty.shape.ty
        return relax.TensorType(shape.values, ty.dtype) if shape.values is not None else tensor(None, ty.dtype, shape.ndim)
    return ty


def in_function(call, variables):
    """Returns the type of a call in a function with these parameters, in which TVM assumes that dimensions are not
    negative."""
    builder = relax.BlockBuilder()
    with builder.function("main", variables):
        ty = builder.normalize(call).ty
        builder.emit_func_output(relax.Tuple([]))
    return ty


def case(family, make, *types):
    """Adds a case: `make` takes one variable for each type and returns a call."""
    variables = [relax.Var(f"x{i}", ty) for i, ty in enumerate(types)]
    try:
        call = make(*variables)
    except Exception:  # rejected before a call exists, so there is nothing to compare
        return
    text = script(call)
    if " = " in text.split("(")[0]:
        return
    params = ", ".join(f"x{i}: {script(ty)}" for i, ty in enumerate(types))
    try:
        result = script(without_names(in_function(call, variables)))
    except Exception:
        result = "error"
    CASES.setdefault(family, {})[f"{params} | {text} | {result}"] = None


def vague(shape, dtype="float32"):
    """Yields types of the same tensor, each with less information than the previous type."""
    yield tensor(shape, dtype)
    yield tensor(None, dtype, len(shape))
    yield tensor(None, dtype)
    yield tensor(shape, "")
    yield tensor(None, "")


SHAPES = [(), (1,), (4,), (3, 4), (1, 4), (N, 4), (4, N), (M, 1), (2, 3, 4), (2, 1, 4), (N, 3, 1), (N + 1, M * 2), (1, 1)]
PLAIN = [(2, 3, 4), (4,), (), (N, 4), (1, 1, 5), (1, N)]


def elementwise():
    binary = "add subtract multiply divide floor_divide power mod floor_mod maximum minimum atan2 log_add_exp".split()
    binary += "bitwise_and bitwise_or bitwise_xor left_shift right_shift logical_and logical_or logical_xor".split()
    binary += "equal not_equal less less_equal greater greater_equal outer".split()
    unary = "abs acos acosh asin asinh atan atanh ceil cos cosh erf exp floor log negative round rsqrt sigmoid sign sin".split()
    unary += "sinh sqrt square tan tanh trunc isfinite isinf isnan bitwise_not logical_not".split()
    for a, b in itertools.product(SHAPES, SHAPES):
        case("elementwise", R.add, tensor(a), tensor(b))
    for name in binary:
        f = getattr(R, name)
        for a, b in [((2, 3), (3,)), ((N, 1), (4,)), ((2, 3), (2,)), ((4,), (5,))]:
            for dtype in ["float32", "int64", "bool"]:
                case("elementwise", f, tensor(a, dtype), tensor(b, dtype))
        case("elementwise", f, tensor((2, 3)), tensor((2, 3), "float16"))
        for a, b in itertools.product(vague((2, 3)), vague((3,))):
            case("elementwise", f, a, b) if name in ("add", "less", "outer", "logical_and") else None
    for scalar, dtype in itertools.product([tensor((2, 3)), tensor((2, 3), "int64"), tensor(None, "float32")], ["float32", "int64"]):
        case("elementwise", lambda x, y: R.add(x, y), scalar, relax.PrimType(dtype) if hasattr(relax, "PrimType") else tensor((), dtype))
    for name in unary:
        for dtype in ["float32", "float16", "int32", "bool", "uint8", "bfloat16", ""]:
            case("elementwise", getattr(R, name), tensor((2, N), dtype))
        case("elementwise", getattr(R, name), tensor(None, "float32", 2))
        case("elementwise", getattr(R, name), tensor(None, "float32"))
        case("elementwise", getattr(R, name), relax.ShapeType([2, 3]))
    for name in ["relu", "gelu", "gelu_tanh", "silu", "selu", "leakyrelu", "softplus"]:
        for dtype in ["float32", "int32", "bool", ""]:
            case("elementwise", getattr(R.nn, name), tensor((2, 3), dtype))
        case("elementwise", getattr(R.nn, name), tensor(None, "float32"))
    for a, axis in itertools.product([(2, 3, 4), (N, 4)], [0, 1, -1, 2, 5]):
        case("elementwise", lambda x, y: R.nn.prelu(x, y, axis=axis), tensor(a), tensor((4,)))
        case("elementwise", lambda x, y: R.nn.prelu(x, y, axis=axis), tensor(a), tensor((3,)))
    for dtype in ["float16", "int8", "bool"]:
        for t in vague((2, N)):
            case("elementwise", lambda x: R.astype(x, dtype), t)
    for c, a, b in itertools.product([(2, 3), (1, 3), (N, 3), (4,)], [(2, 3), (3,), (N, 1)], [(2, 3), (1,), (N, 3)]):
        case("elementwise", R.where, tensor(c, "bool"), tensor(a), tensor(b))
    for c, a, b in itertools.product(list(vague((2, 3), "bool"))[:3], vague((2, 3)), list(vague((3,)))[:3]):
        case("elementwise", R.where, c, a, b)
    case("elementwise", R.where, tensor((2,), "float32"), tensor((2,)), tensor((2,)))
    for a, b, c in itertools.product(vague((2, 3)), vague((2, 3)), [tensor((2, 3)), tensor((2, 4)), tensor((N, 3)), tensor((3,))]):
        case("elementwise", R.ewise_fma, a, b, c)
    case("elementwise", lambda x: R.clip(x, 0, 6), tensor((2, N)))
    for t in vague((3, 4, 5)):
        for k in [0, 1, -1]:
            case("elementwise", lambda x: R.tril(x, k), t)
    case("elementwise", R.triu, tensor((4,)))


def reduction():
    for name in "sum mean prod max min std variance median".split():
        for shape in PLAIN if name in ("sum", "median") else PLAIN[:1]:
            for axis, keep in itertools.product([None, 0, -1, [0, 1], [1, -1], [-3], [], 3, [0, 0]], [False, True]):
                case("reduction", lambda x: getattr(R, name)(x, axis, keep), tensor(shape))
        for t, axis, keep in itertools.product(vague((2, 3)), [None, 1, [0, 1]], [False, True]):
            case("reduction", lambda x: getattr(R, name)(x, axis, keep), t)
    for name in ["argmax", "argmin"]:
        for shape, axis, keep in itertools.product(PLAIN, [None, 0, -1, 2, -4], [False, True]):
            case("reduction", lambda x: getattr(R, name)(x, axis, keep), tensor(shape))
        for t, axis, keep in itertools.product(vague((2, 3)), [None, 1], [False, True]):
            case("reduction", lambda x: getattr(R, name)(x, axis, keep), t)
    for name in ["cumsum", "cumprod"]:
        for shape, axis, dtype in itertools.product(PLAIN, [None, 0, -1, 2], [None, "float64"]):
            case("reduction", lambda x: getattr(R, name)(x, axis, dtype), tensor(shape))
        for t, axis in itertools.product(vague((2, 3)), [None, 1]):
            case("reduction", lambda x: getattr(R, name)(x, axis), t)
    for t, axis in itertools.product([*vague((2, 3)), tensor((N, 4))], [0, -1, 2]):
        case("reduction", lambda x: R.sort(x, axis), t)
        case("reduction", lambda x: R.argsort(x, axis), t)
        for ret in ["both", "values", "indices"]:
            case("reduction", lambda x: R.topk(x, k=2, axis=axis, ret_type=ret), t)
    case("reduction", lambda x: R.topk(x, k=5, axis=1), tensor((2, 3)))


def reshaping():
    targets = [[6, 4], [24], [2, 12, 1], [-1, 4], [0, -1], [5, 5], [N, 4], [4, N], [N * 4], []]
    for shape, to in itertools.product(PLAIN + [(2, 3, N)], targets):
        case("reshaping", lambda x: R.reshape(x, to), tensor(shape))
        case("reshaping", lambda x: R.broadcast_to(x, to), tensor(shape))
        case("reshaping", lambda x: R.collapse_sum_to(x, to), tensor(shape))
    for t, s in itertools.product(vague((2, 12)), [relax.ShapeType([6, 4]), relax.ShapeType(ndim=2), relax.ShapeType(), relax.ShapeType([5, 5])]):
        case("reshaping", lambda x, s: R.reshape(x, s), t, s)
        case("reshaping", lambda x, s: R.broadcast_to(x, s), t, s)
        case("reshaping", lambda x, s: R.collapse_sum_to(x, s), t, s)
    for shape, to in itertools.product([(2, 3), (3,), (1, 3), (N, 3), (1,)], [[2, 3], [4, 2, 3], [N, 3], [3], [2, N], [2, 4]]):
        case("reshaping", lambda x: R.broadcast_to(x, to), tensor(shape))
        case("reshaping", lambda x: R.collapse_sum_to(x, shape), tensor(to))
        case("reshaping", R.collapse_sum_like, tensor(to), tensor(shape))
    for t, axis in itertools.product([*vague((2, N)), tensor((2, 3)), tensor(())], [0, 1, -1, 2, -3, [0, 1], [-1, 0], [0, 0], [3], [1, 3]]):
        case("reshaping", lambda x: R.expand_dims(x, axis), t)
    squeezed = [(1, 3, 1), (1, N, 1), (2, 3), (1, 1), (N, M), (), (1,)]
    for shape, axis in itertools.product(squeezed, [None, 0, -1, [0, 2], [1], [0, 0], 3]):
        case("reshaping", lambda x: R.squeeze(x, axis), tensor(shape))
    for t, axis in itertools.product(vague((1, 3)), [None, 0, [0]]):
        case("reshaping", lambda x: R.squeeze(x, axis), t)
    for shape, axes in itertools.product([(2, 3, 4), (N, 4), (5,), ()], [None, [0], [1, 0], [2, 0, 1], [0, -1, 1], [0, 0, 1], [-1, -2], [0, 3, 1]]):
        case("reshaping", lambda x: R.permute_dims(x, axes), tensor(shape))
    for t, axes in itertools.product(vague((2, 3)), [None, [1, 0], [0, 1, 2]]):
        case("reshaping", lambda x: R.permute_dims(x, axes), t)
    for t in [*vague((2, 3, 4)), tensor((N, M, 2)), tensor(()), tensor((5,))]:
        case("reshaping", R.flatten, t)
        case("reshaping", R.nn.batch_flatten, t)
        for axis in [0, -1, 1, 7]:
            case("reshaping", lambda x: R.flip(x, axis), t)
        for axis in [None, 0, -1, 5]:
            case("reshaping", lambda x: R.repeat(x, 3, axis), t)
        for times in [2, [2, 3], [1, 2, 3, 4], []]:
            case("reshaping", lambda x: R.tile(x, times), t)
    case("reshaping", lambda x: R.nn.pixel_shuffle(x, 2), tensor((1, 8, 3, N)))
    for width in [[0, 0, 1, 1], [1, 2, 3, 4], [1], [0, 0]]:
        case("reshaping", lambda x: R.nn.pad(x, width), tensor((2, N)))
        case("reshaping", lambda x: R.nn.pad(x, width), tensor(None, "float32", 2))


def joining():
    pick = [(2, 3), (2, 4), (N, 3), (2, M), (3,), (1, 3), (2, 3, 1)]
    for a, b in itertools.product(pick, pick):
        for axis in [0, 1, -1]:
            case("joining", lambda x, y: R.concat((x, y), axis), tensor(a), tensor(b))
            case("joining", lambda x, y: R.stack((x, y), axis), tensor(a), tensor(b))
    for a, b in itertools.product(vague((2, 3)), vague((2, 3))):
        case("joining", lambda x, y: R.concat((x, y), 1), a, b)
        case("joining", lambda x, y: R.stack((x, y), 1), a, b)
    case("joining", lambda x: R.concat((x,), None), tensor((4,)))
    case("joining", lambda x: R.concat((x, x, x), None), tensor((N,)))
    case("joining", lambda x: R.concat((x,), None), tensor((4, 4)))
    case("joining", lambda x: R.concat((x, x), 5), tensor((4, 4)))
    case("joining", lambda x: R.stack((x, x), 5), tensor((4, 4)))
    case("joining", lambda x: R.stack((x, x), 2), tensor((4, 4)))
    case("joining", lambda x: R.stack((x, x), -3), tensor((4, 4)))
    case("joining", lambda x, y: R.concat((x, y), 0), tensor((4, 4)), tensor((4, 4), "float16"))
    case("joining", lambda x: R.concat(x, 0), relax.TupleType([tensor((4, 4)), tensor((2, 4))]))
    case("joining", lambda x: R.concat(x, 0), tensor((4, 4)))
    for t, parts, axis in itertools.product(
        [*vague((6, 8)), tensor((N, 8)), tensor((7,))], [2, 3, 1, 9, [2], [2, 5], [0, 4, 100], [], [5, 3], [-2]], [0, 1, -1, 2]
    ):
        case("joining", lambda x: R.split(x, parts, axis), t)
    for t in [*vague((2, 3)), tensor((N, 3))]:
        case("joining", lambda x: R.meshgrid((x, x)), t)
    case("joining", lambda x, y: R.meshgrid((x, y)), tensor((3,)), tensor((N,)))


def indexing():
    for t, i, axis in itertools.product(
        [*vague((5, 6, 7)), tensor((N,)), tensor(())], [tensor((2, M), "int64"), tensor((), "int32"), tensor(None, "int64", 1), tensor(None, "int32"), tensor((2,), "float32")], [None, 0, 1, -1, 3]
    ):
        case("indexing", lambda x, i: R.take(x, i, axis), t, i)
    case("indexing", lambda x, i: R.take(x, i, 0), tensor((5, 6)), relax.PrimType("int64") if hasattr(relax, "PrimType") else tensor((), "int64"))
    for t in [*vague((8, 9)), tensor((N, 9))]:
        for axes, begin, end, strides in [
            ([0], [1], [5], None), ([1], [0], [9], [2]), ([0, 1], [1, 2], [4, 9], [1, 3]), ([-1], [-4], [-1], None), ([0], [5], [1], [-1]),
            ([0], [0], [100], None), ([0], [7], [3], None), ([0], [N], [N + 2], None), ([2], [0], [1], None), ([0, 0], [1, 1], [2, 2], None), ([0], [1, 2], [3], None), ([0], [0], [4], [0]),
        ]:
            for bound in [False, True]:
                case("indexing", lambda x: R.strided_slice(x, axes, begin, end, strides, assume_inbound=bound), t)
    for data, index, axis in itertools.product(vague((4, 5)), vague((4, 2), "int64"), [0, 1, -1, 2]):
        case("indexing", lambda x, i: R.gather_elements(x, i, axis), data, index)
    for data, index, batch in itertools.product([tensor((4, 5, 6)), tensor((N, 5, 6)), tensor(None, "float32", 3)], [tensor((3, 2), "int64"), tensor((4, 1), "int64"), tensor((4, 2, 3), "int64"), tensor((4, 7), "int64")], [0, 1]):
        case("indexing", lambda x, i: R.gather_nd(x, i, batch), data, index)
    for on in [tensor((), "float32"), tensor((), "int64")]:
        pass
    case("indexing", lambda x, i, u: R.scatter_elements(x, i, u, 1), tensor((4, 5)), tensor((2, 2), "int64"), tensor((2, 2)))
    case("indexing", lambda x, i, u: R.scatter_elements(x, i, u, 1), tensor((4, 5)), tensor((2, 3), "int64"), tensor((2, 2)))
    case("indexing", lambda x, i, u: R.scatter_elements(x, i, u, 2), tensor((4, 5)), tensor((2, 2), "int64"), tensor((2, 2)))
    case("indexing", lambda x, i, u: R.scatter_nd(x, i, u), tensor((8,)), tensor((4, 1), "int64"), tensor((4,)))
    case("indexing", lambda x, i, u: R.scatter_nd(x, i, u), tensor((8,)), tensor((4, 2), "int64"), tensor((4,)))


def creation():
    for shape, dtype in itertools.product([[2, 3], [N, 4], []], ["float32", "int64", "bool"]):
        case("creation", lambda: R.zeros(shape, dtype))
        case("creation", lambda: R.ones(shape, dtype))
        case("creation", lambda v: R.full(shape, v, dtype), tensor((), "float32"))
    case("creation", lambda v: R.full([2, 3], v), tensor((), "float16"))
    case("creation", lambda v: R.full([2, 3], v), tensor((3,), "float16"))
    case("creation", lambda v: R.full([2, 3], v), tensor(None, ""))
    for s in [relax.ShapeType([2, N]), relax.ShapeType(ndim=2), relax.ShapeType()]:
        case("creation", lambda s: R.zeros(s, "float32"), s)
        case("creation", lambda s, v: R.full(s, v), s, tensor((), "float32"))
        case("creation", R.shape_to_tensor, s)
    for t, dtype in itertools.product(vague((2, N)), [None, "float16"]):
        case("creation", lambda x: R.zeros_like(x, dtype), t)
        case("creation", lambda x: R.ones_like(x, dtype), t)
        case("creation", lambda x, v: R.full_like(x, v, dtype), t, tensor((), "int64"))
    for args in [(5,), (1, 8), (1, 8, 3), (0, N), (N, M, 2), (5, 1)]:
        for dtype in ["int64", "float32"]:
            case("creation", lambda: R.arange(*args, dtype=dtype))
    case("creation", lambda: R.eye(3, 4, 0, "float32"))
    case("creation", lambda: R.eye(N))
    for t in [*vague((2, N)), tensor((3,)), relax.ShapeType([2])]:
        case("creation", R.shape_of, t)
        case("creation", R.eye_like, t)
    for t in [tensor((3,), "int64"), tensor((N,), "int64"), tensor(None, "int64", 1), tensor(None, "int64"), tensor((2, 3), "int64"), tensor((3,), "float32")]:
        case("creation", R.tensor_to_shape, t)
    for t in [*vague((2, N)), tensor(())]:
        case("creation", R.nonzero, t)
        case("creation", R.size, t)


def products():
    shapes = [(4,), (5,), (3, 4), (4, 5), (N, 4), (4, N), (2, 3, 4), (2, 4, 5), (1, 4, 5), (N, 4, 5), (6, 1, 3, 4), (M, 2, 4, 5), ()]
    for a, b in itertools.product(shapes, shapes):
        case("products", R.matmul, tensor(a), tensor(b))
    for a, b in itertools.product(vague((3, 4)), vague((4, 5))):
        case("products", R.matmul, a, b)
        case("products", lambda x, y: R.matmul(x, y, out_dtype="float64"), a, b)
    case("products", R.matmul, tensor(None, "float32", 1), tensor(None, "float32", 3))
    case("products", R.matmul, tensor((3, 4)), tensor((4, 5), "float16"))
    case("products", lambda x, y: R.matmul(x, y, out_dtype="float32"), tensor((3, 4), "int8"), tensor((4, 5), "float16"))
    for a, b, c in itertools.product([(2, 3), (N, 4)], [(3, 4), (4, 5)], ["ij,jk->ik", "ij,jk", "ij,kl->il"]):
        case("products", lambda x, y: R.einsum((x, y), c), tensor(a), tensor(b))


def windows(rng):
    layouts = {1: ["NCW", "NWC"], 2: ["NCHW", "NHWC", "CHWN"], 3: ["NCDHW", "NDHWC"]}
    kernels = {1: ["OIW", "WIO"], 2: ["OIHW", "HWIO", "OHWI"], 3: ["OIDHW", "DHWIO"]}
    place = lambda layout, sizes: tuple(sizes[axis] for axis in layout)

    def spatial(n):
        return {axis: rng.choice([7, 8, 15, 32, 1, N, M]) for axis in "DHW"[3 - n :]}

    def padding(n):
        return rng.choice([0, 1, [1] * n, [0, 2, 1][:n], [1, 0, 2, 1, 3, 0][: 2 * n], [1] * (n + 3)])

    for n, rounds in [(1, 30), (2, 150), (3, 30)]:
        conv = {1: R.nn.conv1d, 2: R.nn.conv2d, 3: R.nn.conv3d}[n]
        back = {1: R.nn.conv1d_transpose, 2: R.nn.conv2d_transpose, 3: R.nn.conv3d_transpose}[n]
        for _ in range(rounds):
            layout, kernel = rng.choice(layouts[n]), rng.choice(kernels[n])
            groups, per_group = rng.choice([1, 1, 2, 4]), rng.choice([1, 3, 4])
            window = {axis: rng.choice([1, 3, 5]) for axis in "DHW"[3 - n :]}
            channels = groups * per_group + rng.choice([0, 0, 0, 0, 1])
            data = place(layout, {"N": rng.choice([1, 2, N]), "C": rng.choice([channels] * 6 + [M]), **spatial(n)})
            options = dict(
                strides=rng.choice([1, 2, [2] * n, [1, 2, 3][:n]]), padding=padding(n), dilation=rng.choice([1, 1, 2, [1, 2, 1][:n]]),
                groups=groups, data_layout=layout, out_layout=rng.choice([None, None, rng.choice(layouts[n])]), out_dtype=rng.choice([None, None, "float16"]),
            )
            weight = place(kernel, {"O": groups * rng.choice([2, 4]) + rng.choice([0, 0, 0, 0, 1]), "I": per_group, **window})
            case("windows", lambda x, w: conv(x, w, kernel_layout=kernel, **options), tensor(data), tensor(weight))
            swapped = kernel.translate(str.maketrans("OI", "IO"))
            weight = place(swapped, {"I": channels, "O": rng.choice([2, 4]), **window})
            more = dict(options, output_padding=rng.choice([0, 0, 1]))
            case("windows", lambda x, w: back(x, w, kernel_layout=swapped, **more), tensor(data), tensor(weight))
        shape = (1, 4, 8, 9, 10)[: 2 + n]
        for a, b in itertools.product(vague(shape), vague((6, 4, 3, 3, 3)[: 2 + n])):
            case("windows", conv, a, b)
            case("windows", back, a, tensor((4, 6, 3, 3, 3)[: 2 + n]))
        case("windows", conv, tensor((1, 4)), tensor((1, 4)))
        case("windows", conv, tensor(shape), tensor((6, 4, 3, 3, 3)[: 2 + n], "float16"))
        for pool in [getattr(R.nn, f"{kind}_pool{n}d") for kind in ("max", "avg")]:
            for _ in range(rounds // 2):
                layout = rng.choice(layouts[n])
                data = place(layout, {"N": rng.choice([1, N]), "C": 3, **spatial(n)})
                options = dict(
                    pool_size=rng.choice([1, 2, [2] * n, [3, 2, 1][:n], [2] * (n + 1)]), strides=rng.choice([1, 2, [3, 2, 1][:n]]), padding=padding(n),
                    dilation=rng.choice([1, 1, 2]), ceil_mode=rng.choice([False, True]), layout=layout, out_layout=rng.choice([None, layout, rng.choice(layouts[n])]),
                )
                case("windows", lambda x: pool(x, **options), tensor(data))
            for t in vague(shape):
                case("windows", lambda x: pool(x, pool_size=2), t)
            case("windows", pool, tensor((1, 4)))
        adaptive = getattr(R.nn, f"adaptive_avg_pool{n}d")
        for size, t in itertools.product([None, 1, [2, 3, 4][:n]], vague(shape)):
            case("windows", lambda x: adaptive(x, size), t)
    packed = dict(data_layout="NCHW4c", kernel_layout="OIHW4o4i", out_layout="NCHW4c")
    case("windows", lambda x, w: R.nn.conv2d(x, w, **packed), tensor((1, 2, 8, 8, 4)), tensor((4, 2, 3, 3, 4, 4)))
    case("windows", lambda x, w: R.nn.conv2d(x, w, data_layout="NCHW4c", kernel_layout="OIHW", out_layout="NHWC"), tensor((1, 2, 8, N, 4)), tensor((4, 8, 3, 3)))
    case("windows", lambda x: R.nn.max_pool2d(x, 2, layout="NCHW16c"), tensor((1, 2, 8, N, 16)))
    case("windows", lambda x: R.nn.max_pool2d(x, 2, layout="NCHW16c", out_layout="NCHW"), tensor((1, 2, 8, N, 16)))
    case("windows", lambda x: R.nn.avg_pool2d(x, 2, layout="NCHW", out_layout="NCHW4c"), tensor((1, 8, 8, N)))
    case("windows", lambda x: R.nn.avg_pool2d(x, 2, layout="NCXY"), tensor((1, 8, 8, N)))
    case("windows", lambda x: R.image.resize2d(x, (16, 20)), tensor((1, 3, 8, N)))
    case("windows", lambda x: R.image.resize2d(x, (16, 20), layout="NHWC", out_dtype="float16"), tensor((1, 8, N, 3)))


def norms():
    vector = [tensor((3,)), tensor((4,)), tensor((N,)), tensor(None, "float32", 1), tensor(None, "float32"), tensor((3,), "float16"), tensor((1, 3))]
    for t, v, axis in itertools.product([tensor((2, 3, 5, 5)), tensor((2, N, 5)), *list(vague((2, 3, 4)))[1:]], vector, [1, -1]):
        case("norms", lambda x, a: R.nn.batch_norm(x, a, a, a, a, axis), t, v)
        case("norms", lambda x, a: R.nn.layer_norm(x, a, a, axis), t, v)
        case("norms", lambda x, a: R.nn.rms_norm(x, a, axis), t, v)
    case("norms", lambda x, a, b: R.nn.layer_norm(x, a, b, [-2, -1]), tensor((2, 3, 4)), tensor((3, 4)), tensor((3, 4)))
    case("norms", lambda x, a, b: R.nn.layer_norm(x, a, b, [-2, -1]), tensor((2, 3, 4)), tensor((3, 4)), tensor((4,)))
    case("norms", lambda x, a: R.nn.batch_norm(x, a, a, a, a, 1), tensor((2, 3), "int32"), tensor((3,), "int32"))
    for t, groups in itertools.product([tensor((2, 4, 5, 5)), tensor((2, N, 5, 5)), tensor((2, 6, 5, 5))], [2, 3, 4]):
        case("norms", lambda x, a: R.nn.group_norm(x, a, a, groups, 1, [2, 3]), t, tensor((4,)))
    case("norms", lambda x, a: R.nn.instance_norm(x, a, a, 1, [2, 3]), tensor((2, 4, 5, 5)), tensor((4,)))
    for t in [*vague((2, 3)), tensor((2, 3), "int32")]:
        case("norms", lambda x: R.nn.dropout(x, 0.3), t)
        for axis in [-1, 0, 2]:
            case("norms", lambda x: R.nn.softmax(x, axis), t)
            case("norms", lambda x: R.nn.log_softmax(x, axis), t)
    for a, b in itertools.product([tensor((2, 3)), tensor((N, 3)), tensor((3,)), tensor(None, "float32", 2)], repeat=2):
        case("norms", R.nn.cross_entropy_with_logits, a, b)
    for reduction in ["mean", "sum", "none"]:
        for p, t in [((2, 3), (2,)), ((3,), ()), ((2, 3, N), (2, N)), ((2, 3), (3,)), ((N, 3), (2,))]:
            case("norms", lambda x, y: R.nn.nll_loss(x, y, reduction=reduction), tensor(p), tensor(t, "int64"))
            case("norms", lambda x, y, w: R.nn.nll_loss(x, y, w, reduction=reduction), tensor(p), tensor(t, "int64"), tensor((3,)))
    for q, k, v in [((2, 8, 4, 16), (2, 6, 4, 16), (2, 6, 4, 32)), ((N, 8, 4, 16), (N, M, 4, 16), (N, M, 4, 16)), ((2, 8, 4, 16), (2, 6, 4, 8), (2, 6, 4, 8)), ((8, 4, 16), (6, 4, 16), (6, 4, 16))]:
        case("norms", R.nn.attention, tensor(q, "float16"), tensor(k, "float16"), tensor(v, "float16"))
    for out in ["int8", "uint8", "float16"]:
        case("norms", lambda x, s, z: R.quantize(x, s, z, 1, out), tensor((2, 3)), tensor((3,)), tensor((3,), "int8"))
        case("norms", lambda x, s, z: R.dequantize(x, s, z, 1, out), tensor((2, 3), "int8"), tensor((3,)), tensor((3,), "int8"))


def layouts():
    maps = [lambda i: (i,), lambda i: (i % 16,), lambda i: (i // 16, i % 16), lambda i: (i % 4, i // 4), lambda i: (i * 3,)]
    maps += [lambda i: (i // 2 // 4, i // 2 % 4, i % 2), lambda i: (i // 8, i % 8 // 2, i % 2), lambda i: (i, i % 16)]
    maps += [lambda i: (i % 16, i % 3), lambda i: (i // 4, i % 8), lambda i: (i % 16 * 2,), lambda i: (i // 4 * 4 + i % 4,)]
    maps += [lambda i: (i % 4, i % 4), lambda i: (i * 2 % 8,), lambda i: (i * 2 // 8, i * 2 % 8)]
    for size, f in itertools.product([1, 3, 4, 14, 16, 17, 32, N], maps):
        case("layouts", lambda x: R.layout_transform(x, f), tensor((size,)))
    pairs = [lambda i, j: (i, j // 4, j % 4), lambda i, j: (i * 16 + j,), lambda i, j: ((i * 16 + j) // 4, (i * 16 + j) % 4)]
    pairs += [lambda i, j: (j, i), lambda i, j: (i % 16, j), lambda i, j: (i + j,), lambda i, j: (i % 4, i % 4, j)]
    pairs += [lambda i, j: (i // 4 * 4 + j,), lambda i, j: (i // 4, j % 8, i % 4), lambda i, j: (i // 4, j % 8, i % 5)]
    for shape, f in itertools.product([(3, 16), (14, 16), (14, 5), (N, 16), (N, M)], pairs):
        case("layouts", lambda x: R.layout_transform(x, f), tensor(shape))
    for f in [lambda i: (i + i,), lambda i: (i % 4 + i % 4,), lambda i: (i % 3 // 4 + i // 3,)]:
        case("layouts", lambda x: R.layout_transform(x, f), tensor((14,)))
    case("layouts", lambda x: R.layout_transform(x, pairs[0]), tensor((14,)))
    case("layouts", lambda x: R.layout_transform(x, pairs[0]), tensor(None, "float32", 2))
    case("layouts", lambda x: R.layout_transform(x, pairs[0]), tensor(None))


def more():
    for t, axis in itertools.product([*vague((2, 3)), tensor(()), tensor((N,))], [None, 0, -1, 2]):
        for flags in itertools.product([False, True], repeat=3):
            case("more", lambda x: R.unique(x, True, *flags, axis), t)
    for t, edges in itertools.product(vague((2, N)), [tensor((4,)), tensor((2, 2)), tensor(None, "float32"), tensor((M,))]):
        case("more", R.bucketize, t, edges)
        case("more", lambda x, y: R.bucketize(x, y, out_int32=True, right=True), t, edges)
    for size, dtype in itertools.product([1, 7, 0, -3, N], ["float32", "float16", "int32"]):
        case("more", lambda: R.hamming_window(size, True, 0.5, 0.25, dtype))
    parts = [tensor((2, 3), "int64"), tensor((3,), "int32"), tensor((1,), "int64"), tensor((N,), "int64"), tensor((4,), "int64")]
    parts += [tensor(None, "int64", 1), tensor(None, "int64"), tensor((3,), "float32"), tensor((3,), "")]
    for t, a, b in itertools.product([tensor((5, 6, 7)), tensor((5, N)), tensor((4,)), tensor(None, "float32", 3), tensor(None)], parts, parts):
        case("more", lambda x, i, j: R.index_tensor(x, (i, j)), t, a, b)
    for t, a in itertools.product(vague((5, 6)), parts):
        case("more", lambda x, i: R.index_tensor(x, (i,)), t, a)
    for t, src in itertools.product([*vague((8, 8)), tensor((N, 8))], [tensor((3, 8)), tensor((8, 3)), tensor((N, 8)), tensor((3, 8), "int8"), tensor((3,)), tensor(None)]):
        for start, end, step, axis in [(1, 4, 1, 0), (0, 6, 2, 0), (0, 3, 1, 1), (0, 3, 0, 0), (4, 1, 1, 0), (0, N, 1, 0), (0, 3, 1, 2), (0, 3, 1, -1)]:
            case("more", lambda x, y: R.slice_scatter(x, y, start, end, step, axis), t, src)
    views = [(None, None, None), ((12,), None, None), (None, "int32", None), (None, "float64", None), ((24,), "float16", None)]
    views += [((6,), None, 8), ((12,), None, 8), (None, None, 8), ((N,), None, None), ((3,), "float64", 0), ((3,), "float64", 48)]
    for t, (shape, dtype, offset) in itertools.product([*vague((3, 4)), tensor((N, 4))], views):
        case("more", lambda x: R.memory.view(x, shape, dtype or relax.Tuple([]), offset), t)
    case("more", lambda x, s: R.memory.view(x, s, relax.Tuple([])), tensor((3, 4)), relax.ShapeType(ndim=2))
    case("more", R.memory.ensure_zero_offset, tensor((3, 4)))
    for begin, end, step in itertools.product([0, 3, -2], [1, 3, -1, 9], [1, 2, -1]):
        case("more", lambda x: R.strided_slice(x, [0], [begin], [end], [step]), tensor((1,)))
        case("more", lambda x: R.strided_slice(x, [0], [begin], [end], [step], assume_inbound=True), tensor((5,)))


def vision():
    samples = lambda method, layout, padding, corners: lambda x, g: R.image.grid_sample(x, g, method, layout, padding, corners)
    for data, grid in itertools.product([*vague((2, 3, 4, 5)), tensor((N, 3, M, 5)), tensor((2, 3, 4))], [*vague((2, 2, 6, N)), tensor((2, 2, 6))]):
        case("vision", samples("bilinear", "NCHW", "zeros", False), data, grid)
    for data, grid in itertools.product([*vague((2, 3, 4, 5, 6)), tensor((2, 3, 4, 5))], [*vague((2, 3, 7, N, M)), tensor((2, 3, 7, 8))]):
        case("vision", samples("nearest", "NCDHW", "border", True), data, grid)
    for layout in ["NHWC", "NDHWC", "CHWN", "NCH", "nchw"]:
        case("vision", samples("bicubic", layout, "reflection", True), tensor((2, 3, 4, 5)), tensor((2, 2, 6, 7)))
    for data, rois in itertools.product([*vague((2, 3, 8, 9)), tensor((N, M, 8, N)), tensor((3, 8, 9))], [*vague((4, 5)), tensor((N, 5)), tensor((4, 4)), tensor((4, M)), tensor((5,))]):
        case("vision", lambda x, r: R.vision.roi_align(x, r, (2, 3), 0.5), data, rois)
        case("vision", lambda x, r: R.vision.roi_align(x, r, 2, 1.0, 3, True, "NHWC", "max"), data, rois)
        case("vision", lambda x, r: R.vision.roi_pool(x, r, (2, 3), 0.5), data, rois)
    for layout, mode in [("CHWN", "avg"), ("NCHW", "min")]:
        case("vision", lambda x, r: R.vision.roi_align(x, r, (2, 3), 0.5, layout=layout, mode=mode), tensor((2, 3, 8, 9)), tensor((4, 5)))
    case("vision", lambda x, r: R.vision.roi_pool(x, r, (2, 3), 0.5, "NHWC"), tensor((2, 3, 8, 9)), tensor((4, 5)))
    limits = [tensor((), "int64"), tensor(()), tensor(())]
    for boxes, scores in itertools.product([tensor((2, 6, 4)), tensor((N, M, 4), "float16"), tensor((6, 4))], [tensor((2, 3, 6)), tensor((N, 3, M), "float16"), tensor((3, 6))]):
        for kind in ("onnx", "tensorflow"):
            case("vision", lambda *args: R.vision.all_class_non_max_suppression(*args, kind), boxes, scores, *limits)
    for data in [*vague((2, 6, 7)), tensor((N, M, 6)), tensor((2, 6, N)), tensor((2, 6, 3)), tensor((2, 6))]:
        for id_index, score_index in [(0, 1), (-1, 2), (-2, 1), (0, 7), (7, 0), (0, -1)]:
            case("vision", lambda x: R.vision.get_valid_counts(x, 0.5, id_index, score_index), data)
        for counts, indices in itertools.product([*vague((2,), "int32"), tensor((N,), "int32"), tensor((2,), "int64")], [*vague((2, 6), "int32"), tensor((N, M), "int32"), tensor((2, 5), "int32"), tensor((2, 6), "int64")]):
            case("vision", R.vision.non_max_suppression, data, counts, indices)
        for options in [{"return_indices": False}, {"soft_nms_sigma": 0.5}, {"soft_nms_sigma": 0.5, "return_indices": False}, {"coord_start": 4}, {"id_index": -1}, {"score_index": 9}]:
            case("vision", lambda *args: R.vision.non_max_suppression(*args, **options), data, tensor((2,), "int32"), tensor((2, 6), "int32"))
    for classes, offsets, anchor in itertools.product([*vague((2, 3, 6)), tensor((N, 3, M)), tensor((2, 3))], [*vague((2, 24)), tensor((N, M)), tensor((2, 23)), tensor((3, 24)), tensor((2, 20))], [*vague((1, 6, 4)), tensor((1, M, 4)), tensor((2, 6, 4)), tensor((1, 5, 4)), tensor((1, 6, 5)), tensor((1, 6, 4), "float16")]):
        case("vision", R.vision.multibox_transform_loc, classes, offsets, anchor)
    indices = [*vague((3,), "int64"), tensor((2, 3), "int32"), tensor((), "int64"), tensor((3,), "float32"), tensor((N,), "uint8")]
    for data, a, values in itertools.product([*vague((4, 5)), tensor((N, M)), tensor((4,))], indices, [tensor((3,)), tensor(None, "float32"), tensor((3,), "float16")]):
        case("vision", lambda x, i, j, v: R.index_put(x, (i, j), v, accumulate=True), data, a, tensor((3,), "int64"), values)
        case("vision", lambda x, i, v: R.index_put(x, i, v), data, a, values)
    for data, lengths in itertools.product([*vague((2, 3, 4)), tensor((N, M)), tensor((2,))], [*vague((2,), "int64"), tensor((N,), "int32"), tensor((3,), "int32"), tensor((2,), "int16"), tensor((2, 1), "int64"), tensor((2,), "uint32")]):
        for axes in [(1, 0), (0, 1), (-1, -2), (2, 0), (3, 0), (1, -3)]:
            case("vision", lambda x, y: R.reverse_sequence(x, y, *axes), data, lengths)
    for data, size in itertools.product([*vague((2, 2, 3)), *vague((2, 3, 4)), tensor((N, 2, M)), tensor((2, 3))], [[4, 5], [N, 5], [4, 5, M], [4]]):
        case("vision", lambda x: R.image.affine_grid(x, size), data)
    starts, most = tensor((3,), "int32"), tensor((), "int32")
    for q, k, v in itertools.product([tensor((1, 8, 4, 16)), tensor((1, N, 4, 16)), tensor((8, 4, 16))], [tensor((1, 6, 4, 16)), tensor((1, M, 2, 16)), tensor((1, 6, 3, 16))], [tensor((1, 6, 4, 32)), tensor((1, M, 2, 8)), tensor((1, 5, 4, 8))]):
        case("vision", lambda q, k, v, s, m: R.nn.attention_var_len(q, k, v, s, m), q, k, v, starts, most)


def main():
    for build in (elementwise, reduction, reshaping, joining, indexing, creation, products, norms, layouts, more, vision):
        build()
    windows(random.Random(27))
    OUT.mkdir(parents=True, exist_ok=True)
    for family, lines in CASES.items():
        (OUT / f"{family}.txt").write_text("".join(f"{line}\n" for line in lines))
        print(f"{family}: {len(lines)} cases, {sum(line.endswith('| error') for line in lines)} of them errors")


if __name__ == "__main__":
    main()
