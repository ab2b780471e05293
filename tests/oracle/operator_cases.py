"""Calls of every operator with a legalization, for `operators.py`. Each operator has several shapes, including a shape
with a symbolic dimension and a shape with an extent of 0 or 1. `repeats` means that the result of a case is a single
repeated value; `like` creates calls with the same result, for operators that TVM cannot execute.

A row of a table contains an operator and a function that creates its cases. `case(make, *parameters)` adds a case for
the operator: `make` takes a Relax variable for each parameter and returns the call.
"""

import itertools

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.relax import op as R

N, M = tirx.Var("n", "int64"), tirx.Var("m", "int64")
# The values of symbolic dimensions at run time.
EXTENTS = {"n": 5, "m": 3}


def extent(dim):
    analyzer = tvm.sym.Analyzer()
    for var in (N, M):
        analyzer.bind(var, tirx.const(EXTENTS[var.name], "int64"))
    return dim if isinstance(dim, int) else int(analyzer.simplify(dim))


class Param:
    """A tensor, with the range of its random elements. The range of integers excludes `high`."""

    def __init__(self, shape, dtype="float32", low=-2.0, high=2.0):
        self.shape, self.dtype, self.low, self.high = tuple(shape), dtype, low, high

    def type(self):
        return relax.TensorType(self.shape, self.dtype)

    def array(self, rng):
        shape = [extent(dim) for dim in self.shape]
        if self.dtype == "bool":
            return rng.integers(0, 2, shape).astype(bool)
        if "int" in self.dtype:
            return rng.integers(int(self.low), int(self.high), shape).astype(self.dtype)
        return rng.uniform(self.low, self.high, shape).astype(self.dtype)


class Shape:
    """A parameter that is a shape."""

    def __init__(self, dims):
        self.dims = dims

    def type(self):
        return relax.ShapeType(self.dims)

    def array(self, rng):
        return np.array([extent(dim) for dim in self.dims], dtype="int64")


class Values:
    """A parameter with given values."""

    def __init__(self, values, dtype="int64"):
        self.values = np.array(values, dtype=dtype)

    def type(self):
        return relax.TensorType(self.values.shape, str(self.values.dtype))

    def array(self, rng):
        return self.values


CASES = []  # (operator, make, parameters, True if the result is one repeated value, calls that TVM executes instead)


def case(name, make, *params, repeats=False, like=None):
    CASES.append((name, make, params, repeats, like))


def t(*shape, dtype="float32", low=-2.0, high=2.0):
    return Param(shape, dtype, low, high)


def ints(*shape, high=4, low=0, dtype="int64"):
    return Param(shape, dtype, low, high)


def bits(*shape):
    return Param(shape, "bool")


SHAPES = [(2, 3, 4), (N, 4), (1, 5), (0, 3), (N, M, 1)]
RANGES = {
    "acos": (-0.9, 0.9), "asin": (-0.9, 0.9), "atanh": (-0.9, 0.9), "acosh": (1.1, 3.0), "log": (0.1, 3.0),
    "sqrt": (0.1, 3.0), "rsqrt": (0.1, 3.0),
}  # fmt: skip


def elementwise():
    unary = "abs acos acosh asin asinh atan atanh ceil cos cosh erf exp floor isfinite isinf isnan log negative round rsqrt"
    unary += " sigmoid sign sin sinh sqrt square tan tanh trunc"
    for name in unary.split():
        low, high = RANGES.get(name, (-2.0, 2.0))
        for shape in SHAPES:
            case(f"relax.{name}", getattr(R, name), Param(shape, "float32", low, high))
        case(f"relax.{name}", getattr(R, name), Param((7, 3), "float64", low, high))
    for name in "abs negative sign square bitwise_not".split():
        case(f"relax.{name}", getattr(R, name), ints(N, 4, low=-5, high=6, dtype="int32"))
    for shape in SHAPES:
        case("relax.bitwise_not", R.bitwise_not, Param(shape, "int64", -9, 9))
        case("relax.logical_not", R.logical_not, Param(shape, "bool"))
        for name in "relu gelu gelu_tanh silu selu leakyrelu softplus".split():
            case(f"relax.nn.{name}", getattr(R.nn, name), Param(shape))
        case("relax.clip", lambda x: R.clip(x, -1, 1), Param(shape))
        case("relax.astype", lambda x: R.astype(x, "int32"), Param(shape, low=-9.0, high=9.0))
        case("relax.astype", lambda x: R.astype(x, "float16"), Param(shape))
        case("relax.nn.dropout", lambda x: R.nn.dropout(x, 0.5), Param(shape))
        for name in "no_grad start_checkpoint end_checkpoint".split():
            case(f"relax.grad.{name}", getattr(R.grad, name), Param(shape))
        for name in "tril triu".split():
            for k in (0, 1, -2):
                case(f"relax.{name}", lambda x, name=name, k=k: getattr(R, name)(x, k), Param(shape), repeats=shape[-1] == 1 or shape == (1, 5))
    for shape in [(2, 4, 3), (N, 4), (1, 4, 1), (N, 4, M)]:
        case("relax.nn.prelu", lambda x, a: R.nn.prelu(x, a, axis=1), Param(shape), t(4))
    case("relax.nn.prelu", lambda x, a: R.nn.prelu(x, a, axis=1), t(2, 4, 3), t(1))


PAIRS = [((2, 3, 4), (3, 1)), ((N, 4), (N, 4)), ((1, 5), (3, 1)), ((0, 3), (1,)), ((N, 1), (M,)), ((), (2, 3))]


def binary():
    for a, b in PAIRS:
        one = a == ()
        for name in "add subtract multiply maximum minimum atan2 log_add_exp".split():
            case(f"relax.{name}", getattr(R, name), Param(a), Param(b))
        for name in "divide floor_divide mod floor_mod".split():
            f = getattr(R, name)
            case(f"relax.{name}", f, Param(a, low=2.0, high=9.0), Param(b, low=0.5), repeats=one)
            case(f"relax.{name}", f, Param(a, "int64", -9, 9), Param(b, "int64", 1, 5))
            if name != "mod":
                case(f"relax.{name}", f, Param(a, "int32", -9, 9), Param(b, "int32", -5, -1))
        case("relax.power", R.power, Param(a, low=0.5), Param(b))
        for name in "equal not_equal less less_equal greater greater_equal".split():
            case(f"relax.{name}", getattr(R, name), Param(a, "int64", 0, 3), Param(b, "int64", 0, 3))
            floats = getattr(R, name)
            case(f"relax.{name}", lambda x, y, f=floats: f(R.round(x), R.round(y)), Param(a), Param(b))
        for name in "and or xor".split():
            case(f"relax.bitwise_{name}", getattr(R, f"bitwise_{name}"), Param(a, "int64", -9, 9), Param(b, "int64", -9, 9))
            case(f"relax.logical_{name}", getattr(R, f"logical_{name}"), Param(a, "bool"), Param(b, "bool"))
        for name in "left_shift right_shift".split():
            case(f"relax.{name}", getattr(R, name), Param(a, "int32", 0, 99), Param(b, "int32", 0, 5))
        same = Param((2, *a)) if a != () else t(2)
        case("relax.ewise_fma", R.ewise_fma, same, same, same, like=lambda x, y, z: R.add(R.multiply(x, y), z))
        case("relax.where", R.where, Param(b, "bool"), Param(a), Param(b))
        case("relax.add", R.add, Param(a, "float16"), Param(b, "float16"))
    for name in "add subtract multiply divide".split():
        case(f"relax.{name}", lambda x, f=getattr(R, name): f(x, relax.const(3.5, "float32")), t(N, 4))
    for a, b in [(3, 4), (N, 4), (1, 5), (0, 3)]:
        case("relax.outer", R.outer, t(a), t(b))
    for shape in [(2, 4), (N, 4), (1, 4), (0, 4)]:
        quantized = lambda x, s, z: R.quantize(x, s, z, axis=1, out_dtype="int8")
        case("relax.quantize", quantized, Param(shape, low=-9.0, high=9.0), t(4, low=0.1, high=0.5), ints(4, dtype="int8"))
        back = lambda x, s, z: R.dequantize(x, s, z, axis=1, out_dtype="float32")
        case("relax.dequantize", back, Param(shape, "int8", -99, 99), t(4, low=0.1, high=0.5), ints(4, dtype="int8"))


def creation():
    for shape in [(2, 3), (N, 4), (1,), (0, 4)]:
        for name in "zeros ones".split():
            case(f"relax.{name}_like", getattr(R, f"{name}_like"), Param(shape))
        full = lambda x, value: R.full_like(x, value, "float32")
        case("relax.full_like", full, Param(shape), t())
        case("relax.eye_like", lambda x: R.eye_like(x), Param((*shape, 3)[:2]))
        # The symbols of a shape that is only a parameter are defined by that parameter.
        for name in "zeros ones".split():
            make = lambda s, f=getattr(R, name), shape=shape: f(relax.ShapeExpr(list(shape)), "float32")
            case(f"relax.{name}", make, Shape(list(shape)))
        case("relax.full", lambda s, v, shape=shape: R.full(relax.ShapeExpr(list(shape)), v), Shape(list(shape)), t())
        case("relax.shape_to_tensor", R.shape_to_tensor, Shape(list(shape)))
    for n, m, k in [(3, 4, 0), (N, 4, 1), (1, 1, 0), (4, 0, 0)]:
        case("relax.eye", lambda s, n=n, m=m, k=k: R.eye(n, m, k, "float32"), Shape([n, m]))
    for start, stop, step in [(0, 7, 1), (1, N + 4, 2), (3, 4, 1), (2, 2, 1)]:
        for dtype in ("int64", "float32"):
            make = lambda s, a=start, b=stop, c=step, dtype=dtype: R.arange(a, b, c, dtype)
            case("relax.arange", make, Shape([N]))
    for size, periodic in [(7, True), (8, False), (2, True), (3, True)]:
        case("relax.hamming_window", lambda s, n=size, p=periodic: R.hamming_window(n, p, 0.5, 0.25, "float32"), Shape([N]))
    for shape in [(3, 4), (N, 4), (1, 3)]:
        case("relax.nonzero", R.nonzero, Param(shape, "int64", 0, 2))
        case("relax.unique", lambda x: R.unique(x, sorted=True), Param(shape, "int64", 0, 5))


def shapes():
    for shape in SHAPES:
        case("relax.permute_dims", R.permute_dims, Param(shape))
        case("relax.expand_dims", lambda x: R.expand_dims(x, [0, -1]), Param(shape))
        case("relax.squeeze", lambda x: R.squeeze(x, [-1]), Param((*shape, 1)))
        case("relax.flatten", R.flatten, Param(shape))
        case("relax.nn.batch_flatten", R.nn.batch_flatten, Param(shape))
        case("relax.flip", lambda x: R.flip(x, 1), Param(shape))
        case("relax.repeat", lambda x: R.repeat(x, 3, 1), Param(shape))
        case("relax.repeat", lambda x: R.repeat(x, 2), Param(shape))
        case("relax.tile", lambda x: R.tile(x, [2, 3]), Param(shape))
        case("relax.broadcast_to", lambda x, shape=shape: R.broadcast_to(x, [2, *shape]), Param((*shape[:-1], 1)), repeats=shape == (1, 5))
        case("relax.collapse_sum_to", lambda x, shape=shape: R.collapse_sum_to(x, [*shape[:-1], 1]), Param((2, *shape)))
        case("relax.collapse_sum_like", R.collapse_sum_like, Param((2, *shape)), Param((*shape[:-1], 1)))
        case("relax.concat", lambda x, y: R.concat((x, y, x), 1), Param(shape), Param(shape))
        case("relax.concat", lambda x, y: R.concat((x, y), 0), Param(shape), Param((M, *shape[1:])))
        case("relax.stack", lambda x, y: R.stack((x, y), 1), Param(shape), Param(shape))
    for shape, to in [((2, 3, 4), (6, 4)), ((N, 4), (2, N, 2)), ((1, 6), (3, 2)), ((0, 3), (0, 3, 1)), ((N, M), (N * M,))]:
        case("relax.reshape", lambda x, to=to: R.reshape(x, to), Param(shape))
    for shape, parts, axis in [((6, 8), 2, 0), ((6, 8), [2, 5], 1), ((N, 8), 4, 1), ((1, 7), [3], 1), ((0, 4), 2, 1), ((6, N), 1, 0), ((6, 5), [], 1)]:
        case("relax.split", lambda x, p=parts, a=axis: R.split(x, p, a), Param(shape))
    for a, b in [(3, 4), (N, 4), (1, 5), (3, 0)]:
        for order in ("ij", "xy"):
            case("relax.meshgrid", lambda x, y, order=order: R.meshgrid((x, y), order), t(a), t(b), repeats=a == 1)
    maps = [lambda i, j: (j, i), lambda i, j: (i, j // 4, j % 4)]
    for shape, f in [((3, 16), maps[1]), ((N, 8), maps[1]), ((1, 4), maps[0]), ((0, 4), maps[0]), ((5, 14), maps[1])]:
        case("relax.layout_transform", lambda x, f=f: R.layout_transform(x, f, pad_value=2.0 if shape[1] == 14 else None), Param(shape))


def indexing():
    for shape in [(5, 6), (N, 6), (5, 1), (5, 0)]:
        for mode in ("fast", "clip", "wrap", "nan"):
            case("relax.take", lambda x, i, m=mode: R.take(x, i, 0, m), Param(shape), ints(2, M, high=5))
        case("relax.take", lambda x, i: R.take(x, i, 0, "wrap"), Param(shape), ints(4, low=-7, high=7, dtype="int32"))
        case("relax.gather_elements", lambda x, i: R.gather_elements(x, i, 0), Param(shape), Param((2, *shape[1:]), "int64", 0, 5))
        case("relax.gather_nd", lambda x, i: R.gather_nd(x, i), Param(shape), ints(3, 1, high=5))
        case("relax.index_tensor", lambda x, i: R.index_tensor(x, (i,)), Param(shape), ints(2, high=5))
        bounds = [([0], [1], [4], [1]), ([0], [0], [100], [2]), ([0, 1], [1, 0], [5, 1], [2, 1])]
        for axes, begin, end, step in bounds:
            make = lambda x, a=axes, b=begin, e=end, s=step: R.strided_slice(x, a, b, e, s)
            case("relax.strided_slice", make, Param(shape))
        case("relax.slice_scatter", lambda x, y: R.slice_scatter(x, y, 1, 5, 2, 0), Param(shape), Param((2, *shape[1:])))
        case("relax.dynamic_strided_slice", R.dynamic_strided_slice, Param(shape), Values([1, 0]), Values([4, 1]), Values([2, 1]))
        if shape[0] == 5 and shape[1] == 6:
            case("relax.dynamic_strided_slice", R.dynamic_strided_slice, Param(shape), Values([-2, 100]), Values([-9, -4]), Values([-1, -2]))
        case("relax.size", R.size, Param(shape))
        if 0 in shape:
            continue  # TVM divides by the number of elements.
        case("relax.scatter_elements", lambda x, i, u: R.scatter_elements(x, i, u, 0), Param(shape), distinct(2, shape), Param((2, *shape[1:])))
        for how in ("add", "mul", "mean", "min", "max"):
            make = lambda x, i, u, how=how: R.scatter_elements(x, i, u, 0, how)
            case("relax.scatter_elements", make, Param(shape), Param((3, *shape[1:]), "int64", 0, 5), Param((3, *shape[1:])))
        case("relax.scatter_nd", lambda x, i, u: R.scatter_nd(x, i, u), Param(shape), Values([[0], [3]]), Param((2, *shape[1:])))
        for how in ("add", "mul", "min", "max"):
            make = lambda x, i, u, how=how: R.scatter_nd(x, i, u, how)
            case("relax.scatter_nd", make, Param(shape), ints(4, 1, high=5), Param((4, *shape[1:])))
        make = lambda g, x, i: R.grad.take_backward(g, x, i, 0)
        case("relax.grad.take_backward", make, Param((3, *shape[1:])), Param(shape), ints(3, high=5))
    for n in (6, N, 1):
        case("relax.take", lambda x, i: R.take(x, i), t(n), ints(3, high=1 if n == 1 else 5), repeats=n == 1)
    case("relax.squeeze", lambda x: R.squeeze(x), t(1, 6, 1))
    case("relax.slice_scatter", lambda x, y: R.slice_scatter(x, y, 1, 5, 1, 1), t(N, 6), t(N, 4))
    case("relax.strided_slice", lambda x: R.strided_slice(x, [0], [-2], [-6], [-1]), t(7, 2))
    case("relax.index_tensor", lambda x, i, j: R.index_tensor(x, (i, j)), t(5, 6, N), ints(2, 1, high=5), ints(3, high=5))
    case("relax.gather_nd", lambda x, i: R.gather_nd(x, i, 1), t(4, 5, N), ints(4, 2, 1, high=5))
    case("relax.grad.take_backward", lambda g, x, i: R.grad.take_backward(g, x, i), t(4), t(6), ints(4, high=5))
    for shape in [(4,), (N,), (1,), (0,), (2, M)]:
        for axis in (-1, 0):
            make = lambda x, axis=axis: R.one_hot(x, relax.prim_value(1.5), relax.prim_value(-0.5), 4, axis)
            case("relax.one_hot", make, Param(shape, "int64", 0, 4))
        bounds = Values([-1.0, -0.5, 0.25, 0.25, 1.0], "float32")
        for right, small in [(False, False), (True, True)]:
            make = lambda x, b, right=right, small=small: R.bucketize(x, b, small, right)
            case("relax.bucketize", make, Param(shape), bounds)


def distinct(rows, shape):
    """Returns indices that are distinct within a column, because the result of two updates of one element is
    unspecified."""
    width = [extent(dim) for dim in shape[1:]]
    return Values(np.broadcast_to(np.arange(rows).reshape(rows, *[1] * len(width)) * 3 % 5, [rows, *width]))


def reductions():
    for shape in SHAPES + [(3, 0)]:
        for name in "sum prod max min mean variance std".split():
            if 0 in shape and name not in ("sum", "prod"):
                continue
            for axis, keep in [(None, False), (1, True), ([0, 1], False)]:
                case(f"relax.{name}", lambda x, f=getattr(R, name), a=axis, k=keep: f(x, a, k), Param(shape))
        if 0 in shape:
            continue
        for name in "argmax argmin".split():
            for axis, keep in [(None, False), (1, True), (0, False)]:
                case(f"relax.{name}", lambda x, f=getattr(R, name), a=axis, k=keep: f(x, a, k), Param(shape))
        for name in "softmax log_softmax".split():
            for axis in (-1, 0):
                case(f"relax.nn.{name}", lambda x, f=getattr(R.nn, name), a=axis: f(x, a), Param(shape), repeats=shape[axis] == 1)
        for axis, keep in [(1, True), (0, False)]:
            case("relax.median", lambda x, a=axis, k=keep: R.median(x, a, k), Param(shape))
        case("relax.median", lambda x: R.median(x), Param(shape))
        for name in "cumsum cumprod".split():
            for axis, exclusive in [(1, False), (0, True), (None, False)]:
                make = lambda x, f=getattr(R, name), a=axis, e=exclusive: f(x, a, exclusive=e)
                case(f"relax.{name}", make, Param(shape), repeats=exclusive and shape[0] == 1)
            case(f"relax.{name}", lambda x, f=getattr(R, name): f(x, 1, "float64"), Param(shape))
        for axis, down in [(-1, False), (0, True)]:
            case("relax.sort", lambda x, a=axis, d=down: R.sort(x, a, d), Param(shape))
            # Many elements are equal.
            case("relax.argsort", lambda x, a=axis, d=down: R.argsort(x, a, d, "int64"), Param(shape, "int32", 0, 3), repeats=shape[axis] == 1)
            case("relax.topk", lambda x, a=axis, d=down: R.topk(x, 1, a, "values", d), Param(shape))
        # If `k` is larger than the axis, TVM returns uninitialized memory, with a shape that differs from the declared
        # shape.
        k = 1 if shape[0] == 1 else 2
        case("relax.topk", lambda x, k=k: R.topk(x, k, 0, "both", True, "int64"), Param(shape), repeats=shape[0] == 1)


def products():
    pairs = [((3, 4), (4, 5)), ((N, 4), (4, M)), ((1, 4), (4, 1)), ((0, 4), (4, 2)), ((2, 3, 4), (4, 5)), ((N, 1, 3, 4), (2, 4, 5)), ((4,), (4,)), ((M, 0), (0, 2))]
    for a, b in pairs:
        case("relax.matmul", R.matmul, Param(a), Param(b))
    for a, b, how in [((2, 3), (3, 4), "ij,jk->ik"), ((N, 3), (3, 4), "ij,jk->k"), ((1, 4), (4, 1), "ij,jk->ik"), ((2, 3), (2, 3), "ij,ij->i")]:
        case("relax.einsum", lambda x, y, how=how: R.einsum((x, y), how), Param(a), Param(b))
    for batch, places, depth in [(2, 5, 8), (N, 3, 4), (1, 1, 4), (2, M, 4)]:
        qkv = [t(batch, places, 2, depth) for _ in range(3)]
        case("relax.nn.attention", R.nn.attention, *qkv)
        case("relax.nn.attention", lambda q, k, v: R.nn.attention(q, k, v, causal_mask="TopLeft"), *qkv)
        case("relax.nn.attention_bias", R.nn.attention, *qkv, t(batch, 2, places, places))


def norms():
    for shape in [(2, 4, 3, 3), (N, 4, 2, 5), (1, 4, 1, 2), (2, 4, 3, M)]:
        channel = lambda low=-2.0: t(4, low=low)
        for training in (False, True):
            make = lambda x, a, b, m, v, training=training: R.nn.batch_norm(x, a, b, m, v, axis=1, training=training)
            case("relax.nn.batch_norm", make, Param(shape), channel(), channel(), channel(), channel(0.5))
        last = t(shape[-1])
        case("relax.nn.layer_norm", lambda x, a, b: R.nn.layer_norm(x, a, b, axes=[-1]), Param(shape), last, last)
        case("relax.nn.rms_norm", lambda x, a: R.nn.rms_norm(x, a, axes=[-1]), Param(shape), last)
        case("relax.nn.group_norm", lambda x, a, b: R.nn.group_norm(x, a, b, 2, 1, [2, 3]), Param(shape), t(4), t(4))
        case("relax.nn.instance_norm", lambda x, a, b: R.nn.instance_norm(x, a, b, 1, [2, 3]), Param(shape), t(4), t(4))
        for pad in ("constant", "replicate", "reflect", "circular"):
            if pad == "reflect" and 1 in shape:
                continue
            widths = [0, 0, 0, 0, 1, 1, 1, 0] if shape[2] != 1 or pad != "reflect" else [0] * 8
            case("relax.nn.pad", lambda x, p=pad, w=widths: R.nn.pad(x, w, p, 1.5), Param(shape))
    for n in (4, N, 1):
        case("relax.nn.cross_entropy_with_logits", R.nn.cross_entropy_with_logits, t(n, 3), t(n, 3))
        for how in ("mean", "sum", "none"):
            make = lambda x, y, w, how=how: R.nn.nll_loss(x, y, w, how)
            case("relax.nn.nll_loss", make, t(n, 3), ints(n, high=3), t(3, low=0.5))
            make = lambda g, x, y, w, how=how: R.grad.nll_loss_backward(g, x, y, w, how)
            case("relax.grad.nll_loss_backward", make, t(n) if how == "none" else t(), t(n, 3), ints(n, high=3), t(3, low=0.5))
        case("relax.nn.nll_loss", lambda x, y: R.nn.nll_loss(x, y, ignore_index=1), t(n, 3, 2), ints(n, 2, high=3))


def windows():
    for n in (1, 2, 3):
        letters = "DHW"[3 - n :]
        sizes = [(2, 4, *(7, 6, 5)[:n]), (N, 4, *(6, 5, 7)[:n]), (1, 4, *(1, 3, 1)[:n])]
        for shape in sizes:
            window = 1 if 1 in shape[2:] else 3
            weight = (6, 4, *[window] * n)
            for groups, pads, stride in [(1, 1, 1), (2, 1, 2), (1, 0, 1)]:
                conv = getattr(R.nn, f"conv{n}d")
                make = lambda x, w, f=conv, g=groups, p=pads, s=stride: f(x, w, strides=s, padding=p, groups=g)
                if pads and 1 in shape[2:] and stride > 1:
                    continue  # A window covers only padding.
                case(f"relax.nn.conv{n}d", make, Param(shape), t(6, 4 // groups, *weight[2:]))
                back = getattr(R.nn, f"conv{n}d_transpose")
                make = lambda x, w, f=back, g=groups, p=pads, s=stride: f(x, w, strides=s, padding=p, groups=g)
                if not (pads and 1 in shape[2:]):
                    case(f"relax.nn.conv{n}d_transpose", make, Param(shape), t(4, 6 // groups, *weight[2:]))
            for kind in ("max", "avg"):
                f = getattr(R.nn, f"{kind}_pool{n}d")
                for pads, stride, ceil in [(0, 1, False), (1, 2, True)]:
                    more = {} if kind == "max" else {"count_include_pad": ceil}
                    make = lambda x, n=n, f=f, p=pads, s=stride, c=ceil, w=window, more=more: f(
                        x, pool_size=[w] * n, strides=s, padding=p, ceil_mode=c, **more
                    )
                    if window > pads:
                        case(f"relax.nn.{kind}_pool{n}d", make, Param(shape))
        adaptive = getattr(R.nn, f"adaptive_avg_pool{n}d")
        for shape, to in [((2, 3, 8, 6, 4), 2), ((N, 3, 4, 6, 4), 1), ((1, 3, 6, 6, 6), 3)]:
            make = lambda x, n=n, f=adaptive, to=to: f(x, [to] * n)
            case(f"relax.nn.adaptive_avg_pool{n}d", make, Param(shape[: 2 + n]))
    for shape in [(2, 3, 7, 5), (N, 3, 5, 5), (1, 1, 3, 3)]:
        # TVM's gradient of max_pool2d reads past the last window, unless the last window contains the last element.
        pools = [dict(pool_size=[3, 3], strides=[2, 2], padding=[1, 1, 1, 1]), dict(pool_size=[3, 3], strides=[2, 2])]
        pools += [dict(pool_size=[2, 2], strides=[1, 1]), dict(pool_size=[2, 3], strides=[1, 2], count_include_pad=True)]
        for pool, kind in itertools.product(pools, ("max", "avg")):
            around = 1 if "padding" in pool else 0
            sides = zip(shape[2:], pool["pool_size"], pool["strides"])
            result = [(size + 2 * around - window) // stride + 1 for size, window, stride in sides]
            if kind == "avg" or around:
                make = lambda g, x, f=getattr(R.grad, f"{kind}_pool2d_backward"), pool=pool: f(g, x, **pool)
                case(f"relax.grad.{kind}_pool2d_backward", make, t(*shape[:2], *result), Param(shape), repeats=result == [1, 1])
    for shape in [(1, 2, 4, 6), (N, 1, 2, 4), (2, 1, 6, 2)]:
        make = lambda g, x: R.grad.max_pool2d_backward(g, x, pool_size=[2, 2], strides=[2, 2])
        case("relax.grad.max_pool2d_backward", make, t(*shape[:2], shape[2] // 2, shape[3] // 2), Param(shape))
    for shape in [(2, 8, 3, 3), (N, 4, 2, 5), (1, 4, 1, 1)]:
        def pixels(x, shape=shape):
            batch, channels, rows, columns = shape
            parts = R.permute_dims(R.reshape(x, [batch, channels // 4, 2, 2, rows, columns]), [0, 1, 4, 2, 5, 3])
            return R.reshape(parts, [batch, channels // 4, rows * 2, columns * 2])

        case("relax.nn.pixel_shuffle", lambda x: R.nn.pixel_shuffle(x, 2), Param(shape), like=pixels)


def images():
    for shape, to in [((2, 3, 8, 8), [4, 5]), ((N, 3, 5, 6), [10, 12]), ((1, 1, 4, 4), [1, 7])]:
        for method in ("nearest_neighbor", "linear"):
            for mode, rounding in [("half_pixel", "round"), ("align_corners", ""), ("asymmetric", "floor")]:
                if mode == "align_corners" and 1 in to:
                    continue
                make = lambda x, to=to, method=method, mode=mode, r=rounding: R.image.resize2d(
                    x, to, method=method, coordinate_transformation_mode=mode, rounding_method=r
                )
                case("relax.image.resize2d", make, Param(shape))
    for shape, to in [((2, 3, 4, 6, 5), [2, 5, 5]), ((N, 1, 3, 4, 5), [6, 4, 3]), ((1, 1, 2, 1, 2), [3, 2, 1])]:
        for method in ("nearest_neighbor", "linear"):
            make = lambda x, to=to, method=method: R.image.resize3d(x, to, method=method)
            case("relax.image.resize3d", make, Param(shape))
    for n, to in [(2, (3, 4)), (N, (5, 2)), (1, (2, 3))]:
        case("relax.image.affine_grid", lambda x, to=to: R.image.affine_grid(x, to), t(n, 2, 3))
        case("relax.image.affine_grid", lambda x, to=to: R.image.affine_grid(x, (2, *to), False), t(n, 3, 4))


def boxes(batch, n, low=0.0):
    """A parameter of rows of class, score and corners."""
    rng = np.random.default_rng(batch * 7 + n)
    first = rng.uniform(0, 4, (batch, n, 2))
    scores = rng.permutation(batch * n).reshape(batch, n, 1) / (batch * n) + low
    rows = [rng.integers(0, 2, (batch, n, 1)), scores, first, first + rng.uniform(0.5, 4, (batch, n, 2))]
    return Values(np.concatenate(rows, -1), "float32")


def vision():
    for method, padding, corners in itertools.product(["bilinear", "nearest", "bicubic"], ["zeros", "border", "reflection"], [False, True]):
        make = lambda x, g, o=(method, "NCHW", padding, corners): R.image.grid_sample(x, g, *o)
        case("relax.image.grid_sample", make, t(2, 3, 4, 5), t(2, 2, 6, 3, low=-1.5, high=1.5))
        case("relax.image.grid_sample", make, t(N, 3, M, 5), t(N, 2, 6, 3, low=-1.5, high=1.5))
        if method != "bicubic":
            make = lambda x, g, o=(method, "NCDHW", padding, corners): R.image.grid_sample(x, g, *o)
            case("relax.image.grid_sample", make, t(2, 3, 4, 5, 3), t(2, 3, 2, 3, 4, low=-1.5, high=1.5))
    rois = Values([[0, 0.5, 1, 5, 6], [1, -2, -4, 9, 8], [1, 2, 2, 2, 2], [0, 20, 20, 30, 30], [0, 4, 3, 1, 1]], "float32")
    for mode, aligned, ratio, layout in itertools.product(["avg", "max"], [False, True], [-1, 2], ["NCHW", "NHWC"]):
        # TVM does not initialize the results of cells without samples.
        own = Values(rois.values[:2], "float32") if aligned else rois
        make = lambda x, r, o=(ratio, aligned, layout, mode): R.vision.roi_align(x, r, (2, 3), 0.5, *o)
        case("relax.vision.roi_align", make, t(2, 3, 6, 7), own)
        case("relax.vision.roi_align", make, t(2, N, M, 4), own)
    for scale in (1.0, 0.5, 0.3):
        case("relax.vision.roi_pool", lambda x, r, s=scale: R.vision.roi_pool(x, r, (2, 3), s), t(2, 3, 6, 7), rois)
        case("relax.vision.roi_pool", lambda x, r, s=scale: R.vision.roi_pool(x, r, (2, 3), s), t(2, N, M, 4), rois)
    for data in (boxes(2, 6), boxes(1, 9), boxes(3, 1), boxes(1, 6, low=-0.4)):
        batch, n = data.values.shape[:2]
        counts, indices = Values([n, max(n - 2, 0), 0][:batch], "int32"), Values(np.tile(np.arange(n), (batch, 1)), "int32")
        for threshold, id_index in [(0.0, 0), (0.4, -1)]:
            case("relax.vision.get_valid_counts", lambda x, o=(threshold, id_index): R.vision.get_valid_counts(x, *o), data, repeats=True)
        for options in [
            {}, {"force_suppress": True, "iou_threshold": 0.2}, {"id_index": -1, "max_output_size": 2}, {"top_k": 3}, {"return_indices": False},
            {"return_indices": False, "invalid_to_bottom": True}, {"soft_nms_sigma": 0.5}, {"soft_nms_sigma": 0.3, "score_threshold": 0.2, "max_output_size": 3},
            {"soft_nms_sigma": 0.5, "return_indices": False, "id_index": -1},
        ]:  # fmt: skip
            make = lambda x, c, i, o=options: R.vision.non_max_suppression(x, c, i, **o)
            case("relax.vision.non_max_suppression", make, data, counts, indices, repeats=True)
        corners, scores = Values(data.values[..., 2:], "float32"), Values(np.abs(data.values[..., :2]).transpose(0, 2, 1), "float32")
        for kind, most, iou, least in itertools.product(("tensorflow", "onnx"), (2, 20), (0.3, 0.5), (0.1, 0.6)):
            make = lambda x, s, o=(most, iou, least, kind): R.vision.all_class_non_max_suppression(
                x, s, relax.const(o[0], "int64"), relax.const(o[1], "float32"), relax.const(o[2], "float32"), o[3]
            )
            case("relax.vision.all_class_non_max_suppression", make, corners, scores, repeats=True)
    for clip, threshold, background, softmax in itertools.product([False, True], [0.0, 0.4], [False, True], [False, True]):
        make = lambda c, l, a, o=(clip, threshold, (0.1, 0.1, 0.2, 0.2), background, softmax): R.vision.multibox_transform_loc(c, l, a, *o)
        case("relax.vision.multibox_transform_loc", make, t(2, 3, 5), t(2, 20), t(1, 5, 4))
        case("relax.vision.multibox_transform_loc", make, t(N, 2, 5), t(N, 20), t(1, 5, 4))
    for accumulate in (False, True):
        put = lambda x, i, j, v, a=accumulate: R.index_put(x, (i, j), v, accumulate=a)
        case("relax.index_put", put, t(4, 5), Values([0, -1, 2]), Values([1, -5, 4]), t(3))
        case("relax.index_put", put, t(N, 5), Values([[0], [2]]), Values([[1, 3, 0]]), t(2, 3))
        case("relax.index_put", lambda x, i, v, a=accumulate: R.index_put(x, (i,), v, accumulate=a), t(N), Values([1, 3], "int32"), t(2))
    case("relax.index_put", lambda x, i, v: R.index_put(x, (i,), v, accumulate=True), t(4), Values([1, 1, -1, 3]), t(4))
    for shape, lengths, axes in [((3, 4), [0, 4, 2], (1, 0)), ((4, 3), [1, 3, 4], (0, 1)), ((N, 2, M), [1, 2, 3, 0, 9], (2, 0)), ((2, 3, 4), [4, 0, 3], (-1, -2))]:
        case("relax.reverse_sequence", lambda x, y, o=axes: R.reverse_sequence(x, y, *o), Param(shape), Values(lengths, "int32"))


for table in (elementwise, binary, creation, shapes, indexing, reductions, products, norms, windows, images, vision):
    table()
