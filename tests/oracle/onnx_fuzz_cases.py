"""Random nodes for onnx_fuzz.py. Each operator has a function that draws attributes and operands, or returns None if
the opset version lacks the operator."""
from dataclasses import dataclass, field
import numpy as np
import onnx
from onnx import TensorProto, helper

TABLE = {}
MS = "com.microsoft"


@dataclass
class Case:
    op: str
    inputs: list
    attrs: dict = field(default_factory=dict)
    constants: tuple = ()
    wanted: tuple = (0,)
    domain: str = ""
    near: float = 0
    # Inputs whose dimensions stay numbers, and axes that stay numbers in all inputs.
    fixed: tuple = ()
    fixed_axes: tuple = ()

    def __post_init__(self):
        self.attrs = {name: value for name, value in self.attrs.items() if value is not None}
        # The length of a shape vector determines the number of dimensions of a result.
        shapes = {"Reshape": (1,), "Tile": (1,), "ConstantOfShape": (0,), "Pad": (1, 3), "Slice": (1, 2, 3, 4), "ScatterND": (1,), "GatherND": (1,)}
        self.fixed = (*self.fixed, *shapes.get(self.op, ()))


class Draw:
    def __init__(self, rng, opset):
        self.rng, self.opset = rng, opset

    def int(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def coin(self, p=0.5):
        return bool(self.rng.random() < p)

    def pick(self, items):
        return items[self.int(0, len(items) - 1)]

    def shape(self, low=0, high=4, most=5, least=1):
        return [self.int(least, most) for _ in range(self.int(low, high))]

    def real(self, shape, dtype="float32", low=-3, high=3):
        return self.rng.uniform(low, high, shape).astype(dtype)

    def whole(self, shape, low=-5, high=5, dtype="int64"):
        return self.rng.integers(low, high + 1, shape).astype(dtype)

    def of(self, shape, dtype, low=-5, high=5):
        kind = np.dtype(dtype).kind
        if kind == "b":
            return self.rng.random(shape) < 0.5
        if kind == "u":
            low = max(low, 0)
        return self.real(shape, dtype, low, high) if kind == "f" else self.whole(shape, low, high, dtype)

    def broadcast(self, shape):
        """A shape that is broadcast with another."""
        part = shape[self.int(0, len(shape)):]
        return [1 if self.coin(0.3) else dim for dim in part]

    def maybe(self, value, p=0.5):
        return value if self.coin(p) else None

    def axis(self, rank):
        return self.int(-rank, rank - 1)

    def axes(self, rank, least=0):
        n = self.int(min(least, rank), rank)
        axes = self.rng.permutation(rank)[:n]
        return [int(a) - (rank if self.coin(0.3) else 0) for a in axes]


def case(*names, since=1, until=99, domain=""):
    def add(f):
        for name in names:
            def of(d, name=name):
                if not since <= d.opset <= until:
                    return None
                made = f(d, name)
                if made is not None:
                    made.domain = domain
                return made
            TABLE[name if not domain else f"{domain}.{name}"] = of
        return f
    return add


FLOATS = ["float32", "float32", "float16", "float64"]
INTS = ["int32", "int64", "int8", "uint8"]


@case("Abs", "Neg", "Sign")
def sign(d, op):
    return Case(op, [d.of(d.shape(), d.pick(FLOATS + ["int32", "int64", "int8"]))])


@case("Ceil", "Floor", "Exp", "Sigmoid", "Tanh", "Relu", "Softplus", "Softsign", "Elu", "Selu", "LeakyRelu", "HardSigmoid", "ThresholdedRelu")
def unary(d, op):
    attrs = {}
    if op in ("Elu", "Selu", "LeakyRelu", "HardSigmoid", "ThresholdedRelu"):
        attrs["alpha"] = d.maybe(d.pick([0.1, 0.5, 1.5]))
    if op == "HardSigmoid":
        attrs["beta"] = d.maybe(0.3)
    if op == "Selu":
        attrs["gamma"] = d.maybe(1.3)
    return Case(op, [d.of(d.shape(), d.pick(FLOATS))], attrs)


@case("Sin", "Cos", "Tan", "Atan", "Erf", "Sinh", "Cosh", "Asinh", "Round", "HardSwish", "Mish", "Gelu", "Celu", "Swish")
def unary2(d, op):
    since = {"Erf": 9, "Sinh": 9, "Cosh": 9, "Asinh": 9, "Round": 11, "HardSwish": 14, "Mish": 18, "Gelu": 20, "Celu": 12, "Swish": 24}
    if d.opset < since.get(op, 7):
        return None
    attrs = {}
    if op == "Gelu":
        attrs["approximate"] = d.pick(["none", "tanh", None])
    if op in ("Celu", "Swish"):
        attrs["alpha"] = d.pick([None, 0.5, 2.0])
    return Case(op, [d.of(d.shape(), "float32")], attrs)


@case("Log", "Sqrt", "Reciprocal")
def positive(d, op):
    return Case(op, [d.of(d.shape(), d.pick(FLOATS), 0.5, 5)])


@case("Asin", "Acos", "Atanh")
def inner(d, op):
    if op == "Atanh" and d.opset < 9:
        return None
    return Case(op, [d.of(d.shape(), "float32", -0.9, 0.9)])


@case("Add", "Sub", "Mul", "Div")
def arithmetic(d, op):
    shape, dtype = d.shape(), d.pick(FLOATS + ["int32", "int64"])
    a, b = d.of(shape, dtype), d.of(d.broadcast(shape), dtype, 1, 5)
    if op == "Div" and np.dtype(dtype).kind == "i" and d.coin():
        b = -b
    swap = d.coin(0.3)
    if swap and op == "Div" and np.dtype(dtype).kind == "i":
        a = np.where(a == 0, 1, a).astype(dtype)
    return Case(op, [b, a] if swap else [a, b], constants=d.pick([(), (), (1,), (0,)]))


@case("Pow")
def power(d, op):
    shape = d.shape()
    a = d.pick(["float32", "float64"] + (["int32", "int64"] if d.opset >= 12 else []))
    b = d.pick(["float32", "int32", "int64"]) if d.opset >= 12 else a
    low = 1 if np.dtype(b).kind == "f" else -4
    return Case(op, [d.of(shape, a, low, 4), d.of(d.broadcast(shape), b, 0, 3)], constants=d.pick([(), (1,)]))


@case("Mod", since=10)
def mod(d, op):
    shape, dtype = d.shape(), d.pick(["float32", "int32", "int64", "int8", "uint8"])
    b = d.of(d.broadcast(shape), dtype, 1, 5)
    b = -b if d.coin() and np.dtype(dtype).kind != "u" else b
    return Case(op, [d.of(shape, dtype, -20, 20), b], {"fmod": 1 if np.dtype(dtype).kind == "f" else d.pick([None, 0, 1])})


@case("And", "Or", "Xor")
def logic(d, op):
    shape = d.shape()
    return Case(op, [d.of(shape, "bool"), d.of(d.broadcast(shape), "bool")])


@case("Not")
def negation(d, op):
    return Case(op, [d.of(d.shape(), "bool")])


@case("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")
def compare(d, op):
    if op.endswith("OrEqual") and d.opset < 12:
        return None
    shape, dtype = d.shape(), d.pick(["float32", "int32", "int64"] if d.opset >= 11 else ["int32", "int64"] if op == "Equal" else ["float32"])
    return Case(op, [d.of(shape, dtype, -2, 2), d.of(d.broadcast(shape), dtype, -2, 2)])


@case("Max", "Min", "Sum", "Mean")
def many(d, op):
    if d.opset < 8:
        return None
    dtype = d.pick(["float32", "float64"] + (["int32", "int64"] if op in ("Max", "Min") and d.opset >= 12 else []))
    shape = d.shape()
    parts = [d.of(d.broadcast(shape) if k else shape, dtype) for k in range(d.int(1, 4))]
    if np.dtype(dtype).kind == "f" and d.coin(0.2) and parts[0].size:
        parts[0].reshape(-1)[0] = np.nan
    return Case(op, parts, constants=d.pick([(), (0,), (1,)]) if len(parts) > 1 else ())


@case("Where", since=9)
def where(d, op):
    shape, dtype = d.shape(), d.pick(["float32", "int64", "int32", "uint8", "bool"])
    if dtype == "bool":
        dtype = "float32"
    return Case(op, [d.of(d.broadcast(shape), "bool"), d.of(shape, dtype), d.of(d.broadcast(shape), dtype)], constants=d.pick([(), (2,), (1,)]))


@case("PRelu")
def prelu(d, op):
    shape = d.shape(1)
    return Case(op, [d.real(shape), d.real(d.broadcast(shape))])


@case("Clip")
def clip(d, op):
    if d.opset < 11:
        return Case(op, [d.real(d.shape())], {"min": d.maybe(-1.0), "max": d.maybe(0.5)})
    dtype = d.pick(["float32", "float64"] + (["int32", "int64", "int8"] if d.opset >= 12 else []))
    low, high = d.maybe(np.array(-2, dtype)), d.maybe(np.array(1, dtype))
    return Case(op, [d.of(d.shape(), dtype)] + ([low, high] if high is not None else [low] if low is not None else []), constants=d.pick([(1, 2), (), (1,), (2,)]))


@case("Cast")
def cast(d, op):
    source, to = d.pick(["float32", "float64", "int32", "int64", "uint8", "bool", "float16", "int8"]), d.pick(["float32", "float64", "int32", "int64", "uint8", "bool", "float16", "int8", "uint16"])
    return Case(op, [d.of(d.shape(), source, 0, 100)], {"to": helper.np_dtype_to_tensor_dtype(np.dtype(to))})


@case("IsNaN", "IsInf")
def special(d, op):
    if d.opset < (9 if op == "IsNaN" else 10):
        return None
    x = d.real(d.shape(1))
    x.reshape(-1)[: x.size // 2] = d.pick([np.nan, np.inf, -np.inf])
    attrs = {} if op == "IsNaN" else {"detect_negative": d.pick([None, 0, 1]), "detect_positive": d.pick([None, 0, 1])}
    return Case(op, [x], attrs)


@case("Shrink", since=9)
def shrink(d, op):
    return Case(op, [d.of(d.shape(), d.pick(["float32", "int32"]))], {"lambd": d.pick([None, 1.5]), "bias": d.pick([None, 0.5])})


@case("BitShift", since=11)
def bit_shift(d, op):
    dtype, shape = d.pick(["uint8", "uint32", "uint64"]), d.shape()
    return Case(op, [d.of(shape, dtype, 0, 200), d.of(d.broadcast(shape), dtype, 0, 9)], {"direction": d.pick(["LEFT", "RIGHT"])})


@case("BitwiseAnd", "BitwiseOr", "BitwiseXor", since=18)
def bitwise(d, op):
    dtype, shape = d.pick(["uint8", "int32", "int64"]), d.shape()
    return Case(op, [d.of(shape, dtype, -100, 100), d.of(d.broadcast(shape), dtype, -100, 100)])


REDUCTIONS = ["ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"]


@case(*REDUCTIONS)
def reduce(d, op):
    shape = d.shape(0, 4)
    dtype = d.pick(["float32", "float32", "float64", "int32", "int64"])
    if op in ("ReduceLogSum", "ReduceLogSumExp", "ReduceL2", "ReduceMean"):
        dtype = d.pick(["float32", "float64"])
    x = d.of(shape, dtype, 1 if op == "ReduceLogSum" else -3, 3)
    axes = d.maybe(d.axes(len(shape), 0 if d.opset >= 18 else 1), 0.8)
    attrs = {"keepdims": d.pick([None, 0, 1])}
    since = 13 if op == "ReduceSum" else 18
    if d.opset < since:
        return Case(op, [x], {**attrs, "axes": axes or None})
    attrs["noop_with_empty_axes"] = d.pick([None, 0, 1])
    return Case(op, [x] + ([np.array(axes, "int64")] if axes is not None else []), attrs, constants=(1,))


@case("ArgMax", "ArgMin")
def arg(d, op):
    shape = d.shape(1)
    attrs = {"axis": d.maybe(d.axis(len(shape)) if d.opset >= 11 else d.int(0, len(shape) - 1)), "keepdims": d.pick([None, 0, 1])}
    if d.opset >= 12:
        attrs["select_last_index"] = d.pick([None, 0, 1])
    return Case(op, [d.of(shape, d.pick(["float32", "int32"]), -2, 2)], attrs)


@case("Softmax", "LogSoftmax", "Hardmax")
def softmax(d, op):
    shape = d.shape(1, 4)
    axis = d.axis(len(shape)) if d.opset >= 11 else d.int(0, len(shape) - 1)
    if d.opset < 13 and len(shape) == 1:
        axis = 0
    return Case(op, [d.of(shape, d.pick(["float32", "float32", "float64"] + (["float16"] if op != "Hardmax" else [])))], {"axis": axis if len(shape) == 1 else d.maybe(axis, 0.8)})


@case("Reshape")
def reshape(d, op):
    shape = d.shape(1, 4)
    total = int(np.prod(shape))
    out = list(shape)
    d.rng.shuffle(out)
    if d.coin():
        out = [int(np.prod(out[:1])), int(np.prod(out[1:]))]
    if d.coin(0.6) and total:
        out[d.int(0, len(out) - 1)] = -1
    for k in range(min(len(out), len(shape))):
        if out[k] == shape[k] and d.coin(0.3):
            out[k] = 0
    return Case(op, [d.real(shape), np.array(out, "int64")], {"allowzero": d.maybe(0) if d.opset >= 14 else None}, constants=d.pick([(1,), (1,), ()]))


@case("Flatten")
def flatten(d, op):
    shape = d.shape(1, 4)
    return Case(op, [d.real(shape)], {"axis": d.maybe(d.int(-len(shape), len(shape)) if d.opset >= 11 else d.int(0, len(shape)))})


@case("Transpose")
def transpose(d, op):
    shape = d.shape(0, 5)
    return Case(op, [d.of(shape, d.pick(["float32", "int64", "bool"]))], {"perm": d.maybe([int(p) for p in d.rng.permutation(len(shape))]) or None})


@case("Squeeze", "Unsqueeze")
def squeeze(d, op):
    shape = d.shape(1, 4)
    if op == "Squeeze":
        ones = d.axes(len(shape), 1)
        for axis in ones:
            shape[axis] = 1
        axes = d.maybe(ones, 0.7)
        if d.opset < 11 and axes:
            axes = [a % len(shape) for a in axes]
    else:
        n = d.int(1, 2)
        axes = [int(a) for a in d.rng.permutation(len(shape) + n)[:n]]
        if d.opset >= 11 and d.coin(0.3):
            axes = [a - len(shape) - n for a in axes]
    fixed = tuple(range(5)) if op == "Squeeze" and axes is None else ()
    if d.opset < 13:
        return Case(op, [d.real(shape)], {"axes": axes}, fixed_axes=fixed)
    return Case(op, [d.real(shape)] + ([np.array(axes, "int64")] if axes is not None else []), constants=(1,), fixed_axes=fixed)


@case("Concat")
def concat(d, op):
    shape, dtype = d.shape(1, 4), d.pick(["float32", "int64", "int32", "bool"])
    axis = d.axis(len(shape)) if d.opset >= 11 else d.int(0, len(shape) - 1)
    parts = []
    for _ in range(d.int(1, 4)):
        own = list(shape)
        own[axis] = d.int(0 if d.coin(0.2) else 1, 3)
        parts.append(d.of(own, dtype))
    return Case(op, parts, {"axis": axis}, constants=d.pick([(), (0,)]) if len(parts) > 1 else ())


@case("Split")
def split(d, op):
    shape = d.shape(1, 4, 6)
    axis = d.axis(len(shape)) if d.opset >= 11 else d.int(0, len(shape) - 1)
    n = d.int(1, 3)
    if d.coin():
        sizes = [d.int(0 if d.opset >= 13 else 1, 3) for _ in range(n)]
        shape[axis] = sum(sizes)
    else:
        sizes = None
        shape[axis] = n * d.int(1, 3) - (1 if d.opset >= 18 and n > 1 and d.coin() else 0)
    wanted = tuple(range(n))
    x = d.real(shape)
    if shape[axis] == 0:
        return None
    if d.opset < 13:
        return Case(op, [x], {"axis": axis, "split": sizes}, wanted=wanted)
    attrs = {"axis": axis, "num_outputs": n if sizes is None and d.opset >= 18 else None}
    return Case(op, [x] + ([np.array(sizes, "int64")] if sizes else []), attrs, (1,), wanted, fixed_axes=(axis % len(shape),) if d.coin() else ())


@case("Slice")
def slice_(d, op):
    shape = d.shape(1, 4, 6)
    axes = d.axes(len(shape), 1)
    starts, ends = [d.int(-8, 8) for _ in axes], [d.pick([-8, -1, 0, 1, 3, 7, 2**31 - 1, 2**63 - 1, -(2**63)]) for _ in axes]
    if d.opset < 10:
        axes = [a % len(shape) for a in axes]
        return Case(op, [d.real(shape)], {"starts": starts, "ends": ends, "axes": axes})
    dtype = d.pick(["int64", "int32"])
    ends = [int(np.clip(e, np.iinfo(dtype).min, np.iinfo(dtype).max)) for e in ends]
    inputs = [d.real(shape), np.array(starts, dtype), np.array(ends, dtype), np.array(axes, dtype)]
    if d.coin(0.7):
        inputs.append(np.array([d.pick([1, 1, 2, 3, -1, -2, 100]) for _ in axes], dtype))
    if d.coin(0.2):
        return Case(op, [inputs[0], np.array([0] * len(shape), dtype), np.array([2] * len(shape), dtype)], {}, (1, 2))
    return Case(op, inputs, {}, d.pick([(1, 2, 3, 4), (1, 2, 3, 4), (3, 4), (1, 3, 4)]))


@case("Expand", since=8)
def expand(d, op):
    shape = d.shape(0, 4)
    return Case(op, [d.of(d.broadcast(shape), d.pick(["float32", "int64", "bool"])), np.array(d.broadcast(shape) if d.coin(0.3) else shape, "int64")], constants=(1,))


@case("Tile")
def tile(d, op):
    shape = d.shape(1, 4, 3)
    return Case(op, [d.of(shape, d.pick(["float32", "int64"])), np.array([d.int(0 if d.coin(0.1) else 1, 3) for _ in shape], "int64")], constants=d.pick([(1,), ()]))


@case("Pad")
def pad(d, op):
    shape = d.shape(1, 4, 5, 2)
    modes = ["constant", "constant", "reflect", "edge"] + (["wrap"] if d.opset >= 19 else [])
    mode = d.pick(modes)
    rank = len(shape)
    most = 1 if mode == "reflect" else 2
    axes = None
    if d.opset >= 18 and d.coin():
        axes = d.axes(rank, 1)
    n = len(axes) if axes else rank
    pads = [d.int(-1 if mode == "constant" and d.coin(0.3) else 0, most) for _ in range(2 * n)]
    if d.opset < 11:
        return Case(op, [d.real(shape)], {"mode": d.maybe(mode) if mode == "constant" else mode, "pads": pads, "value": d.maybe(1.5)})
    dtype = d.pick(["float32", "int64", "int32"])
    value = d.maybe(np.array(3, dtype)) if mode == "constant" else None
    inputs = [d.of(shape, dtype), np.array(pads, "int64")]
    if axes:
        inputs += [value, np.array(axes, "int64")]
    elif value is not None:
        inputs.append(value)
    return Case(op, inputs, {"mode": d.maybe(mode) if mode == "constant" else mode}, d.pick([(1, 2, 3), (1, 3), (3,)]) if mode == "constant" else (1, 3))


@case("DepthToSpace", "SpaceToDepth")
def depth(d, op):
    by = d.int(1, 3)
    if op == "DepthToSpace":
        mode = d.pick([None, "DCR", "CRD"]) if d.opset >= 11 else None
        return Case(op, [d.real([d.int(1, 2), by * by * d.int(1, 3), d.int(1, 3), d.int(1, 3)])], {"blocksize": by, "mode": mode})
    return Case(op, [d.real([d.int(1, 2), d.int(1, 3), by * d.int(1, 3), by * d.int(1, 3)])], {"blocksize": by})


@case("Trilu", since=14)
def trilu(d, op):
    return Case(op, [d.of(d.shape(2, 4), d.pick(["float32", "int64"]))] + ([np.array(d.int(-3, 3), "int64")] if d.coin() else []), {"upper": d.pick([None, 0, 1])}, constants=d.pick([(1,), ()]))


@case("Gather")
def gather(d, op):
    shape = d.shape(1, 4)
    axis = d.axis(len(shape))
    low = -shape[axis] if d.opset >= 11 else 0
    return Case(op, [d.of(shape, d.pick(["float32", "int64", "bool"])), d.whole(d.shape(0, 3), low, shape[axis] - 1, d.pick(["int64", "int32"]))], {"axis": axis if axis else None}, constants=d.pick([(), (1,)]))


@case("GatherElements", since=11)
def gather_elements(d, op):
    shape = d.shape(1, 4)
    axis = d.axis(len(shape))
    own = [d.int(1, dim) for dim in shape]
    own[axis] = d.int(1, 4)
    return Case(op, [d.real(shape), d.whole(own, -shape[axis], shape[axis] - 1)], {"axis": axis}, constants=d.pick([(), (1,)]))


@case("GatherND", since=11)
def gather_nd(d, op):
    shape = d.shape(2, 4)
    batch = d.int(0, 1) if d.opset >= 12 else 0
    depth = d.int(1, len(shape) - batch)
    indices = np.stack([d.whole(shape[:batch] + [3], -shape[batch + k], shape[batch + k] - 1) for k in range(depth)], -1)
    return Case(op, [d.real(shape), indices], {"batch_dims": batch or None}, constants=d.pick([(), (1,)]))


def unique_along(d, own, size, axis):
    """Indices along an axis without repetition."""
    keys = d.rng.random([*own[:axis], size, *own[axis + 1:]])
    return np.take(keys.argsort(axis), range(own[axis]), axis).astype("int64")


@case("ScatterElements", "Scatter")
def scatter(d, op):
    if op == "Scatter" and not 9 <= d.opset <= 10 or op != "Scatter" and d.opset < 11:
        return None
    shape = d.shape(1, 3)
    axis = d.axis(len(shape))
    own = [d.int(1, dim) for dim in shape]
    reductions = [None, "none"] + (["add", "mul"] if d.opset >= 16 else []) + (["min", "max"] if d.opset >= 18 else [])
    reduction = d.pick(reductions) if d.opset >= 16 else None
    at = unique_along(d, own, shape[axis], axis % len(shape)) if reduction in (None, "none") else d.whole(own, 0, shape[axis] - 1)
    if op != "Scatter" and d.coin():
        at = np.where(d.rng.random(at.shape) < 0.5, at, at - shape[axis])
    dtype = d.pick(["float32", "int64"])
    return Case(op, [d.of(shape, dtype), at, d.of(own, dtype)], {"axis": axis if op != "Scatter" else axis % len(shape), "reduction": reduction}, constants=d.pick([(), (1,)]))


@case("ScatterND", since=11)
def scatter_nd(d, op):
    shape = d.shape(1, 3, 4)
    depth = d.int(1, len(shape))
    reductions = [None, "none"] + (["add", "mul"] if d.opset >= 16 else []) + (["min", "max"] if d.opset >= 18 else [])
    reduction = d.pick(reductions) if d.opset >= 16 else None
    n = int(np.prod(shape[:depth]))
    count = d.int(1, n)
    flat = d.rng.permutation(n)[:count] if reduction in (None, "none") else d.rng.integers(0, n, count)
    at = np.stack(np.unravel_index(flat, shape[:depth]), -1).astype("int64")
    if d.coin():
        at = at - np.array(shape[:depth]) * (d.rng.random(at.shape) < 0.4)
    return Case(op, [d.real(shape), at.astype("int64"), d.real([count, *shape[depth:]])], {"reduction": reduction})


@case("OneHot", since=9)
def one_hot(d, op):
    depth, shape = d.int(1, 5), d.shape(0, 3)
    values = d.pick(["float32", "int64"])
    return Case(op, [d.whole(shape, -depth, depth - 1), np.array(depth if d.coin() else [depth], "int64"), d.of([2], values)], {"axis": d.maybe(d.axis(len(shape) + 1))}, constants=d.pick([(1,), (1, 2), ()]))


@case("TopK")
def top_k(d, op):
    shape = d.shape(1, 3, 6)
    axis = d.axis(len(shape)) if d.opset >= 11 else d.int(0, len(shape) - 1)
    k = d.int(1, shape[axis])
    x = d.rng.permutation(int(np.prod(shape))).reshape(shape).astype("float32" if d.opset < 11 else d.pick(["float32", "int64", "int32"]))
    if d.opset < 10:
        return Case(op, [x], {"k": k, "axis": axis}, wanted=(0, 1), fixed_axes=(0, 1, 2))
    attrs = {"axis": axis, "largest": d.pick([None, 0, 1]), "sorted": d.pick([None, 1])} if d.opset >= 11 else {"axis": axis}
    return Case(op, [x, np.array([k], "int64")], attrs, (1,), (0, 1))


@case("NonZero", since=9)
def non_zero(d, op):
    return Case(op, [d.of(d.shape(1, 3), d.pick(["float32", "int64", "bool", "int32"]), -1, 1)])


@case("Compress", since=9)
def compress(d, op):
    shape = d.shape(1, 3)
    axis = d.maybe(d.axis(len(shape)) if d.opset >= 11 else d.int(0, len(shape) - 1))
    n = int(np.prod(shape)) if axis is None else shape[axis]
    return Case(op, [d.real(shape), d.of([d.int(1, n)], "bool")], {"axis": axis})


@case("Unique", since=11)
def unique(d, op):
    shape = d.shape(1, 3, 4)
    return Case(op, [d.of(shape, d.pick(["float32", "int64"]), -1, 1).round()], {"axis": d.maybe(d.axis(len(shape))), "sorted": d.pick([None, 1, 0])}, wanted=d.pick([(0,), (0, 1, 2, 3)]))


@case("CumSum", since=11)
def cum_sum(d, op):
    shape = d.shape(1, 4)
    return Case(op, [d.of(shape, d.pick(["float32", "int32", "int64", "float64"])), np.array(d.axis(len(shape)), d.pick(["int32", "int64"]))], {"exclusive": d.pick([None, 0, 1]), "reverse": d.pick([None, 0, 1])}, (1,))


@case("ReverseSequence", since=10)
def reverse_sequence(d, op):
    time, batch = d.int(1, 5), d.int(1, 4)
    first = d.coin()
    shape = ([time, batch] if first else [batch, time]) + d.shape(0, 2, 3)
    return Case(op, [d.real(shape), d.whole([batch], 1, time)], {"time_axis": 0 if first else 1, "batch_axis": 1 if first else 0})


@case("Range", since=11)
def range_(d, op):
    dtype = d.pick(["int64", "int32", "float32", "float64"])
    start, step, n = d.int(-5, 5), d.pick([1, 2, 3, -1, -2]), d.int(0, 6)
    frac = 0.25 if np.dtype(dtype).kind == "f" else 0
    return Case(op, [np.array(start, dtype), np.array(start + step * n + (frac if step > 0 else -frac), dtype), np.array(step, dtype)], constants=d.pick([(0, 1, 2), (0, 2), (), (0, 2)]))


@case("EyeLike", since=9)
def eye(d, op):
    return Case(op, [d.of(d.shape(2, 2), d.pick(["float32", "int32"]))], {"k": d.maybe(d.int(-2, 2)), "dtype": d.pick([None, TensorProto.INT64, TensorProto.FLOAT])})


@case("ConstantOfShape", since=9)
def constant_of_shape(d, op):
    value = d.pick([None, np.array([2.5], "float32"), np.array([7], "int64"), np.array([True])])
    return Case(op, [np.array(d.shape(0, 3), "int64")], {"value": None if value is None else onnx.numpy_helper.from_array(value)}, (0,) if d.coin() else ())


@case("MatMul")
def matmul(d, op):
    batch, (m, k, n) = d.shape(0, 2, 3), [d.int(1, 5) for _ in range(3)]
    a, b = [*d.broadcast(batch), m, k], [*batch, k, n]
    kind = d.int(0, 4)
    if kind == 0:
        a = [k]
    if kind == 1:
        b = [k]
    dtype = d.pick(["float32", "float64", "float32", "float16"] + (["int32"] if d.opset >= 9 else []))
    return Case(op, [d.of(a, dtype), d.of(b, dtype)], constants=d.pick([(), (1,)]))


@case("Gemm")
def gemm(d, op):
    m, k, n = [d.int(1, 5) for _ in range(3)]
    ta, tb = d.pick([None, 0, 1]), d.pick([None, 0, 1])
    inputs = [d.real([k, m] if ta else [m, k]), d.real([n, k] if tb else [k, n])]
    if d.opset < 11 or d.coin(0.7):
        inputs.append(d.real(d.pick([[n], [m, n], [1, n], [m, 1], [], [1]])))
    return Case(op, inputs, {"transA": ta, "transB": tb, "alpha": d.maybe(0.5), "beta": d.maybe(2.0)}, constants=d.pick([(), (1, 2)]))


@case("Einsum", since=12)
def einsum(d, op):
    sizes = {c: d.int(1, 4) for c in "abcdij"}
    equation = d.pick(["ij,ja->ia", "bij,bja->bia", "abij,abcj->abic", "ij->ji", "ij->", "ii->i", "ij,ij->", "i,j->ij", "bij->bi", "ij, ja", "abc,cd,d->ab", "...ij->...ji"])
    left = equation.split("->")[0].replace(" ", "").replace("...", "a")
    if "ii" in left:
        return Case(op, [d.real([3, 3])], {"equation": equation})
    return Case(op, [d.real([sizes[c] for c in part]) for part in left.split(",")], {"equation": equation})


def windows(d, count, least, ceil=False, dilate=True):
    kernel = [d.int(1, 3) for _ in range(count)]
    strides = d.maybe([d.int(1, 3) for _ in range(count)])
    dilations = d.maybe([d.int(1, 2) for _ in range(count)]) if dilate else None
    auto = d.pick([None, None, "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"])
    if auto and auto.startswith("SAME"):
        dilations = None
    pads = d.maybe([d.int(0, k - 1) for k in kernel] + [d.int(0, k - 1) for k in kernel]) if auto in (None, "NOTSET") else None
    sizes = [d.int(1, 4) + (k - 1) * (dilations[i] if dilations else 1) + least for i, k in enumerate(kernel)]
    attrs = {"strides": strides, "dilations": dilations, "auto_pad": auto, "pads": pads}
    return kernel, sizes, attrs


@case("Conv")
def conv(d, op):
    count = d.int(1, 3)
    kernel, sizes, attrs = windows(d, count, 0)
    group = d.pick([1, 1, 2, 3])
    per, out = d.int(1, 2), group * d.int(1, 2)
    inputs = [d.real([d.int(1, 2), group * per, *sizes]), d.real([out, per, *kernel])]
    if d.coin():
        inputs.append(d.real([out]))
    fixed = (0, 2, 3, 4) if str(attrs["auto_pad"]).startswith("SAME") else ()
    return Case(op, inputs, {**attrs, "group": group if group > 1 else d.maybe(1), "kernel_shape": d.maybe(kernel)}, d.pick([(1, 2), ()]), fixed=(1, 2), fixed_axes=(1, *fixed))


@case("ConvTranspose")
def conv_transpose(d, op):
    count = d.int(1, 3)
    kernel, sizes, attrs = windows(d, count, 0)
    group, per, each = d.pick([1, 1, 2]), d.int(1, 2), d.int(1, 2)
    strides = attrs["strides"] or [1] * count
    attrs["output_padding"] = d.maybe([d.int(0, s - 1) for s in strides], 0.3)
    if attrs["auto_pad"] in (None, "NOTSET") and d.coin(0.2):
        attrs["output_shape"] = [strides[i] * s + d.int(-1, 1) for i, s in enumerate(sizes)]
        attrs["output_shape"] = [max(1, s) for s in attrs["output_shape"]]
        attrs["pads"] = None
    inputs = [d.real([d.int(1, 2), group * per, *sizes]), d.real([group * per, each, *kernel])]
    if d.coin():
        inputs.append(d.real([group * each]))
    return Case(op, inputs, {**attrs, "group": group if group > 1 else None, "kernel_shape": d.maybe(kernel)}, d.pick([(1, 2), ()]), fixed=(0, 1, 2))


@case("MaxPool", "AveragePool", "LpPool")
def pool(d, op):
    count = d.int(1, 3)
    since = {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[op]
    kernel, sizes, attrs = windows(d, count, 0, dilate=d.opset >= since)
    attrs["kernel_shape"] = kernel
    if op != "LpPool" and d.opset >= 10 or d.opset >= 18:
        attrs["ceil_mode"] = d.pick([None, 0, 1])
    if op == "AveragePool":
        attrs["count_include_pad"] = d.pick([None, 0, 1])
    if op == "LpPool":
        attrs["p"] = d.pick([None, 1, 2, 3])
    wanted = (0,)
    if op == "MaxPool" and d.opset >= 8 and d.coin(0.3):
        wanted = (0, 1)
        attrs["storage_order"] = d.pick([None, 0])
    fixed = () if not attrs.get("ceil_mode") and attrs["auto_pad"] in (None, "NOTSET", "VALID") and wanted == (0,) else (2, 3, 4)
    return Case(op, [d.real([d.int(1, 2), d.int(1, 3), *sizes])], attrs, wanted=wanted, fixed_axes=fixed)


@case("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(d, op):
    return Case(op, [d.real(d.shape(3, 5))], {"p": d.pick([None, 1, 3])} if op == "GlobalLpPool" else {})


@case("BatchNormalization")
def batch_norm(d, op):
    shape = d.shape(2, 5)
    c = shape[1]
    return Case(op, [d.real(shape), d.real([c]), d.real([c]), d.real([c]), d.real([c], low=0.5)], {"epsilon": d.maybe(1e-3), "momentum": d.maybe(0.8)}, d.pick([(1, 2, 3, 4), ()]), fixed_axes=(1,))


@case("InstanceNormalization")
def instance_norm(d, op):
    shape = d.shape(3, 5)
    return Case(op, [d.real(shape), d.real([shape[1]]), d.real([shape[1]])], {"epsilon": d.maybe(1e-3)}, fixed_axes=(1,))


@case("LayerNormalization", since=17)
def layer_norm(d, op):
    shape = d.shape(1, 4)
    axis = d.axis(len(shape))
    own = shape[axis:] if axis >= 0 else shape[axis:]
    return Case(op, [d.real(shape), d.real(own)] + ([d.real(own)] if d.coin() else []), {"axis": axis, "epsilon": d.maybe(1e-3)}, wanted=d.pick([(0,), (0, 1, 2)]))


@case("GroupNormalization", since=18)
def group_norm(d, op):
    g = d.int(1, 3)
    c = g * d.int(1, 2)
    n = g if d.opset < 21 else c
    return Case(op, [d.real([d.int(1, 2), c, *d.shape(1, 2)]), d.real([n]), d.real([n])], {"num_groups": g, "epsilon": d.maybe(1e-3)}, fixed=(1, 2), fixed_axes=(1,))


@case("RMSNormalization", since=23)
def rms_norm(d, op):
    shape = d.shape(1, 4)
    axis = d.axis(len(shape))
    return Case(op, [d.real(shape), d.real(shape[axis:])], {"axis": axis, "epsilon": d.maybe(1e-3)})


@case("LRN")
def lrn(d, op):
    return Case(op, [d.real([d.int(1, 2), d.int(1, 6), *d.shape(1, 2)] if d.coin(0) else [1, d.int(1, 6), 3, 2])], {"size": d.pick([1, 3, 5]), "alpha": d.maybe(0.1), "beta": d.maybe(0.5), "bias": d.maybe(2.0)})


@case("LpNormalization")
def lp_norm(d, op):
    shape = d.shape(1, 4)
    return Case(op, [d.real(shape)], {"axis": d.maybe(d.axis(len(shape))), "p": d.pick([None, 1, 2])})


@case("MeanVarianceNormalization", since=9)
def mvn(d, op):
    return Case(op, [d.real([2, 3, 4, 2])], {"axes": d.maybe([0, 2, 3])})


@case("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss", since=12)
def loss(d, op):
    n, c, rest = d.int(1, 3), d.int(2, 4), d.shape(0, 2, 3)
    inputs = [d.real([n, c, *rest]), d.whole([n, *rest], 0, c - 1)]
    if d.coin():
        inputs.append(d.real([c], low=0.1))
    return Case(op, inputs, {"reduction": d.pick([None, "none", "sum", "mean"]), "ignore_index": d.pick([None, 1])}, fixed_axes=(1,))


@case("Dropout")
def dropout(d, op):
    return Case(op, [d.real(d.shape())], {"ratio": d.maybe(0.3) if d.opset < 12 else None}, wanted=(0,))


@case("Resize", "Upsample")
def resize(d, op):
    rank = d.int(3, 4)
    shape = [1, d.int(1, 2)] + [d.int(2, 5) for _ in range(rank - 2)]
    scales = np.array([1, 1] + [d.pick([0.5, 1, 1.5, 2, 3, 0.6]) for _ in range(rank - 2)], "float32")
    if op == "Upsample":
        if d.opset > 9:
            return None
        scales = np.maximum(scales, 1).round().astype("float32")
        mode = d.pick(["nearest", "linear"]) if rank == 4 else "nearest"
        if d.opset < 9:
            return Case(op, [d.real(shape)], {"mode": mode, "scales": [float(s) for s in scales]})
        return Case(op, [d.real(shape), scales], {"mode": mode}, (1,))
    if d.opset == 10:
        return Case(op, [d.real(shape), scales], {"mode": d.pick([None, "nearest", "linear"]) if rank == 4 else "nearest"}, (1,))
    if d.opset < 11:
        return None
    mode = d.pick(["nearest", "linear", "cubic"]) if rank == 4 else d.pick(["nearest", "linear"])
    transforms = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"] + (["tf_crop_and_resize"] if d.coin(0.3) else []) + (["half_pixel_symmetric"] if d.opset >= 19 else [])
    transform = d.pick(transforms)
    attrs = {"mode": mode, "coordinate_transformation_mode": d.maybe(transform)}
    if mode == "nearest":
        attrs["nearest_mode"] = d.pick([None, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
    if mode == "cubic":
        attrs["cubic_coeff_a"] = d.pick([None, -0.5])
        attrs["exclude_outside"] = d.pick([None, 0, 1])
    roi = None
    if attrs["coordinate_transformation_mode"] == "tf_crop_and_resize":
        roi = np.array([0, 0] + [0.1] * (rank - 2) + [1, 1] + [0.8] * (rank - 2), "float32")
        attrs["extrapolation_value"] = d.maybe(7.0)
    if d.opset >= 18 and mode != "nearest" and d.coin(0.3) and transform != "tf_crop_and_resize":
        attrs["antialias"] = 1
    use_sizes = d.coin()
    empty = np.array([], "float32") if d.opset < 13 else None
    if use_sizes:
        sizes = [1, shape[1]] + [d.int(1, 8) for _ in range(rank - 2)]
        if d.opset >= 18 and d.coin(0.3):
            attrs["keep_aspect_ratio_policy"] = d.pick(["stretch", "not_larger", "not_smaller"])
            if attrs["keep_aspect_ratio_policy"] != "stretch":
                attrs["axes"] = list(range(2, rank))
                sizes = sizes[2:]
                roi = None if roi is None else np.array([0.1] * (rank - 2) + [0.8] * (rank - 2), "float32")
        inputs = [d.real(shape), roi if roi is not None else empty, empty, np.array(sizes, "int64")]
    else:
        inputs = [d.real(shape), roi if roi is not None else empty, scales]
    return Case(op, inputs, attrs, (1, 2, 3), fixed_axes=(0, 1) if mode != "cubic" and not attrs.get("antialias") and roi is None else (0, 1, 2, 3))


@case("GridSample", since=16)
def grid_sample(d, op):
    names = {"linear": "bilinear", "cubic": "bicubic"} if d.opset < 20 else {}
    mode = d.pick(["linear", "nearest", "cubic"])
    count = 2 if d.opset < 20 or mode == "cubic" else d.int(2, 3)
    space = [d.int(1, 4) for _ in range(count)]
    return Case(op, [d.real([2, 2, *space]), d.real([2, *[d.int(1, 4) for _ in range(count)], count], low=-1.3, high=1.3)],
                {"mode": names.get(mode, mode), "padding_mode": d.pick([None, "zeros", "border", "reflection"]), "align_corners": d.pick([None, 0, 1])})


@case("RoiAlign", since=10)
def roi_align(d, op):
    n = d.int(1, 3)
    corner = d.real([n, 2], low=0, high=4)
    rois = np.concatenate([corner, corner + d.real([n, 2], low=1, high=4)], 1)
    attrs = {"output_height": d.int(1, 3), "output_width": d.int(1, 3), "sampling_ratio": d.pick([None, 0, 2]), "spatial_scale": d.pick([None, 0.5]), "mode": d.pick([None, "avg", "max"])}
    if d.opset >= 16:
        attrs["coordinate_transformation_mode"] = d.pick([None, "half_pixel", "output_half_pixel"])
    return Case(op, [d.real([2, 2, 6, 6]), rois, d.whole([n], 0, 1)], attrs)


@case("MaxRoiPool")
def max_roi_pool(d, op):
    n = d.int(1, 3)
    corner = d.whole([n, 2], 0, 3)
    rois = np.concatenate([d.whole([n, 1], 0, 1), corner, corner + d.whole([n, 2], 0, 3)], 1).astype("float32")
    return Case(op, [d.real([2, 2, 6, 6]), rois], {"pooled_shape": [d.int(1, 3), d.int(1, 3)], "spatial_scale": d.pick([None, 0.5])})


@case("NonMaxSuppression", since=10)
def nms(d, op):
    n = d.int(1, 6)
    corner = d.real([1, n, 2], low=0, high=4)
    boxes = np.concatenate([corner, corner + d.real([1, n, 2], low=1, high=3)], 2)
    inputs = [boxes.astype("float32"), d.real([1, d.int(1, 2), n], low=0, high=1), np.array([d.int(1, 4)], "int64"), np.array([0.4], "float32")]
    if d.coin():
        inputs.append(np.array([0.3], "float32"))
    return Case(op, inputs, {"center_point_box": d.pick([None, 0, 1])}, (2,), fixed=(0, 1))


@case("MaxUnpool", since=9)
def max_unpool(d, op):
    h, w = d.int(1, 3), d.int(1, 3)
    flat = np.stack([d.rng.permutation(4 * h * w)[: h * w].reshape(h, w) for _ in range(2)])[None]
    for c in range(2):
        flat[0, c] += c * 4 * h * w
    return Case(op, [d.real([1, 2, h, w]), flat.astype("int64")], {"kernel_shape": [2, 2], "strides": [2, 2]})


@case("LSTM", "GRU", "RNN")
def recurrent(d, op):
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    t, b, i, h = [d.int(1, 4) for _ in range(4)]
    direction = d.pick([None, "forward", "reverse", "bidirectional"])
    n = 2 if direction == "bidirectional" else 1
    layout = d.pick([None, None, 0]) if d.opset >= 14 else None
    inputs = [d.real([t, b, i]), d.real([n, gates * h, i], low=-1, high=1), d.real([n, gates * h, h], low=-1, high=1),
              d.maybe(d.real([n, 2 * gates * h], low=-1, high=1)), d.maybe(d.whole([b], 1, t, "int32")), d.maybe(d.real([n, b, h]))]
    if op == "LSTM":
        inputs += [d.maybe(d.real([n, b, h])), d.maybe(d.real([n, 3 * h]))]
    while inputs[-1] is None:
        inputs.pop()
    attrs = {"hidden_size": h, "direction": direction, "clip": d.maybe(0.7, 0.3), "layout": layout}
    if op == "GRU":
        attrs["linear_before_reset"] = d.pick([None, 0, 1])
    if op == "LSTM":
        attrs["input_forget"] = d.pick([None, None, 0, 1])
    if d.coin(0.4):
        per = {"LSTM": 3, "GRU": 2, "RNN": 1}[op]
        names = ["Sigmoid", "Tanh", "Relu", "HardSigmoid", "Softsign", "Softplus", "Elu", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "Affine"]
        acts = [d.pick(names if d.coin() else names[:3]) for _ in range(per * n)]
        attrs["activations"] = acts
        alpha = {"HardSigmoid": 0.3, "Elu": 0.8, "LeakyRelu": 0.1, "ThresholdedRelu": 0.2, "ScaledTanh": 0.9, "Affine": 0.7}
        beta = {"HardSigmoid": 0.4, "ScaledTanh": 0.8, "Affine": 0.1}
        attrs["activation_alpha"] = [alpha[a] for a in acts if a in alpha] or None
        attrs["activation_beta"] = [beta[a] for a in acts if a in beta] or None
    return Case(op, inputs, attrs, d.pick([(1, 2, 3), ()]), (0, 1, 2) if op == "LSTM" else (0, 1), fixed=(1, 2, 3, 5, 6, 7), fixed_axes=(2,))


@case("QuantizeLinear", since=10)
def quantize(d, op):
    shape = d.shape(1, 4)
    to = d.pick(["uint8", "int8"])
    axis = d.axis(len(shape))
    per = d.opset >= 13 and d.coin()
    scale = d.real([shape[axis]] if per else [], low=0.05, high=0.2)
    zero = d.of([shape[axis]] if per else [], to, 0, 20)
    return Case(op, [d.real(shape, low=-10, high=10), scale] + ([zero] if to == "int8" or d.coin() else []), {"axis": axis if per else None}, d.pick([(1, 2), ()]), near=0)


@case("DequantizeLinear", since=10)
def dequantize(d, op):
    shape = d.shape(1, 4)
    dtype = d.pick(["uint8", "int8"])
    axis = d.axis(len(shape))
    per = d.opset >= 13 and d.coin()
    own = [shape[axis]] if per else []
    return Case(op, [d.of(shape, dtype, -100, 100), d.real(own, low=0.05, high=0.2)] + ([d.of(own, dtype, -20, 20)] if d.coin() else []), {"axis": axis if per else None}, d.pick([(1, 2), (), (0, 1, 2)]))


@case("DynamicQuantizeLinear", since=11)
def dynamic_quantize(d, op):
    return Case(op, [d.real(d.shape(1, 3), low=-10, high=10)], wanted=(0, 1, 2))


@case("MatMulInteger", since=10)
def matmul_integer(d, op):
    m, k, n = [d.int(1, 5) for _ in range(3)]
    batch = d.shape(0, 2, 3)
    a, b = d.pick(["uint8", "int8"]), d.pick(["uint8", "int8"])
    inputs = [d.of([*batch, m, k], a, -100, 100), d.of([k, n], b, -100, 100)]
    if d.coin():
        inputs.append(d.of([] if d.coin() else [1], a, -10, 10))
        if d.coin():
            inputs.append(d.of(d.pick([[], [1], [n]]), b, -10, 10))
    return Case(op, inputs, {}, d.pick([(1, 2, 3), ()]))


@case("ConvInteger", since=10)
def conv_integer(d, op):
    kernel, sizes, attrs = windows(d, 2, 0)
    inputs = [d.of([1, 2, *sizes], "uint8", 0, 200), d.of([3, 2, *kernel], d.pick(["uint8", "int8"]), -50, 100)]
    if d.coin():
        inputs.append(np.array(5, "uint8"))
        if d.coin():
            inputs.append(d.of([], inputs[1].dtype, 0, 20))
    return Case(op, inputs, attrs, (1, 2, 3), fixed=(0, 1))


@case("QLinearMatMul", since=10)
def qlinear_matmul(d, op):
    m, k, n = [d.int(1, 5) for _ in range(3)]
    a, b, y = d.pick([("uint8", "uint8", "uint8"), ("uint8", "int8", "uint8"), ("int8", "int8", "int8")])
    per = d.coin()
    return Case(op, [d.of([m, k], a, -100, 100), np.float32(0.02), d.of([], a, 0, 20), d.of([k, n], b, -100, 100),
                     d.real([n] if per else [], low=0.01, high=0.03), d.of([n] if per else [], b, 0, 20), np.float32(0.1), d.of([], y, 0, 20)], {}, (3, 4, 5), near=1)


@case("QLinearConv", since=10)
def qlinear_conv(d, op):
    kernel, sizes, attrs = windows(d, 2, 0)
    x, w = d.pick([("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8")])
    out = 3
    per = d.coin()
    inputs = [d.of([1, 2, *sizes], x, -100, 100), np.float32(0.02), d.of([], x, 0, 20), d.of([out, 2, *kernel], w, -100, 100),
              d.real([out] if per else [], low=0.01, high=0.03), np.zeros([out] if per else [], w), np.float32(0.1), d.of([], x, 0, 20)]
    if d.coin():
        inputs.append(d.whole([out], -50, 50, "int32"))
    return Case(op, inputs, attrs, (1, 2, 3, 4, 5, 6, 7, 8), near=1, fixed=(0,))


@case("Det", since=11)
def det(d, op):
    n = d.int(1, 4)
    return Case(op, [d.real([*d.shape(0, 2, 3), n, n])], fixed_axes=(0, 1, 2, 3))


@case("Col2Im", since=18)
def col2im(d, op):
    block, image = [d.int(1, 2), d.int(1, 3)], [d.int(3, 5), d.int(3, 5)]
    strides, pads = d.maybe([d.int(1, 2), d.int(1, 2)]), d.maybe([d.int(0, 1) for _ in range(4)])
    s, p = strides or [1, 1], pads or [0] * 4
    places = [(image[a] + p[a] + p[2 + a] - block[a]) // s[a] + 1 for a in range(2)]
    return Case(op, [d.real([1, 2 * block[0] * block[1], places[0] * places[1]]), np.array(image, "int64"), np.array(block, "int64")], {"strides": strides, "pads": pads}, (1, 2), fixed=(0,))


@case("CenterCropPad", since=18)
def center(d, op):
    shape = d.shape(2, 3)
    axes = d.maybe([0, 1])
    return Case(op, [d.real(shape), np.array([d.int(1, 6) for _ in (axes or shape)], "int64")], {"axes": axes}, (1,), fixed=(0,))


@case("DFT", since=17)
def dft(d, op):
    shape = [d.int(1, 2), d.int(2, 6), d.int(2, 5), d.pick([1, 2])]
    axis = d.pick([1, 2])
    onesided = d.pick([None, 0, 1]) if shape[3] == 1 else None
    inverse = d.pick([None, 0, 1]) if not onesided else None
    inputs, attrs = [d.real(shape)], {"inverse": inverse, "onesided": onesided}
    length = np.array(d.int(2, 7), "int64") if d.coin(0.4) else None
    if d.opset < 20:
        attrs["axis"] = axis
        inputs += [length] if length is not None else []
    else:
        inputs += [length, np.array(axis, "int64")]
    return Case(op, inputs, attrs, (1, 2), fixed=(0,))


@case("AffineGrid", since=20)
def affine(d, op):
    count = d.int(2, 3)
    return Case(op, [d.real([2, count, count + 1]), np.array([2, 1] + [d.int(2, 4) for _ in range(count)], "int64")], {"align_corners": d.pick([None, 0, 1])}, (1,))


@case("HannWindow", "HammingWindow", "BlackmanWindow", since=17)
def signal_window(d, op):
    return Case(op, [np.array(d.int(2, 9), "int64")], {"periodic": d.pick([None, 0, 1])}, d.pick([(0,), ()]))


@case("Attention", since=23)
def attention(d, op):
    b, hq, kv, s, t, size = d.int(1, 2), 4, d.pick([1, 2, 4]), d.int(1, 4), d.int(1, 5), d.pick([2, 4])
    flat = d.coin()
    past = d.int(0, 3) if d.coin(0.4) else None
    of = lambda heads, n: d.real([b, n, heads * size] if flat else [b, heads, n, size], low=-1, high=1)
    inputs = [of(hq, s), of(kv, t), of(kv, t)]
    total = t + (past or 0)
    mask = None
    if d.coin():
        mask = d.of(d.pick([[s, total], [1, 1, s, total], [b, hq, s, total], [b, 1, s, total]]), "bool") if d.coin(0.3) else d.real(d.pick([[s, total], [1, 1, s, total], [b, hq, s, total]]))
        if mask.dtype == bool:
            mask[..., 0] = True
    inputs.append(mask)
    if past is not None:
        inputs += [d.real([b, kv, past, size]), d.real([b, kv, past, size])]
    while inputs[-1] is None:
        inputs.pop()
    attrs = {"is_causal": d.pick([None, 0, 1]), "scale": d.maybe(0.3), "softcap": d.maybe(2.0, 0.3)}
    if flat:
        attrs |= {"q_num_heads": hq, "kv_num_heads": kv}
    return Case(op, inputs, attrs, wanted=(0, 1, 2) if past is not None else (0,), fixed_axes=(1, 2, 3))


@case("RotaryEmbedding", since=23)
def rotary(d, op):
    b, heads, s, size = d.int(1, 2), d.int(1, 3), d.int(1, 4), d.pick([4, 8])
    flat, width = d.coin(), d.pick([None, size // 2])
    half = (width or size) // 2
    x = d.real([b, s, heads * size] if flat else [b, heads, s, size])
    positions = d.coin()
    table = [10, half] if positions else [b, s, half]
    inputs = [x, d.real(table, low=-1, high=1), d.real(table, low=-1, high=1)] + ([d.whole([b, s], 0, 9)] if positions else [])
    return Case(op, inputs, {"interleaved": d.pick([None, 0, 1]), "rotary_embedding_dim": width, "num_heads": heads if flat else None}, fixed_axes=(1, 2, 3))


# Operators in the domain com.microsoft.

def heads_split(d):
    b, s = d.int(1, 2), d.int(1, 4)
    return b, s, d.pick([2, 4]), d.pick([4, 8])


@case("GroupQueryAttention", domain=MS)
def group_query(d, op):
    b, s, size = d.int(1, 2), d.int(1, 4), 16
    hq, kv = d.pick([(4, 2), (4, 4), (2, 1)])
    past = d.pick([0, 0, 3])
    if past:
        s = d.pick([1, s])
    rotary, packed = d.coin(), d.coin(0.3)
    q, k, v = [d.real([b, s, heads * size], low=-1, high=1) for heads in (hq, kv, kv)]
    inputs = [np.concatenate([q, k, v], 2), None, None] if packed else [q, k, v]
    inputs += [d.real([b, kv, past, size], low=-1, high=1), d.real([b, kv, past, size], low=-1, high=1)]
    inputs += [np.full([b], past + s - 1, "int32"), np.array(past + s, "int32")]
    attrs = {"num_heads": hq, "kv_num_heads": kv, "scale": d.maybe(0.2), "softcap": d.maybe(3.0, 0.3), "local_window_size": d.maybe(2, 0.3), "smooth_softmax": d.maybe(1, 0.2)}
    half = size // 2
    inputs += [d.real([12, half], low=-1, high=1), d.real([12, half], low=-1, high=1)] if rotary else [None, None]
    attrs |= {"do_rotary": 1, "rotary_interleaved": d.pick([None, 0, 1])} if rotary else {}
    positions = np.tile(np.arange(past, past + s), (b, 1)).astype("int64") if rotary and d.coin(0.2) else None
    inputs += [positions, d.real(d.pick([[1, 1, s, past + s], [b, hq, s, past + s], [b, 1, s, past + s]])) if d.coin(0.2) else None]
    inputs.append(d.real([hq]) if d.coin(0.2) else None)
    while inputs[-1] is None:
        inputs.pop()
    return Case(op, inputs, attrs, d.pick([(7, 8), ()]), (0, 1, 2), fixed=(6, 7, 8, 11), fixed_axes=(1, 2, 3))


@case("MultiHeadAttention", domain=MS)
def multi_head(d, op):
    b, s, heads, size = heads_split(d)
    t = d.pick([s, d.int(1, 5)])
    form = d.pick(["apart", "apart", "packed_kv", "packed_qkv", "cross"])
    real = lambda *shape: d.real(list(shape), low=-1, high=1)
    if form == "packed_qkv":
        t, inputs = s, [real(b, s, heads, 3, size), None, None]
    elif form == "packed_kv":
        inputs = [real(b, s, heads * size), real(b, t, heads, 2, size), None]
    elif form == "cross":
        inputs = [real(b, s, heads * size), real(b, heads, t, size), real(b, heads, t, size)]
    else:
        inputs = [real(b, s, heads * size), real(b, t, heads * size), real(b, t, heads * size)]
    past = d.int(1, 3) if form == "apart" and d.coin(0.4) else 0
    total = t + past
    inputs.append(real(3 * heads * size) if form == "apart" and d.coin() else None)
    mask = d.pick([None, None, "lengths", "keys", "all"])
    if form in ("packed_qkv", "packed_kv"):
        mask = d.pick([None, "keys", "lengths"])
    shapes = {"lengths": [b], "keys": [b, total], "all": [b, s, total]}
    value = None if mask is None else d.whole([b], 1, total, "int32") if mask == "lengths" else d.whole(shapes[mask], 0, 1, "int32")
    if value is not None and mask != "lengths":
        value[..., 0] = 1
    inputs += [value, real(*d.pick([[b, heads, s, total], [1, heads, s, total], [1, 1, s, total]])) if d.coin(0.3) else None]
    inputs += [real(b, heads, past, size), real(b, heads, past, size)] if past else []
    while inputs[-1] is None:
        inputs.pop()
    return Case(op, inputs, {"num_heads": heads, "scale": d.maybe(0.3), "unidirectional": d.pick([None, 0, 1]), "mask_filter_value": d.maybe(-100.0, 0.3)}, (), (0, 1, 2) if past else (0,), fixed_axes=(1, 2, 3, 4))


@case("Attention", domain=MS)
def packed_attention(d, op):
    b, s, heads, size = heads_split(d)
    hidden = heads * size
    given = d.int(2, 6)
    sizes = d.pick([None, [hidden, hidden, 2 * hidden]])
    width = sum(sizes) if sizes else 3 * hidden
    past = d.int(1, 3) if d.coin(0.3) and not sizes else 0
    total = s + past
    mask = d.pick([None, "lengths", "keys", "all", "bounds"])
    if mask == "lengths":
        value = d.whole([b], 1, total, "int32")
    elif mask == "bounds":
        value = np.concatenate([d.whole([b], 1, total), np.zeros(b, "int64")]).astype("int32")
    else:
        value = None if mask is None else d.whole([b, total] if mask == "keys" else [b, s, total], 0, 1, "int32")
        if value is not None:
            value[..., 0] = 1
    inputs = [d.real([b, s, given]), d.real([given, width], low=-1, high=1), d.real([width]), value,
              d.real([2, b, heads, past, size]) if past else None, d.real([b, heads, s, total]) if d.coin(0.3) else None]
    while inputs[-1] is None:
        inputs.pop()
    return Case(op, inputs, {"num_heads": heads, "unidirectional": d.pick([None, 0, 1]), "scale": d.maybe(0.3), "qkv_hidden_sizes": sizes, "mask_filter_value": d.maybe(-100.0, 0.3)}, (1, 2), (0, 1) if past else (0,), fixed_axes=(1, 2, 3, 4))


@case("RotaryEmbedding", domain=MS)
def rotary_ms(d, op):
    b, heads, s, size = d.int(1, 2), d.int(1, 3), d.int(1, 4), d.pick([4, 8])
    flat, width = d.coin(), d.pick([None, size // 2])
    half = (width or size) // 2
    x = d.real([b, s, heads * size] if flat else [b, heads, s, size])
    positions = d.whole([1], 0, 4) if d.coin() else d.whole([b, s], 0, 9)
    attrs = {"interleaved": d.pick([None, 0, 1]), "rotary_embedding_dim": width, "num_heads": heads if width else d.maybe(heads)}
    return Case(op, [x, positions, d.real([12, half], low=-1, high=1), d.real([12, half], low=-1, high=1)], attrs, d.pick([(2, 3), ()]), fixed_axes=(1, 2, 3))


@case("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain=MS)
def skip_norm(d, op):
    b, s, h = d.int(1, 3), d.int(1, 4), d.int(2, 6)
    flat = d.coin(0.2)
    shape = [s, h] if flat else [b, s, h]
    skip = shape if flat else d.pick([shape, shape, [1, s, h], [s, h]])
    inputs = [d.real(shape), d.real(skip), d.real([h])]
    if op == "SkipLayerNormalization":
        inputs.append(d.maybe(d.real([h])))
    inputs.append(d.maybe(d.real([h])))
    while inputs[-1] is None:
        inputs.pop()
    return Case(op, inputs, {"epsilon": d.maybe(1e-3)}, wanted=d.pick([(0,), (0, 3)]), fixed_axes=(2,) if d.coin() else (0, 1, 2))


@case("SimplifiedLayerNormalization")
def simplified(d, op):
    shape = d.shape(2, 3)
    return Case(op, [d.real(shape), d.real(shape[-1:])], {"axis": -1, "epsilon": d.maybe(1e-3), "stash_type": d.maybe(1)}, wanted=d.pick([(0,), (0, 1)]))


@case("EmbedLayerNormalization", domain=MS)
def embed_norm(d, op):
    b, s, h = d.int(1, 2), d.int(1, 4), d.int(2, 6)
    segments = d.coin()
    inputs = [d.whole([b, s], 0, 8, "int32"), d.whole([b, s], 0, 1, "int32") if segments else None, d.real([9, h]), d.real([8, h]),
              d.real([2, h]) if segments else None, d.real([h]), d.real([h])]
    if d.coin():
        inputs.append(np.sort(d.whole([b, s], 0, 1, "int32"))[:, ::-1].copy())
    if d.coin(0.3):
        inputs += [None] * (8 - len(inputs)) + [d.whole([b, s], 0, 7, "int32")]
    wanted = (0, 1)
    return Case(op, inputs, {"epsilon": d.maybe(1e-3)}, (2, 3, 4, 5, 6), wanted, fixed_axes=(1,))


@case("FastGelu", "BiasGelu", "Gelu", "QuickGelu", domain=MS)
def gelu(d, op):
    shape = d.shape(1, 3)
    inputs = [d.real(shape)]
    if op == "BiasGelu" or op == "FastGelu" and d.coin():
        inputs.append(d.real(shape[-1:]))
    return Case(op, inputs, {"alpha": d.maybe(1.2)} if op == "QuickGelu" else {})


@case("FusedMatMul", domain=MS)
def fused_matmul(d, op):
    batch, (m, k, n) = d.shape(0, 2, 3), [d.int(1, 4) for _ in range(3)]
    ta, tb, ba, bb = [d.pick([None, 0, 1]) for _ in range(4)]
    if not batch:
        ba = bb = None
    def dims(rows, columns, trans, leads):
        out = [*batch, columns, rows] if trans else [*batch, rows, columns]
        if leads:
            out = [out[-2], *out[:-2], out[-1]]
        return out
    return Case(op, [d.real(dims(m, k, ta, ba)), d.real(dims(k, n, tb, bb))], {"transA": ta, "transB": tb, "transBatchA": ba, "transBatchB": bb, "alpha": d.maybe(0.5)}, d.pick([(), (1,)]))


@case("FusedConv", domain=MS)
def fused_conv(d, op):
    kernel, sizes, attrs = windows(d, 2, 0)
    activation = d.pick([("Relu", None), ("Tanh", None), ("Sigmoid", None), ("LeakyRelu", [0.1]), ("Clip", [-1.0, 1.0]), ("HardSigmoid", [0.3, 0.4]), (None, None)])
    inputs = [d.real([1, 2, *sizes]), d.real([3, 2, *kernel]), d.real([3])]
    return Case(op, inputs, {**attrs, "activation": activation[0], "activation_params": activation[1]}, (1, 2), fixed=(0,))


@case("FusedGemm", domain=MS)
def fused_gemm(d, op):
    m, k, n = [d.int(1, 5) for _ in range(3)]
    activation = d.pick([("Relu", None), ("LeakyRelu", 0.1), ("Tanh", None), ("Sigmoid", None)])
    return Case(op, [d.real([m, k]), d.real([k, n]), d.real([n])], {"alpha": d.maybe(0.5), "beta": d.maybe(2.0), "activation": activation[0], "activation_alpha": activation[1]}, (1, 2))


@case("MatMulNBits", domain=MS)
def matmul_n_bits(d, op):
    k, n, block, bits = d.pick([16, 32, 40, 48]), d.int(1, 4), d.pick([16, 32]), d.pick([4, 4, 8, 2])
    blocks = -(-k // block)
    inputs = [d.real([*d.shape(1, 2, 3), k]), d.of([n, blocks, block * bits // 8], "uint8", 0, 255), d.real([n, blocks] if d.coin() else [n * blocks], low=0.01, high=0.1)]
    zero = d.pick([None, "packed", "float"])
    if zero == "packed":
        inputs.append(d.of([n, (blocks * bits + 7) // 8], "uint8", 0, 255))
    elif zero == "float":
        inputs.append(d.real([n, blocks], low=0, high=15))
    bias = d.coin(0.3)
    if bias:
        inputs += [None] * (5 - len(inputs)) + [d.real([n])]
    return Case(op, inputs, {"K": k, "N": n, "block_size": block, "bits": bits}, (1, 2, 3, 5), fixed_axes=(2,))


@case("GatherBlockQuantized", domain=MS)
def gather_blocks(d, op):
    rows, k, block = d.int(2, 5), d.pick([16, 32, 48]), 16
    bits = d.pick([4, 8])
    packed = d.of([rows, k * bits // 8], "uint8", 0, 255)
    inputs = [packed, d.whole(d.shape(0, 2, 3), 0, rows - 1, d.pick(["int64", "int32"])), d.real([rows, k // block], low=0.01, high=0.1)]
    if d.coin():
        inputs.append(d.of([rows, (k // block * bits + 7) // 8], "uint8", 0, 255))
    return Case(op, inputs, {"gather_axis": d.maybe(0), "quantize_axis": 1, "block_size": block, "bits": bits}, (0, 2, 3))


@case("QLinearAdd", "QLinearMul", domain=MS)
def qlinear_binary(d, op):
    shape, dtype = d.shape(1, 3), d.pick(["uint8", "int8"])
    zero = lambda: d.of([], dtype, 0, 30)
    return Case(op, [d.of(shape, dtype, -100, 200 if dtype == "uint8" else 100), np.float32(0.05), zero(), d.of(d.broadcast(shape), dtype, -100, 100), np.float32(0.04), zero(), np.float32(0.2), zero()], {}, (1, 2, 4, 5, 6, 7), near=1)


@case("QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax", domain=MS)
def qlinear_unary(d, op):
    shape, dtype = d.shape(1, 3), d.pick(["uint8", "int8"])
    attrs = {"alpha": d.maybe(0.2)} if op == "QLinearLeakyRelu" else {"axis": d.pick([-1, 0]), "opset": d.pick([12, 13])} if op == "QLinearSoftmax" else {}
    scale = 1 / 256 if op == "QLinearSoftmax" else 0.03
    zero = np.array(0 if dtype == "uint8" else -128, dtype) if op == "QLinearSoftmax" else d.of([], dtype, 0, 20)
    if op == "QLinearSoftmax" and attrs["opset"] < 13 and attrs["axis"] == 0 and len(shape) > 1:
        attrs["axis"] = -1
    return Case(op, [d.of(shape, dtype, -100, 100), np.float32(0.05), d.of([], dtype, 0, 20), np.float32(scale), zero], attrs, (1, 2, 3, 4), near=1)


@case("QLinearAveragePool", "QLinearGlobalAveragePool", domain=MS)
def qlinear_pool(d, op):
    dtype, last = d.pick(["uint8", "int8"]), d.coin(0.3)
    tail = [np.float32(0.05), d.of([], dtype, 0, 20), np.float32(0.06), d.of([], dtype, 0, 20)]
    if op == "QLinearGlobalAveragePool":
        shape = [1, d.int(1, 4), d.int(1, 4), 2]
        return Case(op, [d.of(shape, dtype, -100, 100), *tail], {"channels_last": int(last)}, (1, 2, 3, 4), near=1)
    kernel, sizes, attrs = windows(d, 2, 0, dilate=False)
    attrs |= {"kernel_shape": kernel, "count_include_pad": d.pick([None, 0, 1]), "ceil_mode": d.pick([None, 0, 1]), "channels_last": int(last)}
    return Case(op, [d.of([1, *sizes, 2] if last else [1, 2, *sizes], dtype, -100, 100), *tail], attrs, (1, 2, 3, 4), near=1, fixed=(0,))


@case("QLinearConcat", domain=MS)
def qlinear_concat(d, op):
    shape, dtype = d.shape(1, 3), d.pick(["uint8", "int8"])
    axis = d.int(0, len(shape) - 1)
    inputs = [np.float32(0.06), d.of([], dtype, 0, 20)]
    for _ in range(d.int(1, 3)):
        own = list(shape)
        own[axis] = d.int(1, 3)
        inputs += [d.of(own, dtype, -100, 100), np.float32(d.pick([0.05, 0.06])), d.of([], dtype, 0, 20)]
    return Case(op, inputs, {"axis": axis}, tuple(k for k in range(len(inputs)) if k < 2 or k % 3 != 2), near=1)


@case("QLinearWhere", domain=MS)
def qlinear_where(d, op):
    shape, dtype = d.shape(1, 3), d.pick(["uint8", "int8"])
    zero = lambda: d.of([], dtype, 0, 30)
    return Case(op, [d.of(shape, "bool"), d.of(shape, dtype, -100, 100), np.float32(0.05), zero(), d.of(d.broadcast(shape), dtype, -100, 100), np.float32(0.04), zero(), np.float32(0.06), zero()], {}, (2, 3, 5, 6, 7, 8), near=1)


@case("QLinearConv", domain=MS)
def qlinear_conv_ms(d, op):
    kernel, sizes, attrs = windows(d, 2, 0)
    x, w, out, last = *d.pick([("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8")]), 3, d.coin()
    inputs = [d.of([1, *sizes, 2] if last else [1, 2, *sizes], x, -100, 100), np.float32(0.02), d.of([], x, 0, 20), d.of([out, 2, *kernel], w, -100, 100),
              np.float32(0.02), np.zeros([], w), np.float32(0.1), d.of([], x, 0, 20)]
    if d.coin():
        inputs.append(d.whole([out], -50, 50, "int32"))
    return Case(op, inputs, {**attrs, "channels_last": int(last)}, (1, 2, 3, 4, 5, 6, 7, 8), near=1, fixed=(0,))


@case("QGemm", domain=MS)
def q_gemm(d, op):
    m, k, n = [d.int(1, 5) for _ in range(3)]
    ta, tb = d.pick([None, 0, 1]), d.pick([None, 0, 1])
    a, b = d.pick([("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8")])
    inputs = [d.of([k, m] if ta else [m, k], a, -50, 50), np.float32(0.05), d.of([], a, 0, 20), d.of([n, k] if tb else [k, n], b, -50, 50), np.float32(0.04), d.of([], b, 0, 20),
              d.maybe(d.whole([n], -100, 100, "int32"))]
    if d.coin():
        inputs += [np.float32(0.1), d.of([], a, 0, 20)]
    while inputs[-1] is None:
        inputs.pop()
    return Case(op, inputs, {"transA": ta, "transB": tb, "alpha": d.maybe(0.5)}, tuple(range(1, 9)), near=1)


@case("QAttention", domain=MS)
def q_attention(d, op):
    b, s, heads, size = heads_split(d)
    hidden, given = heads * size, 4
    w = d.pick(["uint8", "int8"])
    mask = d.maybe(d.whole([b], 1, s, "int32"))
    inputs = [d.of([b, s, given], "uint8", 0, 200), d.of([given, 3 * hidden], w, -100, 100), d.real([3 * hidden]), np.array(0.02, "float32"), np.array(0.01, "float32"),
              mask, np.array(d.int(0, 100), "uint8"), np.array(d.int(0, 50), w)]
    return Case(op, inputs, {"num_heads": heads, "unidirectional": d.pick([None, 0, 1])}, (1, 2, 3, 4, 6, 7), fixed_axes=(2,))


@case("QEmbedLayerNormalization", domain=MS)
def q_embed(d, op):
    b, s, h = d.int(1, 2), d.int(1, 4), 4
    table = lambda n: d.of([n, h] if n else [h], "uint8", 0, 255)
    scale = lambda: np.array(0.02, "float32")
    zero = lambda: np.array(d.int(0, 100), "uint8")
    inputs = [d.whole([b, s], 0, 8, "int32"), d.whole([b, s], 0, 1, "int32"), table(9), table(8), table(2), table(0), table(0), d.maybe(np.ones([b, s], "int32")),
              *[scale() for _ in range(5)], *[zero() for _ in range(5)]]
    return Case(op, inputs, {"epsilon": d.maybe(1e-3)}, (2, 3, 4, 5, 6, *range(8, 18)), (0, 1), fixed_axes=(1,))


@case("DynamicQuantizeMatMul", "MatMulIntegerToFloat", domain=MS)
def integer_to_float(d, op):
    m, k, n = [d.int(1, 5) for _ in range(3)]
    b, per = d.pick(["uint8", "int8"]), d.coin()
    own = [n] if per else d.pick([[], [1]])
    w, scale, zero = d.of([k, n], b, -100, 100), d.real(own, low=0.01, high=0.1), d.maybe(d.of(own, b, 0, 20))
    bias = d.maybe(d.real([n]))
    if op == "DynamicQuantizeMatMul":
        inputs = [d.real([*d.shape(0, 1), m, k]), w, scale, zero, bias]
        constants = (1, 2, 3, 4)
    else:
        a = d.pick(["uint8", "int8"]) if b == "int8" else "uint8"
        inputs = [d.of([m, k], a, -100, 100), w, np.float32(0.03), scale, d.maybe(d.of([], a, 0, 20)), zero, bias]
        constants = (1, 2, 3, 4, 5, 6)
    while inputs[-1] is None:
        inputs.pop()
    return Case(op, inputs, {}, constants, near=1)


@case("DynamicQuantizeLSTM", domain=MS)
def dynamic_lstm(d, op):
    t, b, i, h = [d.int(1, 4) for _ in range(4)]
    direction = d.pick([None, "reverse", "bidirectional"])
    n = 2 if direction == "bidirectional" else 1
    dtype = d.pick(["uint8", "int8"])
    inputs = [d.real([t, b, i]), d.of([n, i, 4 * h], dtype, -60, 60), d.of([n, h, 4 * h], dtype, -60, 60), d.maybe(d.real([n, 8 * h])), None, d.maybe(d.real([n, b, h])), d.maybe(d.real([n, b, h])), None,
              d.real([n], low=0.005, high=0.01), np.zeros([n], dtype), d.real([n], low=0.005, high=0.01), np.zeros([n], dtype)]
    return Case(op, inputs, {"hidden_size": h, "direction": direction}, (1, 2, 3, 8, 9, 10, 11), (0, 1, 2), near=0, fixed=(5, 6), fixed_axes=(2,))


@case("Pad", domain=MS)
def pad_ms(d, op):
    shape = d.shape(1, 3)
    return Case(op, [d.real(shape), d.whole([2 * len(shape)], 0, 2)] + ([np.array([1.5], "float32")] if d.coin() else []), {}, (1, 2))


@case("Range", domain=MS)
def range_ms(d, op):
    return Case(op, [np.array(d.int(0, 3), "int64"), np.array(d.int(4, 9), "int64")] + ([np.array(2, "int64")] if d.coin() else []), {}, (0, 1, 2))


@case("ExpandDims", domain=MS)
def expand_dims(d, op):
    shape = d.shape(1, 3)
    return Case(op, [d.real(shape), np.array([d.int(0, len(shape))] if d.coin(0) else d.int(0, len(shape)), "int32")], {}, (1,))


@case("Trilu", domain=MS)
def trilu_ms(d, op):
    return Case(op, [d.real(d.shape(2, 3))] + ([np.array(d.int(-2, 2), "int64")] if d.coin() else []), {"upper": d.pick([None, 0, 1])}, (1,))


@case("TransposeMatMul", domain=MS)
def transpose_matmul(d, op):
    m, k, n = [d.int(1, 5) for _ in range(3)]
    ta, tb = d.pick([None, 0, 1]), d.pick([None, 0, 1])
    return Case(op, [d.real([k, m] if ta else [m, k]), d.real([n, k] if tb else [k, n])], {"transA": ta, "transB": tb, "alpha": d.maybe(0.5)})


@case("Unique", domain=MS)
def unique_ms(d, op):
    return Case(op, [d.whole([d.int(1, 6)], 0, 3).astype("float32")], {}, (), (0, 1, 2))


@case("GatherND", domain=MS)
def gather_nd_ms(d, op):
    shape = d.shape(2, 3)
    at = np.stack([d.whole([3], 0, shape[k] - 1) for k in range(2)], -1)
    return Case(op, [d.real(shape), at.astype(d.pick(["int32", "int64"]))])


@case("GridSample", domain=MS)
def grid_sample_ms(d, op):
    return Case(op, [d.real([1, 2, 4, 3]), d.real([1, 2, 3, 2], low=-1.2, high=1.2)], {"mode": d.pick([None, "bilinear", "nearest", "bicubic"]), "padding_mode": d.pick([None, "border", "reflection"]), "align_corners": d.pick([None, 1])})


@case("NhwcMaxPool", domain=MS)
def nhwc_max_pool(d, op):
    kernel, sizes, attrs = windows(d, 2, 0)
    return Case(op, [d.of([1, *sizes, 2], d.pick(["uint8", "int8"]), -100, 100)], {**attrs, "kernel_shape": kernel, "ceil_mode": d.pick([None, 1])}, fixed=(0,))


@case("Inverse", domain=MS)
def inverse(d, op):
    n = d.int(1, 4)
    return Case(op, [d.real([*d.shape(0, 1, 3), n, n]) + 3 * np.eye(n, dtype="float32")], fixed_axes=(0, 1, 2))


@case("CDist", domain=MS)
def cdist(d, op):
    k = d.int(1, 4)
    return Case(op, [d.real([d.int(1, 4), k]), d.real([d.int(1, 4), k])], {"metric": d.pick(["sqeuclidean", "euclidean"])})


@case("CropAndResize", domain=MS)
def crop_and_resize(d, op):
    n = d.int(1, 3)
    corner = d.real([n, 2], low=0, high=0.5)
    return Case(op, [d.real([2, 2, 5, 5]), np.concatenate([corner, corner + d.real([n, 2], low=0.1, high=0.7)], 1), d.whole([n], 0, 1, "int32"), np.array([d.int(1, 3), d.int(1, 3)], "int32")], {"mode": d.pick([None, "bilinear", "nearest"]), "extrapolation_value": d.maybe(2.0)}, (3,))


@case("MoE", "QMoE", domain=MS)
def moe(d, op):
    return None
