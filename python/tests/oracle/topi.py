"""Compares the functions of `topi` with TVM's: TVM parses the PrimFunc that passhost makes of the same tensors.

    python python/tests/oracle/topi.py

Needs TVM in the environment. Prints each function whose PrimFunc is not structurally equal to TVM's, or that only TVM
or only passhost accepts. The exit code is 1 if the name of a block differs from TVM's.
"""

import re
import sys

import tvm
import tvm_ffi
from tvm import te as tvm_te
from tvm import tirx as tvm_tirx
from tvm import topi as tvm_topi

from passhost import te, tirx, topi

DTYPES = ("float16", "float32", "int8", "int32", "uint8", "bool")
OF_ONE = (
    *("abs", "sign", "negative", "isnan", "isinf", "isfinite", "exp", "log", "sqrt", "rsqrt", "sigmoid", "tanh", "sin"),
    *("cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "erf", "log2", "log10"),
    *("floor", "ceil", "round", "trunc", "identity", "nn.relu", "nn.softmax", "nn.flatten", "squeeze", "transpose"),
    *("bitwise_not", "logical_not", "sum", "prod", "max", "min", "nn.log_softmax", "nn.softplus"),
)
OF_TWO = (
    *("add", "subtract", "multiply", "divide", "floor_divide", "floor_mod", "maximum", "minimum", "power"),
    *("less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "left_shift", "right_shift"),
    *("mod", "log_add_exp", "bitwise_and", "bitwise_or", "bitwise_xor", "logical_and", "logical_or", "logical_xor"),
)
WITH_ARGUMENTS = {
    "nn.leaky_relu": lambda f, x: f(x, 0.25),
    "cast": lambda f, x: f(x, "int32"),
    "clip": lambda f, x: f(x, 1, 5),
    "reshape": lambda f, x: f(x, (x.shape[1], x.shape[0], 4)),
    "expand_dims": lambda f, x: f(x, 1, 2),
    "broadcast_to": lambda f, x: f(x, (2, *x.shape)),
    "concatenate": lambda f, x: f([x, x], 1),
    "stack": lambda f, x: f([x, x], -1),
    "split": lambda f, x: f(x, [1, 2], 2),
    "tile": lambda f, x: f(x, [1, 3, 2]),
    "repeat": lambda f, x: f(x, 3, 1),
    "flip": lambda f, x: f(x, 1),
    "nn.pad": lambda f, x: f(x, [0, 1, 0], [0, 0, 2], 1),
}
MATRICES = {
    "nn.matmul": lambda f, x, y: f(x, y),
    "nn.dense": lambda f, x, y: f(x, y),
}
IMAGES = {
    "nn.conv2d": lambda f, x, w: f(x, w, (2, 1), (1, 0, 2, 1), (1, 2)),
    "nn.pool2d": lambda f, x, w: f(x, (2, 3), (2, 1), (1, 1), (1, 0, 1, 1), "max"),
    "nn.pool2d ": lambda f, x, w: f(x, (2, 3), (2, 1), (1, 1), (1, 0, 1, 1), "avg", True, "NCHW", False),
    "nn.global_pool": lambda f, x, w: f(x, "avg"),
    "nn.global_pool ": lambda f, x, w: f(x, "max"),
    "nn.upsampling": lambda f, x, w: f(x, 2, 3),
}


def cases():
    """Yields the name of a `topi` function, a function that applies it to tensors, and the shapes of the tensors."""
    for name in OF_ONE:
        yield name, lambda f, x: f(x), [(2, 3, 4)]
        yield name, lambda f, x: f(x), [("n", 3, 4)]
    for name in OF_TWO:
        for shapes in ([(2, 3), (3,)], [("n", "m"), ("m",)]):
            yield name, lambda f, x, y: f(x, y), shapes
        yield name, lambda f, x: f(x, 2), [(4,)]
        yield name, lambda f, x: f(x, 1.5), [(4,)]
    for name, call in WITH_ARGUMENTS.items():
        yield name, call, [(2, 3, 4)]
        yield name, call, [("n", 3, 4)]
    for name, call in MATRICES.items():
        yield name, call, [("n", 5), (5, 5)]
    for name, call in IMAGES.items():
        yield name, call, [("n", 2, 8, 7), (3, 2, 3, 2)]
        yield name, call, [(1, 2, 8, 7), (3, 2, 3, 2)]
    yield "where", lambda f, x, y: f(x, x, y), [(2, 3), (3,)]
    for k, upper in ((0, True), (2, True), (-1, False)):
        yield "trilu", lambda f, x, k=k, upper=upper: f(x, number(f, k), upper), [("n", 4)]


def number(function, value):
    return tvm_tirx.const(value, "int64") if function.__module__.startswith("tvm") else value


def made(of, tensors, scalars, name, call, shapes, dtype):
    """Returns the PrimFunc of a function, or the error."""
    variables = {word: scalars.Var(word, "int64") for word in ("n", "m")}
    dims = [[variables[dim] if dim in variables else scalars.IntImm("int64", dim) for dim in shape] for shape in shapes]
    inputs = [tensors.placeholder(shape, dtype, f"x{at}") for at, shape in enumerate(dims)]
    function = of
    for word in name.strip().split("."):
        function = getattr(function, word)
    try:
        result = call(function, *inputs)
        results = [result] if isinstance(result, tensors.Tensor) else list(result)
        used = inputs[:1] if "pool" in name or "upsampling" in name else inputs
        return tensors.create_prim_func([*used, *results]).script()
    except Exception as error:
        return error


def main():
    equal = refused = 0
    other_blocks, others = [], []
    for name, call, shapes in cases():
        for dtype in DTYPES:
            theirs = made(tvm_topi, tvm_te, tvm_tirx, name, call, shapes, dtype)
            ours = made(topi, te, tirx, name, call, shapes, dtype)
            what = f"{name} of {dtype} {shapes}"
            if isinstance(theirs, Exception) and isinstance(ours, Exception):
                refused += 1
            elif isinstance(theirs, Exception) or isinstance(ours, Exception):
                who, error = ("TVM", theirs) if isinstance(theirs, Exception) else ("passhost", ours)
                others.append(f"{what}: refused by {who}: {str(error).strip().splitlines()[-1][:150]}")
            elif blocks(theirs) != blocks(ours) and (name, dtype) != (
                "erf",
                "float16",
            ):  # As R.erf, in single precision.
                other_blocks.append(f"{what}: blocks {blocks(ours)}, in TVM {blocks(theirs)}")
            elif tvm_ffi.structural_equal(read(ours), read(theirs)):
                equal += 1
            else:
                others.append(f"{what}: {differing(ours)}   in TVM   {differing(theirs)}")
    print("\n".join(others + other_blocks))
    print(
        f"{equal} equal, {refused} refused by both, {len(others)} in another form, {len(other_blocks)} of other blocks"
    )
    return 1 if other_blocks else 0


def read(text):
    """Returns a PrimFunc that TVM parses; passhost's is in a module, without a global symbol."""
    parsed = tvm.script.from_source(text)
    return parsed["main"].with_attr("global_symbol", "main") if isinstance(parsed, tvm.IRModule) else parsed


def blocks(text):
    return re.findall(r'^ +with T\.sblock\("(\w+)"\)', text, re.MULTILINE)


def differing(text):
    return text.strip().splitlines()[-1].strip()


if __name__ == "__main__":
    sys.exit(main())
