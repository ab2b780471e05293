"""Computes the expected results of PyTorch's operators with NumPy, for the tests of `plugins/pt2`.

    python tests/oracle/pt2_operators.py > tests/tests/pt2/operators.jsonl

Each line contains an operator, its arguments in the form of a .pt2 archive, and the results. Tensors are lists of data type, sizes and
elements.
"""

import json
import math

import numpy as np

import vision_cases

random = np.random.default_rng(7)
CODES = {name: code for code, name in enumerate(["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"], 1)}
CODES["bool"] = 12


def number(value):
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "inf", -math.inf: "-inf"}.get(value, "NaN")
    return value


def tensor(array):
    array = np.asarray(array)
    return [array.dtype.name, list(array.shape), [number(value) for value in array.ravel()]]


def arg(value):
    match value:
        case None:
            return {"as_none": True}
        case dict():
            return value
        case np.ndarray() | np.generic():
            return {"t": tensor(value)}
        case bool():
            return {"as_bool": value}
        case int():
            return {"as_int": value}
        case float():
            return {"as_float": number(value) if math.isfinite(value) else str(value).replace("inf", "Infinity")}
        case str():
            return {"as_string": value}
        case type():
            return {"as_scalar_type": CODES[np.dtype(value).name]}
        case list() if value and all(isinstance(one, np.ndarray) for one in value):
            return {"ts": [tensor(one) for one in value]}
        case list() if any(one is None or isinstance(one, np.ndarray) for one in value):
            return {"optional": [None if one is None else tensor(one) for one in value]}
        case list() if any(isinstance(one, float) for one in value):
            return {"as_floats": value}
        case list():
            return {"as_ints": value}
    raise TypeError(value)


def case(op, results, **args):
    results = results if isinstance(results, (list, tuple)) else [results]
    named = [[name.rstrip("_") if name == "self_" else name, arg(value)] for name, value in args.items()]
    print(json.dumps({"op": op, "args": named, "results": [tensor(result) for result in results]}))


def f32(*shape, low=-2.0, high=2.0):
    return random.uniform(low, high, shape).astype(np.float32)


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return (e / e.sum(axis, keepdims=True)).astype(x.dtype)


def single(x):
    return np.asarray(x).astype(np.float32)


erf = np.vectorize(math.erf, otypes=[np.float64])
X = f32(2, 3)
Y = f32(3)
P = f32(2, 3, low=0.1, high=3.0)
I = np.array([[1, -2, 7], [4, 5, -6]], np.int64)
J = np.array([2, -3, 4], np.int64)
B = np.array([[True, False, True], [False, False, True]])
H = X.astype(np.float16)


def unary():
    names = {"abs": np.abs, "neg": np.negative, "ceil": np.ceil, "floor": np.floor, "trunc": np.trunc, "square": np.square,
             "atan": np.arctan, "asinh": np.arcsinh, "cos": np.cos, "cosh": np.cosh, "exp": np.exp, "sin": np.sin, "sinh": np.sinh,
             "tan": np.tan, "tanh": np.tanh, "sign": np.sign, "round": np.round, "exp2": np.exp2, "expm1": np.expm1,
             "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "erf": erf, "erfc": lambda x: 1 - erf(x), "frac": lambda x: x - np.trunc(x),
             "isfinite": np.isfinite, "isinf": np.isinf, "isnan": np.isnan, "logical_not": np.logical_not,
             "relu": lambda x: np.maximum(x, 0), "relu6": lambda x: np.clip(x, 0, 6), "silu": lambda x: x / (1 + np.exp(-x)),
             "gelu": lambda x: x * 0.5 * (1 + erf(x / math.sqrt(2))), "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
             "hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6, "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
             "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))), "softsign": lambda x: x / (1 + np.abs(x)),
             "log_sigmoid": lambda x: -np.log1p(np.exp(-x)), "tanhshrink": lambda x: x - np.tanh(x)}
    for name, f in names.items():
        result = f(X.astype(np.float64))
        case(f"aten.{name}.default", result if result.dtype == bool else single(result), **{"self": X})
    for name, f in {"log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
                    "reciprocal": lambda x: 1 / x}.items():
        case(f"aten.{name}.default", single(f(P.astype(np.float64))), **{"self": P})
    for name, f in {"acos": np.arccos, "asin": np.arcsin, "atanh": np.arctanh, "logit": lambda x: np.log(x / (1 - x))}.items():
        x = f32(4, low=0.1, high=0.9)
        case(f"aten.{name}.default", single(f(x.astype(np.float64))), **{"self": x})
    case("aten.acosh.default", single(np.arccosh(P.astype(np.float64) + 1)), **{"self": P + np.float32(1)})
    tiny = np.array([1e-6, -2e-5, 0.0, 3.0, np.inf], np.float32)
    case("aten.log1p.default", single(np.log1p(tiny.astype(np.float64))), **{"self": tiny})
    case("aten.expm1.default", single(np.expm1(tiny.astype(np.float64))), **{"self": tiny})
    for name, f in {"sin": np.sin, "sqrt": lambda x: np.sqrt(np.abs(x)), "sigmoid": lambda x: 1 / (1 + np.exp(-x))}.items():
        x = np.abs(I) if name == "sqrt" else I
        case(f"aten.{name}.default", single(f(x.astype(np.float64))), **{"self": x})
    case("aten.abs.default", np.abs(I), **{"self": I})
    case("aten.floor.default", I, **{"self": I})
    case("aten.isnan.default", np.zeros((2, 3), bool), **{"self": I})
    case("aten.isfinite.default", np.ones((2, 3), bool), **{"self": I})
    case("aten.bitwise_not.default", ~I, **{"self": I})
    case("aten.bitwise_not.default", ~B, **{"self": B})
    case("aten.round.decimals", single(np.round(X.astype(np.float64), 1)), **{"self": X}, decimals=1)
    case("aten.gelu.default", single(0.5 * X * (1 + np.tanh(math.sqrt(2 / math.pi) * (X + 0.044715 * X**3)))), **{"self": X}, approximate="tanh")
    case("aten.elu.default", single(np.where(X > 0, X, 0.5 * np.expm1(X))), **{"self": X}, alpha=0.5)
    case("aten.elu.default", single(2 * np.where(X > 0, X, 0.5 * np.expm1(X * 3))), **{"self": X}, alpha=0.5, scale=2, input_scale=3)
    case("aten.celu.default", single(np.where(X > 0, X, 0.5 * np.expm1(X / 0.5))), **{"self": X}, alpha=0.5)
    case("aten.leaky_relu.default", single(np.where(X > 0, X, 0.01 * X)), **{"self": X})
    case("aten.leaky_relu.default", single(np.where(X > 0, X, 0.3 * X)), **{"self": X}, negative_slope=0.3)
    case("aten.hardtanh.default", np.clip(X, -1, 1), **{"self": X})
    case("aten.hardtanh.default", np.clip(X, np.float32(-0.5), np.float32(0.25)), **{"self": X}, min_val=-0.5, max_val=0.25)
    case("aten.softplus.default", single(np.log1p(np.exp(X.astype(np.float64)))), **{"self": X})
    case("aten.softplus.default", single(np.where(2 * X > 1, X, np.log1p(np.exp(2 * X)) / 2)), **{"self": X}, beta=2, threshold=1)
    case("aten.softshrink.default", single(np.where(X > 0.5, X - 0.5, np.where(X < -0.5, X + 0.5, 0))), **{"self": X})
    case("aten.hardshrink.default", single(np.where(np.abs(X) > 0.5, X, 0)), **{"self": X})
    case("aten.threshold.default", single(np.where(X > 0.5, X, -3)), **{"self": X}, threshold=0.5, value=-3)
    x = f32(2, 3, 2)
    slope = np.array([0.1, 0.2, 0.3], np.float32)
    case("aten.prelu.default", single(np.where(x > 0, x, x * slope[:, None])), **{"self": x}, weight=slope)
    case("aten._prelu_kernel.default", single(np.where(X > 0, X, X * slope)), **{"self": X}, weight=slope)
    x = f32(2, 4)
    case("aten.glu.default", single(x[:, :2] / (1 + np.exp(-x[:, 2:]))), **{"self": x})
    case("aten.dropout.default", X, input=X, p=0.5, train=False)
    case("aten.native_dropout.default", [X, np.ones((2, 3), bool)], input=X, p=0.5, train=False)


def binary():
    two = {"self": X, "other": Y}
    for name, f in {"mul": np.multiply, "add": np.add, "sub": np.subtract, "maximum": np.maximum, "minimum": np.minimum}.items():
        overload = "default" if "imum" in name else "Tensor"
        case(f"aten.{name}.{overload}", f(X, Y), **two)
        case(f"aten.{name}.{overload}", f(I, J), **{"self": I, "other": J})
        case(f"aten.{name}.{overload}", single(f(I, X)), **{"self": I, "other": X})
    case("aten.add.Tensor", single(X + 2.5 * Y), **two, alpha=2.5)
    case("aten.sub.Tensor", single(X - 2 * Y), **two, alpha=2)
    case("aten.rsub.Scalar", single(1.5 - X), **{"self": X}, other=1.5)
    case("aten.rsub.Scalar", single(4 - 2 * X), **{"self": X}, other=4, alpha=2)
    # A number of the same kind does not widen a tensor, and a number of a higher kind does.
    case("aten.add.Tensor", (H + np.float16(0.5)).astype(np.float16), **{"self": H}, other=0.5)
    case("aten.mul.Tensor", single(I * 0.5), **{"self": I}, other=0.5)
    case("aten.add.Scalar", I + 3, **{"self": I}, other=3)
    case("aten.add.Tensor", (B.astype(np.int64) + 2), **{"self": B}, other=2)
    case("aten.mul.Tensor", (np.int8([1, -2]) * np.int8(3)), **{"self": np.array([1, -2], np.int8)}, other=3)
    case("aten.add.Tensor", np.int16([254, 2]), **{"self": np.array([255, 1], np.uint8), "other": np.array([-1, 1], np.int8)})
    # A tensor of rank 0 of the same kind does not widen a tensor with dimensions.
    case("aten.add.Tensor", X + np.float32(1.5), **{"self": X, "other": np.array(1.5, np.float64)})
    case("aten.add.Tensor", single(I + 1.5), **{"self": I, "other": np.array(1.5, np.float32)})
    case("aten.mul.Tensor", B & B[0], **{"self": B, "other": B[0]})
    case("aten.div.Tensor", X / Y, **two)
    case("aten.div.Tensor", single(I / J), **{"self": I, "other": J})
    case("aten.div.Scalar", single(I / 4), **{"self": I}, other=4)
    case("aten.div.Tensor_mode", np.floor_divide(I, J), **{"self": I, "other": J}, rounding_mode="floor")
    case("aten.div.Tensor_mode", np.trunc(I / J).astype(np.int64), **{"self": I, "other": J}, rounding_mode="trunc")
    case("aten.div.Tensor_mode", np.floor(X / Y), **two, rounding_mode="floor")
    case("aten.div.Tensor_mode", np.trunc(X / Y), **two, rounding_mode="trunc")
    case("aten.div.Tensor_mode", single(I / J), **{"self": I, "other": J}, rounding_mode=None)
    case("aten.floor_divide.default", np.floor_divide(I, J), **{"self": I, "other": J})
    case("aten.remainder.Tensor", np.mod(I, J), **{"self": I, "other": J})
    case("aten.remainder.Tensor", np.mod(X, Y), **two)
    case("aten.remainder.Scalar", np.mod(X, np.float32(-0.7)), **{"self": X}, other=-0.7)
    case("aten.fmod.Tensor", np.fmod(X, Y), **two)
    case("aten.fmod.Tensor", np.fmod(I, J), **{"self": I, "other": J})
    case("aten.fmod.Scalar", np.fmod(I, 3), **{"self": I}, other=3)
    case("aten.pow.Tensor_Scalar", X**2, **{"self": X}, exponent=2)
    case("aten.pow.Tensor_Scalar", single(P.astype(np.float64) ** 1.7), **{"self": P}, exponent=1.7)
    case("aten.pow.Tensor_Scalar", np.sqrt(P), **{"self": P}, exponent=0.5)
    case("aten.pow.Tensor_Scalar", I**3, **{"self": I}, exponent=3)
    case("aten.pow.Tensor_Tensor", single(P.astype(np.float64) ** Y), **{"self": P, "exponent": Y})
    case("aten.pow.Scalar", single(2.0 ** X.astype(np.float64)), **{"self": 2, "exponent": X})
    case("aten.atan2.default", np.arctan2(X, Y), **two)
    case("aten.logaddexp.default", np.logaddexp(X, Y), **two)
    for name, f in {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}.items():
        case(f"aten.{name}.Tensor", f(I, J), **{"self": I, "other": J})
        case(f"aten.{name}.Scalar", f(I, 4), **{"self": I}, other=4)
        case(f"aten.{name}.Scalar", f(I, 4.5), **{"self": I}, other=4.5)
        case(f"aten.{name}.Tensor", f(B, B[0]), **{"self": B, "other": B[0]})
    for name in ["and", "or", "xor"]:
        logical, bits = getattr(np, f"logical_{name}"), getattr(np, f"bitwise_{name}")
        case(f"aten.logical_{name}.default", logical(B, I > 0), **{"self": B, "other": np.maximum(I, 0)})
        case(f"aten.bitwise_{name}.Tensor", bits(I, J), **{"self": I, "other": J})
        case(f"aten.bitwise_{name}.Tensor", bits(B, B[0]), **{"self": B, "other": B[0]})
        case(f"aten.bitwise_{name}.Scalar", bits(I, 5), **{"self": I}, other=5)
        case(f"aten.__{name}__.Tensor", bits(B, B[0]), **{"self": B, "other": B[0]})
        case(f"aten.__{name}__.Scalar", bits(I, 6), **{"self": I}, other=6)
    case("aten.clamp.default", np.clip(X, -1, np.float32(0.5)), **{"self": X}, min=-1, max=0.5)
    case("aten.clamp.default", np.maximum(I, 2), **{"self": I}, min=2)
    case("aten.clamp.default", single(np.minimum(I, 2.5)), **{"self": I}, min=None, max=2.5)
    case("aten.clamp_min.default", np.maximum(X, 0), **{"self": X}, min=0)
    case("aten.clamp_max.default", np.minimum(X, 0), **{"self": X}, max=0)
    case("aten.clamp.Tensor", np.minimum(np.maximum(X, Y), np.float32(1)), **{"self": X, "min": Y, "max": np.ones(3, np.float32)})
    case("aten.where.self", np.where(B, X, Y), condition=B, **two)
    case("aten.where.ScalarOther", single(np.where(B, X, -1)), condition=B, **{"self": X}, other=-1)
    case("aten.addcmul.default", X + np.float32(0.5) * P * Y, **{"self": X, "tensor1": P, "tensor2": Y}, value=0.5)
    case("aten.addcdiv.default", X + Y / P, **{"self": X, "tensor1": Y, "tensor2": P})
    case("aten.lerp.Scalar", X + np.float32(0.3) * (P - X), **{"self": X, "end": P}, weight=0.3)


def reductions():
    x = f32(2, 3, 4)
    n = random.integers(-5, 9, (2, 3, 4))
    case("aten.sum.default", single(x.sum()), **{"self": x})
    case("aten.sum.default", n.sum(), **{"self": n.astype(np.int32)})
    case("aten.sum.default", np.int64(B.sum()), **{"self": B})
    case("aten.sum.dim_IntList", x.sum((0, 2)), **{"self": x}, dim=[0, -1])
    case("aten.sum.dim_IntList", single(x.sum()), **{"self": x}, dim=None)
    case("aten.sum.dim_IntList", single(n.sum(1, keepdims=True)), **{"self": n}, dim=[1], keepdim=True, dtype=np.float32)
    case("aten.mean.default", single(x.mean()), **{"self": x})
    case("aten.mean.dim", x.mean((1, 2), keepdims=True), **{"self": x}, dim=[1, 2], keepdim=True)
    case("aten.prod.default", single(x.prod()), **{"self": x})
    case("aten.prod.dim_int", n.prod(1), **{"self": n}, dim=1)
    for name, f, at in [("max", np.max, np.argmax), ("min", np.min, np.argmin)]:
        case(f"aten.a{name}.default", f(x, axis=(0, 1)), **{"self": x}, dim=[0, 1])
        case(f"aten.{name}.default", f(n), **{"self": n})
        case(f"aten.{name}.default", f(B), **{"self": B})
        case(f"aten.{name}.dim", [f(x, axis=1), at(x, axis=1)], **{"self": x}, dim=1)
        case(f"aten.{name}.dim", [f(x, axis=2, keepdims=True), at(x, axis=2, keepdims=True)], **{"self": x}, dim=-1, keepdim=True)
        case(f"aten.arg{name}.default", at(x), **{"self": x})
        case(f"aten.arg{name}.default", at(x, axis=2), **{"self": x}, dim=-1)
    for name, f in [("any", np.any), ("all", np.all)]:
        case(f"aten.{name}.default", f(B), **{"self": B})
        case(f"aten.{name}.dim", f(B, axis=1), **{"self": B}, dim=1)
        case(f"aten.{name}.dims", f(I > 0, axis=(0,), keepdims=True), **{"self": np.maximum(I, 0)}, dim=[0], keepdim=True)
    case("aten.var.correction", single(x.var(axis=1, ddof=1)), **{"self": x}, dim=[1])
    case("aten.var.correction", single(x.var(axis=(0, 1), keepdims=True)), **{"self": x}, dim=[0, 1], correction=0, keepdim=True)
    case("aten.std.correction", single(x.std(ddof=1)), **{"self": x})
    case("aten.var.dim", single(x.var(axis=2)), **{"self": x}, dim=[2], unbiased=False)
    case("aten.std.dim", single(x.std(axis=2, ddof=1)), **{"self": x}, dim=[2])
    case("aten.var_mean.correction", [single(x.var(axis=0)), x.mean(0)], **{"self": x}, dim=[0], correction=0)
    case("aten.logsumexp.default", single(np.log(np.exp(x).sum(1))), **{"self": x}, dim=[1])
    case("aten.linalg_vector_norm.default", single(np.sqrt((x.astype(np.float64) ** 2).sum())), **{"self": x})
    for order, f in [(1, lambda v: np.abs(v).sum(1)), (math.inf, lambda v: np.abs(v).max(1)), (3, lambda v: (np.abs(v) ** 3).sum(1) ** (1 / 3))]:
        case("aten.linalg_vector_norm.default", single(f(x.astype(np.float64))), **{"self": x}, ord=float(order), dim=[1])
    case("aten.norm.ScalarOpt_dim", single(np.sqrt((x**2).sum(2, keepdims=True))), **{"self": x}, p=2, dim=[2], keepdim=True)
    case("aten.cumsum.default", x.cumsum(1), **{"self": x}, dim=1)
    case("aten.cumsum.default", n.cumsum(-1), **{"self": n.astype(np.int32)}, dim=-1)
    case("aten.cumprod.default", x.cumprod(2), **{"self": x}, dim=2)
    v = np.array([[3, 1, 2, 5], [7, 9, 8, 6]], np.float32)
    case("aten.median.dim", [np.float32([2, 7]), np.int64([2, 0])], **{"self": v}, dim=1)
    case("aten.median.default", np.float32(5), **{"self": v})


def normalization():
    x = f32(2, 4, 3)
    w, b = f32(3), f32(3)
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    normal = (x - mean) / np.sqrt(var + 1e-5)
    case("aten.layer_norm.default", single(normal * w + b), input=x, normalized_shape=[3], weight=w, bias=b)
    case("aten.layer_norm.default", single(normal), input=x, normalized_shape=[3])
    case("aten.native_layer_norm.default", [single(normal * w + b), single(mean), single(1 / np.sqrt(var + 1e-5))], input=x, normalized_shape=[3], weight=w, bias=b, eps=1e-5)
    case("aten.rms_norm.default", single(x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * w), input=x, normalized_shape=[3], weight=w, eps=1e-6)
    w, b, m, v = f32(4), f32(4), f32(4), f32(4, low=0.2)
    v = np.abs(v)
    c = lambda a: a[:, None]
    affine = single((x - c(m)) / np.sqrt(c(v) + 1e-3) * c(w) + c(b))
    stats = dict(input=x, weight=w, bias=b, running_mean=m, running_var=v)
    case("aten.batch_norm.default", affine, **stats, training=False, momentum=0.1, eps=1e-3, cudnn_enabled=True)
    case("aten.batch_norm.default", single((x - c(m)) / np.sqrt(c(v) + 1e-3)), input=x, weight=None, bias=None, running_mean=m, running_var=v, training=False, momentum=0.1, eps=1e-3, cudnn_enabled=False)
    mean, var = x.mean((0, 2)), x.var((0, 2))
    normal = (x - c(mean)) / np.sqrt(c(var) + 1e-3) * c(w) + c(b)
    case("aten._native_batch_norm_legit.no_stats", [single(normal), single(mean), single(1 / np.sqrt(var + 1e-3))], input=x, weight=w, bias=b, training=True, momentum=0.1, eps=1e-3)
    moved = [single(m * 0.9 + mean * 0.1), single(v * 0.9 + var * 6 / 5 * 0.1)]
    case("aten._native_batch_norm_legit_functional.default", [single(normal), single(mean), single(1 / np.sqrt(var + 1e-3)), *moved], **stats, training=True, momentum=0.1, eps=1e-3)
    g = x.reshape(2, 2, 2, 3)
    mean, var = g.mean((2, 3), keepdims=True), g.var((2, 3), keepdims=True)
    normal = ((g - mean) / np.sqrt(var + 1e-5)).reshape(x.shape)
    case("aten.group_norm.default", single(normal * c(w) + c(b)), input=x, num_groups=2, weight=w, bias=b)
    case("aten.native_group_norm.default", [single(normal), single(mean.reshape(2, 2)), single(1 / np.sqrt(var + 1e-5)).reshape(2, 2)], input=x, weight=None, bias=None, N=2, C=4, HxW=3, group=2, eps=1e-5)
    mean, var = x.mean(2, keepdims=True), x.var(2, keepdims=True)
    case("aten.instance_norm.default", single((x - mean) / np.sqrt(var + 1e-5) * c(w) + c(b)), input=x, weight=w, bias=b, running_mean=None, running_var=None, use_input_stats=True, momentum=0.1, eps=1e-5, cudnn_enabled=True)
    case("aten.softmax.int", softmax(x, 1), **{"self": x}, dim=1)
    case("aten.softmax.int", softmax(single(I), -1), **{"self": I}, dim=-1, dtype=np.float32)
    case("aten._softmax.default", softmax(x), **{"self": x}, dim=-1, half_to_float=False)
    case("aten.log_softmax.int", single(np.log(softmax(x.astype(np.float64), 1))), **{"self": x}, dim=1)
    case("aten._log_softmax.default", single(np.log(softmax(x.astype(np.float64)))), **{"self": x}, dim=2, half_to_float=False)
    hidden = np.array([[-np.inf, -np.inf], [0, 1]], np.float32)
    case("aten._safe_softmax.default", single([[0, 0], softmax(hidden[1])]), **{"self": hidden}, dim=-1)


def products():
    a, b = f32(2, 3), f32(3, 4)
    case("aten.mm.default", a @ b, **{"self": a, "mat2": b})
    case("aten.matmul.default", single(a @ b), **{"self": a, "other": b})
    case("aten.matmul.default", single(Y @ b), **{"self": Y, "other": b})
    case("aten.dot.default", single(Y @ Y), **{"self": Y, "tensor": Y})
    case("aten.mv.default", a @ Y, **{"self": a, "vec": Y})
    case("aten.outer.default", np.outer(Y, a[0]), **{"self": Y, "vec2": a[0]})
    case("aten.linear.default", a @ b, input=a, weight=np.ascontiguousarray(b.T))
    c = f32(4)
    case("aten.addmm.default", single(c + a @ b), **{"self": c, "mat1": a, "mat2": b})
    case("aten.addmm.default", single(0.5 * c + 2 * (a @ b)), **{"self": c, "mat1": a, "mat2": b}, beta=0.5, alpha=2)
    p, q = f32(2, 2, 3), f32(2, 3, 2)
    case("aten.bmm.default", p @ q, **{"self": p, "mat2": q})
    case("aten.baddbmm.default", single(p[:, :, :2] + p @ q), **{"self": p[:, :, :2], "batch1": p, "batch2": q})
    case("aten.einsum.default", np.einsum("bij,bjk->ik", p, q), equation="bij, bjk -> ik", tensors=[p, q])
    q, k, v = f32(1, 2, 3, 4), f32(1, 2, 5, 4), f32(1, 2, 5, 4)
    scores = q @ k.swapaxes(-1, -2)
    case("aten.scaled_dot_product_attention.default", single(softmax(scores / 2) @ v), query=q, key=k, value=v)
    case("aten.scaled_dot_product_attention.default", single(softmax(scores * 0.3) @ v), query=q, key=k, value=v, scale=0.3)
    mask = np.array([[1, 0, 1, 0, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]], bool)
    masked = np.where(mask, scores / 2, -np.inf)
    shares = np.where(mask.any(1)[:, None], np.nan_to_num(softmax(np.where(mask.any(1)[:, None], masked, 0))), 0)
    case("aten.scaled_dot_product_attention.default", single(shares @ v), query=q, key=k, value=v, attn_mask=mask)
    bias = f32(3, 5)
    case("aten.scaled_dot_product_attention.default", single(softmax(scores / 2 + bias) @ v), query=q, key=k, value=v, attn_mask=bias)
    causal = np.where(np.tril(np.ones((3, 5), bool)), scores / 2, -np.inf)
    case("aten.scaled_dot_product_attention.default", single(softmax(causal) @ v), query=q, key=k, value=v, is_causal=True)
    q = f32(1, 4, 3, 4)
    scores = q @ k.repeat(2, 1).swapaxes(-1, -2)
    case("aten.scaled_dot_product_attention.default", single(softmax(scores / 2) @ v.repeat(2, 1)), query=q, key=k, value=v, enable_gqa=True)


def conv(x, w, stride, pad, dilation, groups):
    """Convolves over all axes after batch and channels."""
    n = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0)] + [(a, b) for a, b in pad])
    kernel = w.shape[2:]
    out = [(x.shape[2 + i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1 for i in range(n)]
    result = np.zeros((x.shape[0], w.shape[0], *out))
    per, own = w.shape[0] // groups, w.shape[1]
    for at in np.ndindex(*out):
        window = tuple(slice(at[i] * stride[i], at[i] * stride[i] + dilation[i] * (kernel[i] - 1) + 1, dilation[i]) for i in range(n))
        for o in range(w.shape[0]):
            g = o // per
            part = x[(slice(None), slice(g * own, (g + 1) * own), *window)]
            result[(slice(None), o, *at)] = (part * w[o]).reshape(x.shape[0], -1).sum(1)
    return result


def conv_transpose(x, w, stride, pad, more, dilation, groups):
    n = x.ndim - 2
    kernel, each = w.shape[2:], w.shape[1]
    full = [(x.shape[2 + i] - 1) * stride[i] + dilation[i] * (kernel[i] - 1) + 1 + more[i] for i in range(n)]
    result = np.zeros((x.shape[0], each * groups, *full))
    per = x.shape[1] // groups
    for at in np.ndindex(*x.shape[2:]):
        for k in np.ndindex(*kernel):
            place = tuple(at[i] * stride[i] + k[i] * dilation[i] for i in range(n))
            for g in range(groups):
                part = x[(slice(None), slice(g * per, (g + 1) * per), *at)] @ w[(slice(g * per, (g + 1) * per), slice(None), *k)]
                result[(slice(None), slice(g * each, (g + 1) * each), *place)] += part
    return result[(slice(None), slice(None), *[slice(pad[i], result.shape[2 + i] - pad[i]) for i in range(n)])]


def windows():
    x1, x2, x3 = f32(2, 2, 7), f32(1, 4, 5, 6), f32(1, 1, 3, 4, 4)
    w1, w2, w3 = f32(3, 2, 3), f32(4, 2, 3, 2), f32(2, 1, 2, 2, 2)
    b = f32(4)
    case("aten.conv1d.default", single(conv(x1, w1, [2], [(1, 1)], [1], 1)), input=x1, weight=w1, stride=[2], padding=[1])
    case("aten.conv2d.default", single(conv(x2, w2, [2, 1], [(1, 1), (0, 0)], [1, 2], 2) + b[:, None, None]), input=x2, weight=w2, bias=b, stride=[2, 1], padding=[1, 0], dilation=[1, 2], groups=2)
    case("aten.conv2d.default", single(conv(x2, w2, [1, 1], [(0, 0)] * 2, [1, 1], 2))[0], input=x2[0], weight=w2, groups=2)
    case("aten.conv3d.default", single(conv(x3, w3, [1] * 3, [(0, 0)] * 3, [1] * 3, 1)), input=x3, weight=w3)
    case("aten.conv2d.padding", single(conv(x2, w2, [1, 1], [(1, 1), (0, 1)], [1, 1], 2)), input=x2, weight=w2, padding="same", groups=2)
    case("aten.conv1d.padding", single(conv(x1, w1, [1], [(0, 0)], [1], 1)), input=x1, weight=w1, padding="valid")
    case("aten.convolution.default", single(conv(x1, w1, [1], [(2, 2)], [2], 1)), input=x1, weight=w1, bias=None, stride=[1], padding=[2], dilation=[2], transposed=False, output_padding=[0], groups=1)
    t1, t2 = f32(2, 3, 3), f32(4, 2, 3, 2)
    case("aten.conv_transpose1d.default", single(conv_transpose(x1, t1, [2], [1], [1], [1], 1)), input=x1, weight=t1, stride=[2], padding=[1], output_padding=[1])
    case("aten.conv_transpose2d.input", single(conv_transpose(x2, t2, [2, 1], [1, 0], [0, 0], [1, 2], 2) + b[:, None, None]), input=x2, weight=t2, bias=b, stride=[2, 1], padding=[1, 0], groups=2, dilation=[1, 2])
    case("aten.convolution.default", single(conv_transpose(x1, t1, [3], [0], [0], [1], 1)), input=x1, weight=t1, bias=None, stride=[3], padding=[0], dilation=[1], transposed=True, output_padding=[0], groups=1)

    def pool(x, kernel, stride, pad, f, ceil=False, counts=True, fill=-np.inf):
        out, n = [], len(kernel)
        for i in range(n):
            size = x.shape[2 + i] + 2 * pad[i] - kernel[i]
            count = (-(-size // stride[i]) if ceil else size // stride[i]) + 1
            if ceil and (count - 1) * stride[i] >= x.shape[2 + i] + pad[i]:
                count -= 1
            out.append(count)
        result = np.zeros((*x.shape[:2], *out))
        for at in np.ndindex(*out):
            start = [at[i] * stride[i] - pad[i] for i in range(n)]
            end = [min(start[i] + kernel[i], x.shape[2 + i] + pad[i]) for i in range(n)]
            volume = math.prod(end[i] - start[i] for i in range(n))
            inner = tuple(slice(max(start[i], 0), min(end[i], x.shape[2 + i])) for i in range(n))
            part = x[(slice(None), slice(None), *inner)]
            values = part.reshape(*x.shape[:2], -1)
            result[(slice(None), slice(None), *at)] = values.max(-1) if f == "max" else values.sum(-1) / (volume if counts else values.shape[-1])
        return single(result)

    case("aten.max_pool1d.default", pool(x1, [3], [3], [0], "max"), **{"self": x1}, kernel_size=[3])
    case("aten.max_pool2d.default", pool(x2, [3, 2], [2, 2], [1, 0], "max"), **{"self": x2}, kernel_size=[3, 2], stride=[2, 2], padding=[1, 0])
    case("aten.max_pool2d.default", pool(x2, [2, 2], [2, 2], [0, 0], "max", ceil=True), **{"self": x2}, kernel_size=[2, 2], stride=[], ceil_mode=True)
    case("aten.max_pool3d.default", pool(x3, [2] * 3, [1] * 3, [0] * 3, "max"), **{"self": x3}, kernel_size=[2, 2, 2], stride=[1])
    case("aten.avg_pool1d.default", pool(x1, [3], [2], [1], "mean"), **{"self": x1}, kernel_size=[3], stride=[2], padding=[1])
    case("aten.avg_pool2d.default", pool(x2, [2, 2], [2, 2], [1, 1], "mean", counts=False), **{"self": x2}, kernel_size=[2, 2], padding=[1, 1], count_include_pad=False)
    case("aten.avg_pool2d.default", pool(x2, [2, 2], [2, 2], [0, 0], "mean", ceil=True), **{"self": x2}, kernel_size=[2, 2], ceil_mode=True)
    case("aten.avg_pool2d.default", pool(x2, [3, 3], [2, 2], [1, 1], "mean", ceil=True), **{"self": x2}, kernel_size=[3, 3], stride=[2, 2], padding=[1, 1], ceil_mode=True)
    case("aten.avg_pool2d.default", pool(x2, [2, 2], [1, 1], [0, 0], "mean") * 4 / 3, **{"self": x2}, kernel_size=[2, 2], stride=[1, 1], divisor_override=3)
    case("aten.avg_pool3d.default", pool(x3, [2] * 3, [2] * 3, [0] * 3, "mean"), **{"self": x3}, kernel_size=[2, 2, 2])
    case("aten.adaptive_avg_pool2d.default", single(x2.mean((2, 3), keepdims=True)), **{"self": x2}, output_size=[1, 1])
    a = np.stack([x2[:, :, s:e].mean(2) for s, e in [(0, 3), (2, 5)]], 2)
    a = np.stack([a[..., s:e].mean(-1) for s, e in [(0, 2), (1, 3), (3, 5), (4, 6)]], -1)
    case("aten._adaptive_avg_pool2d.default", single(a), **{"self": x2}, output_size=[2, 4])
    case("aten.adaptive_avg_pool1d.default", single(x1.mean(2, keepdims=True)), **{"self": x1}, output_size=[1])
    case("aten.adaptive_avg_pool3d.default", single(x3.reshape(1, 1, 3, 2, 2, 2, 2).mean((4, 6))), **{"self": x3}, output_size=[3, 2, 2])


def resizing():
    x = f32(1, 2, 4, 3)

    def resize(x, axis, to, mode, align=False, scale=None):
        size = x.shape[axis]
        scale = scale or to / size
        result = []
        for i in range(to):
            if align:
                at = i * (size - 1) / (to - 1) if to > 1 else 0.0
            elif mode == "nearest":
                at = i / scale
            else:
                at = (i + 0.5) / scale - 0.5
            take = lambda k: np.take(x, min(max(k, 0), size - 1), axis)
            low = math.floor(at)
            part = at - low
            if mode == "nearest":
                result.append(take(low))
            elif mode == "exact":
                result.append(take(math.floor(at + 0.5)))
            elif mode == "linear":
                at = max(at, 0.0)
                low = math.floor(at)
                part = at - low
                result.append(take(low) * (1 - part) + take(low + 1) * part)
            else:
                a = -0.75
                near = lambda t: ((a + 2) * t - (a + 3)) * t * t + 1
                far = lambda t: ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
                weights = [far(part + 1), near(part), near(1 - part), far(2 - part)]
                result.append(sum(take(low - 1 + k) * w for k, w in enumerate(weights)))
        return np.stack(result, axis)

    def both(mode, sizes, align=False, scales=(None, None)):
        y = x.astype(np.float64)
        for axis, to, scale in zip([2, 3], sizes, scales):
            y = resize(y, axis, to, mode, align, scale)
        return single(y)

    case("aten.upsample_nearest2d.vec", both("nearest", [8, 6]), input=x, output_size=None, scale_factors=[2.0, 2.0])
    case("aten.upsample_nearest2d.vec", both("nearest", [6, 7]), input=x, output_size=[6, 7], scale_factors=None)
    case("aten.upsample_nearest2d.default", both("nearest", [2, 5]), **{"self": x}, output_size=[2, 5])
    case("aten._upsample_nearest_exact2d.default", both("exact", [6, 5]), **{"self": x}, output_size=[6, 5])
    case("aten.upsample_bilinear2d.vec", both("linear", [8, 6]), input=x, output_size=None, align_corners=False, scale_factors=[2.0, 2.0])
    case("aten.upsample_bilinear2d.vec", both("linear", [7, 5], align=True), input=x, output_size=[7, 5], align_corners=True, scale_factors=None)
    case("aten.upsample_bilinear2d.default", both("linear", [3, 2]), **{"self": x}, output_size=[3, 2], align_corners=False)
    case("aten.upsample_bicubic2d.default", both("cubic", [7, 5]), **{"self": x}, output_size=[7, 5], align_corners=False)
    theta = f32(2, 2, 3)
    for corners in [False, True]:
        line = lambda count: np.linspace(-1, 1, count) if corners else (np.arange(count) * 2 + 1) / count - 1
        places = np.stack([*np.meshgrid(line(4), line(3)), np.ones((3, 4))], -1)
        grid = single(np.einsum("hwk,njk->nhwj", places, theta.astype(np.float64)))
        case("aten.affine_grid_generator.default", grid, theta=theta, size=[2, 1, 3, 4], align_corners=corners)
    x1 = f32(1, 2, 5)
    case("aten.upsample_linear1d.default", single(resize(x1.astype(np.float64), 2, 8, "linear")), **{"self": x1}, output_size=[8], align_corners=False)
    case("aten.upsample_nearest1d.vec", single(resize(x1, 2, 7, "nearest", scale=1.5)), input=x1, output_size=None, scale_factors=[1.5])


def shapes():
    x = f32(2, 3, 4)
    case("aten.view.default", x.reshape(6, 4), **{"self": x}, size=[-1, 4])
    case("aten.reshape.default", x.reshape(2, 12), **{"self": x}, shape=[2, -1])
    case("aten.flatten.using_ints", x.reshape(2, 12), **{"self": x}, start_dim=1)
    case("aten.flatten.using_ints", x.ravel(), **{"self": x})
    case("aten.unflatten.int", x.reshape(2, 3, 2, 2), **{"self": x}, dim=-1, sizes=[2, -1])
    one = x.reshape(1, 2, 1, 12)
    case("aten.squeeze.default", x.reshape(2, 12), **{"self": one})
    case("aten.squeeze.dim", x.reshape(1, 2, 12), **{"self": one}, dim=2)
    case("aten.squeeze.dim", one, **{"self": one}, dim=1)
    case("aten.squeeze.dims", x.reshape(2, 12), **{"self": one}, dim=[0, -2])
    case("aten.unsqueeze.default", x[..., None], **{"self": x}, dim=-1)
    case("aten.permute.default", x.transpose(2, 0, 1), **{"self": x}, dims=[-1, 0, 1])
    case("aten.transpose.int", x.swapaxes(0, 2), **{"self": x}, dim0=0, dim1=-1)
    case("aten.t.default", X.T, **{"self": X})
    case("aten.movedim.int", np.moveaxis(x, 0, 2), **{"self": x}, source=0, destination=2)
    case("aten.movedim.intlist", np.moveaxis(x, [0, 1], [2, 0]), **{"self": x}, source=[0, 1], destination=[2, 0])
    case("aten.expand.default", np.broadcast_to(Y, (2, 3)), **{"self": Y}, size=[2, -1])
    case("aten.expand_as.default", np.broadcast_to(Y, (2, 3)), **{"self": Y, "other": X})
    case("aten.repeat.default", np.tile(X, (2, 1, 2)), **{"self": X}, repeats=[2, 1, 2])
    case("aten.repeat_interleave.self_int", X.repeat(2, 1), **{"self": X}, repeats=2, dim=1)
    case("aten.cat.default", np.concatenate([X, P, X], 1), tensors=[X, P, X], dim=-1)
    case("aten.cat.default", single(np.concatenate([I, X])), tensors=[I, X])
    case("aten.stack.default", np.stack([X, P], 1), tensors=[X, P], dim=1)
    case("aten.split.Tensor", [x[..., :3], x[..., 3:]], **{"self": x}, split_size=3, dim=-1)
    case("aten.split_with_sizes.default", [x[:, :1], x[:, 1:]], **{"self": x}, split_sizes=[1, 2], dim=1)
    case("aten.chunk.default", [x[..., :2], x[..., 2:]], **{"self": x}, chunks=2, dim=2)
    case("aten.chunk.default", [X[:, :2], X[:, 2:]], **{"self": X}, chunks=2, dim=1)
    case("aten.tensor_split.sections", [x[..., :2], x[..., 2:3], x[..., 3:]], **{"self": x}, sections=3, dim=2)
    case("aten.unbind.int", [x[:, 0], x[:, 1], x[:, 2]], **{"self": x}, dim=1)
    case("aten.select.int", x[:, -1], **{"self": x}, dim=1, index=-1)
    case("aten.slice.Tensor", x[:, :, 1:4:2], **{"self": x}, dim=2, start=1, end=9223372036854775807, step=2)
    case("aten.slice.Tensor", x[:, -2:-1], **{"self": x}, dim=1, start=-2, end=-1)
    case("aten.slice.Tensor", x[:, :100], **{"self": x}, dim=1, start=None, end=100)
    case("aten.slice.Tensor", x[:, 5:2], **{"self": x}, dim=1, start=5, end=2)
    case("aten.narrow.default", x[:, :, 1:3], **{"self": x}, dim=2, start=1, length=2)
    y = x.copy()
    y[:, 1:3] = 5
    case("aten.slice_scatter.default", y, **{"self": x, "src": np.full((2, 2, 4), 5, np.float32)}, dim=1, start=1, end=3)
    y = x.copy()
    y[:, 1] = 5
    case("aten.select_scatter.default", y, **{"self": x, "src": np.full((2, 4), 5, np.float32)}, dim=1, index=-2)
    case("aten.flip.default", x[::-1, :, ::-1], **{"self": x}, dims=[0, -1])
    case("aten.roll.default", np.roll(x, (1, -2), (0, 2)), **{"self": x}, shifts=[1, -2], dims=[0, 2])
    case("aten.roll.default", np.roll(x, 5), **{"self": x}, shifts=[5])
    image = f32(1, 8, 2, 3)
    shuffled = image.reshape(1, 2, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(1, 2, 4, 6)
    case("aten.pixel_shuffle.default", shuffled, **{"self": image}, upscale_factor=2)
    case("aten.pixel_unshuffle.default", image, **{"self": shuffled}, downscale_factor=2)
    case("aten.channel_shuffle.default", image.reshape(1, 2, 4, 2, 3).swapaxes(1, 2).reshape(1, 8, 2, 3), **{"self": image}, groups=2)
    case("aten.constant_pad_nd.default", np.pad(X, [(1, 0), (0, 2)], constant_values=1.5), **{"self": X}, pad=[0, 2, 1, 0], value=1.5)
    case("aten.constant_pad_nd.default", X[:, 1:], **{"self": X}, pad=[-1, 0])
    case("aten.pad.default", np.pad(x, [(0, 0), (0, 0), (2, 1)], "reflect"), **{"self": x}, pad=[2, 1], mode="reflect")
    case("aten.pad.default", np.pad(x, [(0, 0), (0, 0), (2, 1)], "wrap"), **{"self": x}, pad=[2, 1], mode="circular")
    case("aten.replication_pad1d.default", np.pad(x, [(0, 0), (0, 0), (2, 1)], "edge"), **{"self": x}, padding=[2, 1])
    case("aten.reflection_pad1d.default", np.pad(x, [(0, 0), (0, 0), (1, 2)], "reflect"), **{"self": x}, padding=[1, 2])
    case("aten.diagonal.default", np.diagonal(x, 1, 1, 2), **{"self": x}, offset=1, dim1=1, dim2=2)
    case("aten.diagonal.default", np.diagonal(X), **{"self": X})
    case("aten.meshgrid.indexing", np.meshgrid(Y, J[:2].astype(np.float32), indexing="xy"), tensors=[Y, J[:2].astype(np.float32)], indexing="xy")
    case("aten.meshgrid.default", np.meshgrid(Y, Y, indexing="ij"), tensors=[Y, Y])


def indices():
    table, at = f32(5, 3), np.array([[0, 4], [2, 2]])
    case("aten.embedding.default", table[at], weight=table, indices=at)
    case("aten.embedding.default", table[at], weight=table, indices=at, padding_idx=0)
    case("aten.index_select.default", table[:, [2, 0]], **{"self": table}, dim=1, index=np.array([2, 0]))
    case("aten.take.default", table.ravel()[[0, -1]], **{"self": table}, index=np.array([0, -1]))
    g = np.array([[0, 1], [2, 0]])
    case("aten.gather.default", np.take_along_axis(table[:2], g, 1), **{"self": table}, dim=1, index=g)
    x = f32(3, 4, 5)
    a, b = np.array([0, -1]), np.array([1, 2])
    case("aten.index.Tensor", x[a], **{"self": x}, indices=[a])
    case("aten.index.Tensor", x[a, b], **{"self": x}, indices=[a, b])
    case("aten.index.Tensor", x[:, a], **{"self": x}, indices=[None, a])
    case("aten.index.Tensor", x[:, a, b], **{"self": x}, indices=[None, a, b])
    case("aten.index.Tensor", x[a, :, b], **{"self": x}, indices=[a, None, b])
    y = table.copy()
    y[a] = [[1, 2, 3], [4, 5, 6]]
    case("aten.index_put.default", y, **{"self": table}, indices=[a], values=np.float32([[1, 2, 3], [4, 5, 6]]))
    y = table.copy()
    np.add.at(y, (np.array([1, 1]), b), 2.0)
    case("aten.index_put.default", y, **{"self": table}, indices=[np.array([1, 1]), b], values=np.float32(2.0).reshape(()), accumulate=True)
    mask = table > 0
    case("aten.index_put.default", np.where(mask, np.float32(9), table), **{"self": table}, indices=[mask], values=np.array(9, np.float32))
    case("aten.masked_fill.Scalar", np.where(B, np.float32(-7.5), X), **{"self": X, "mask": B}, value=-7.5)
    case("aten.masked_fill.Scalar", single(np.where(B, -np.inf, X)), **{"self": X, "mask": B}, value=-math.inf)
    case("aten.masked_fill.Tensor", np.where(B, np.float32(2), X), **{"self": X, "mask": B}, value=np.array(2, np.float32))
    s = np.array([[0, 1, 0], [1, 0, 1]])
    y = X.copy()
    np.put_along_axis(y, s[:, :2], P[:, :2], 1)
    case("aten.scatter.src", y, **{"self": X}, dim=1, index=s[:, :2], src=P)
    y = X.copy()
    np.put_along_axis(y, s, np.float32(4.5), 1)
    case("aten.scatter.value", y, **{"self": X}, dim=1, index=s, value=4.5)
    y = X.copy()
    for i in range(2):
        for j in range(3):
            y[i, s[i, j]] += P[i, j]
    case("aten.scatter_add.default", y, **{"self": X}, dim=1, index=s, src=P)
    case("aten.scatter_reduce.two", y, **{"self": X}, dim=1, index=s, src=P, reduce="sum")
    case("aten.one_hot.default", np.eye(5, dtype=np.int64)[at], **{"self": at}, num_classes=5)
    order = np.argsort(-table, 1, kind="stable")
    case("aten.topk.default", [np.take_along_axis(table, order, 1)[:, :2], order[:, :2]], **{"self": table}, k=2)
    order = np.argsort(table, 0, kind="stable")
    case("aten.topk.default", [np.take_along_axis(table, order, 0)[:2], order[:2]], **{"self": table}, k=2, dim=0, largest=False)
    case("aten.sort.default", [np.sort(table, 0), order], **{"self": table}, dim=0)
    order = np.argsort(-table, 1, kind="stable")
    case("aten.sort.default", [np.take_along_axis(table, order, 1), order], **{"self": table}, descending=True)
    case("aten.argsort.default", order, **{"self": table}, dim=1, descending=True)
    edges = np.array([-1, 0, 1], np.float32)
    case("aten.bucketize.Tensor", np.digitize(X, edges, right=True), **{"self": X, "boundaries": edges})
    case("aten.isin.Tensor_Tensor", np.isin(I, J), elements=I, test_elements=J)
    case("aten.tril.default", np.tril(table), **{"self": table})
    case("aten.triu.default", np.triu(table, -1), **{"self": table}, diagonal=-1)


def creation():
    size = {"size": [2, 3]}
    case("aten.zeros.default", np.zeros((2, 3), np.float32), **size)
    case("aten.ones.default", np.ones((2, 3), np.int64), **size, dtype=np.int64)
    case("aten.full.default", np.full((2, 3), 1.5, np.float32), **size, fill_value=1.5)
    case("aten.full.default", np.full((2, 3), 7), **size, fill_value=7)
    case("aten.full.default", np.full((2, 3), True), **size, fill_value=True)
    case("aten.zeros_like.default", np.zeros((2, 3), np.int64), **{"self": I})
    case("aten.ones_like.default", np.ones((2, 3), np.float32), **{"self": I}, dtype=np.float32)
    case("aten.full_like.default", np.full((2, 3), 4, np.float32), **{"self": X}, fill_value=4)
    case("aten.new_zeros.default", np.zeros((2, 2), np.int64), **{"self": I}, size=[2, 2])
    case("aten.new_full.default", np.full((2,), 3, np.float32), **{"self": X}, size=[2], fill_value=3)
    case("aten.fill.Scalar", np.full((2, 3), 2, np.float32), **{"self": X}, value=2)
    case("aten.copy.default", single(I), **{"self": X, "src": I})
    case("aten.scalar_tensor.default", np.float32(3), s=3)
    case("aten.arange.default", np.arange(5), end=5)
    case("aten.arange.start", np.arange(2, 7), start=2, end=7)
    case("aten.arange.start_step", np.arange(7, -3, -3), start=7, end=-3, step=-3)
    case("aten.arange.start_step", np.arange(0.5, 2.5, 0.5, np.float32), start=0.5, end=2.5, step=0.5)
    case("aten.arange.default", np.arange(4, dtype=np.float32), end=4, dtype=np.float32)
    case("aten.eye.default", np.eye(3, dtype=np.float32), n=3)
    case("aten.eye.m", np.eye(2, 3, dtype=np.int64), n=2, m=3, dtype=np.int64)
    case("aten.linspace.default", np.linspace(-1, 1, 5, dtype=np.float32), start=-1, end=1, steps=5)
    case("aten.hamming_window.periodic", single(np.hamming(6)[:5]), window_length=5, periodic=True)
    case("aten.clone.default", X, **{"self": X})
    case("aten.to.dtype", I.astype(np.float16), **{"self": I}, dtype=np.float16)
    case("aten.to.dtype", X.astype(np.int32), **{"self": X}, dtype=np.int32)
    case("aten._to_copy.default", np.array([True, True, False]), **{"self": np.array([0.5, -2, 0], np.float32)}, dtype=np.bool_)
    case("aten.type_as.default", single(I), **{"self": I, "other": X})


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm_step(x, w, hidden, cell):
    i, f, g, o = np.split(x @ w[0].T + hidden @ w[1].T + sum(w[2:]), 4, -1)
    cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(cell), cell


def gru_step(x, w, hidden):
    r, z, n = np.split(x @ w[0].T + (w[2] if len(w) > 2 else 0), 3, -1)
    hr, hz, hn = np.split(hidden @ w[1].T + (w[3] if len(w) > 3 else 0), 3, -1)
    z = sigmoid(z + hz)
    return ((1 - z) * np.tanh(n + sigmoid(r + hr) * hn) + z * hidden,)


def rnn_step(x, w, hidden):
    return (np.tanh(x @ w[0].T + hidden @ w[1].T + sum(w[2:])),)


def recurrent():
    def layers(step, x, states, params, each, count, directions):
        last = [[] for _ in states]
        for layer in range(count):
            sides = []
            for direction in range(directions):
                at = layer * directions + direction
                state, out = [s[at] for s in states], []
                for one in x[::-1] if direction else x:
                    state = step(one, params[at * each : (at + 1) * each], *state)
                    out.append(state[0])
                sides.append(np.stack(out[::-1] if direction else out))
                for all_, own in zip(last, state):
                    all_.append(own)
            x = np.concatenate(sides, -1)
        return [single(x), *(single(np.stack(all_)) for all_ in last)]

    def params(gates, count, directions, each, size=3, inner=2):
        result = []
        for layer in range(count):
            for _ in range(directions):
                width = inner if layer == 0 else size * directions
                shapes = [(gates * size, width), (gates * size, size), (gates * size,), (gates * size,)][:each]
                result += [f32(*shape, low=-0.8, high=0.8) for shape in shapes]
        return result

    x = f32(4, 2, 2)
    for op, step, gates, states in [("lstm", lstm_step, 4, 2), ("gru", gru_step, 3, 1), ("rnn_tanh", rnn_step, 1, 1)]:
        for count, directions, each in [(1, 1, 4), (2, 2, 4), (1, 2, 2)]:
            start = [f32(count * directions, 2, 3) for _ in range(states)]
            weights = params(gates, count, directions, each)
            results = layers(step, x, start, weights, each, count, directions)
            first = count == 2
            if first:
                results[0] = results[0].swapaxes(0, 1)
            case(f"aten.{op}.input", results, input=x.swapaxes(0, 1) if first else x, hx=start if states == 2 else start[0], params=weights, has_biases=each == 4, num_layers=count, dropout=0.0, train=False, bidirectional=directions == 2, batch_first=first)
        start = [f32(1, 3) for _ in range(states)]
        weights = params(gates, 1, 1, 4)
        results = layers(step, x[:, :1], [s[:, None] for s in start], weights, 4, 1, 1)
        case(f"aten.{op}.input", [r[:, 0] for r in results], input=x[:, 0], hx=start if states == 2 else start[0], params=weights, has_biases=True, num_layers=1, dropout=0.0, train=False, bidirectional=False, batch_first=False)


def losses():
    x, labels = f32(4, 3), np.array([0, 2, -100, 1])
    log = np.log(softmax(x.astype(np.float64)))
    loss = -log[np.arange(4), np.maximum(labels, 0)] * (labels >= 0)
    case("aten.cross_entropy_loss.default", single(loss.sum() / 3), **{"self": x, "target": labels})
    case("aten.cross_entropy_loss.default", single(loss.sum()), **{"self": x, "target": labels}, reduction=2)
    weight = np.array([0.5, 1, 2], np.float32)
    weights = weight[np.maximum(labels, 0)] * (labels >= 0)
    case("aten.cross_entropy_loss.default", single((loss * weights).sum() / weights.sum()), **{"self": x, "target": labels, "weight": weight})
    case("aten.nll_loss_forward.default", [single(-x[np.arange(4), [0, 1, 2, 1]])], **{"self": x, "target": np.array([0, 1, 2, 1])}, weight=None, reduction=0, ignore_index=-100)
    case("aten.as_strided.default", X.reshape(3, 1, 2), **{"self": X}, size=[3, 1, 2], stride=[2, 2, 1])
    case("aten._adaptive_avg_pool1d.default", single(x[None].mean(2, keepdims=True)), **{"self": x[None]}, output_size=[1])


def detection():
    """Samples of images, and operators of torchvision."""
    for shape, spatial in [((2, 2, 3, 4), (2, 3)), ((1, 2, 2, 3, 2), (2, 1, 3))]:
        x, rank = f32(*shape), len(spatial)
        grid = f32(shape[0], *spatial, rank, low=-1.6, high=1.6)
        front = np.moveaxis(grid, -1, 1)
        for mode, padding, corners in [(0, 0, False), (0, 1, True), (1, 2, False), (2, 2, True), (2, 0, False)]:
            if mode == 2 and rank == 3:
                continue
            names = ["bilinear", "nearest", "bicubic"][mode], ["zeros", "border", "reflection"][padding]
            result = vision_cases.grid_sample(x, front, *names, corners)
            for op in ("grid_sampler", f"grid_sampler_{rank}d"):
                case(f"aten.{op}.default", result, input=x, grid=grid, interpolation_mode=mode, padding_mode=padding, align_corners=corners)
    x = f32(2, 2, 4, 5)
    rois = np.array([[0, 0.5, 1, 3, 4], [1, -3, -2, 9, 8], [1, 2, 2, 2, 2], [0, 5, 4, 1, 1]], np.float32)
    for scale, ratio, aligned in [(1.0, -1, False), (0.5, 2, False), (0.5, 0, True), (1.0, 2, True)]:
        moved = rois * np.float32(scale)
        moved[:, 0] = rois[:, 0]
        moved[:, 1:] -= np.float32(0.5 if aligned else 0)
        result = vision_cases.roi_align(x, moved, (2, 3), 1.0, ratio, aligned)
        case("torchvision.roi_align.default", result, input=x, rois=rois, spatial_scale=scale, pooled_height=2, pooled_width=3, sampling_ratio=ratio, aligned=aligned)
    first = f32(8, 2, low=0, high=4)
    boxes = np.concatenate([first, first + f32(8, 2, low=0.5, high=4)], 1)
    whole = np.array([[0, 0, 2, 1], [1, 0, 3, 1], [0, 0, 3, 1]], np.float32)
    for dets, scores, threshold in [(boxes, f32(8), 0.4), (boxes, f32(8), 0.0), (whole, np.array([3, 1, 2], np.float32), 1 / 3), (boxes[:0], f32(0), 0.5)]:
        kept = []
        for k in np.argsort(-scores, kind="stable"):
            if all(vision_cases.overlap(dets[other], dets[k]) <= np.float32(threshold) for other in kept):
                kept.append(k)
        case("torchvision.nms.default", np.array(kept, np.int64), dets=dets, scores=scores, iou_threshold=threshold)
    table, a, b = f32(3, 4, 2), np.array([2, 0]), np.array([-1, 1])
    for accumulate in (False, True):
        for places, values in [((a, b, np.array([1, 1])), f32(2)), ((None, b), f32(2)), ((None, b, np.array([1, 0])), f32(3, 2)), ((a, None, np.array([1, -2])), f32(2, 4)), ((np.array([1, 1]), np.array([2, 2])), f32(2, 2))]:
            y = table.copy()
            index = tuple(slice(None) if place is None else place for place in places)
            if accumulate:
                np.add.at(y, index, values)
            else:
                y[index] = values
            case("aten.index_put.default", y, **{"self": table}, indices=list(places), values=values, accumulate=accumulate)


for group in [recurrent, losses, unary, binary, reductions, normalization, products, windows, resizing, shapes, indices, creation, detection]:
    group()
