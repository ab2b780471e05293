"""Writes the constants that TVM parses: `script/tests/constants.txt`, which `script/tests/constants.rs` reads.

Each line contains an expression, and after an arrow the data type, shape and data of the constant, or `refused` if TVM
rejects the expression.
"""

import itertools
import pathlib

import tvm

ROOT = pathlib.Path(__file__).resolve().parents[2]
DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "bfloat16"),
]
NUMBERS = [
    *("True", "0", "1", "-1", "127", "128", "-128", "-129", "255", "256", "65535", "65536", "2147483648", "-2147483649"),
    *("9007199254740993", "16777217", "9223372036854775807", "9223372036854775808", "18446744073709551615"),
    *("0.0", "-0.0", "0.5", "-0.5", "1.5", "-1.5", "0.1", "255.9", "-128.9", "1e5", "1e10", "1e19", "1e40", "65519.0"),
    *("65520.0", "1e-8", "6e-8", "1.0009765625", "3.00390625", 'float("inf")', 'float("nan")', '"nan"', '"-inf"'),
]
LISTS = [
    *("[]", "[[], []]", "[1, 2]", "[True, False]", "[True, 2]", "[True, 2.5]", "[1, 2.5]", "[[1, 2], (3, 4)]", "[(1, 2)]"),
    *("(1, 2)", "[[1], [2, 3]]", "[1, [2]]", "[[1], 2]", "[[[1.0, 2.0]], [[3.0, 4.0]]]", "[-(1)]", "[+1.0]", "[1j]", '["a"]'),
]


def read(expression):
    """Returns the data type, shape and data of the constant that TVM parses; None if TVM rejects the expression."""
    text = (
        "# from tvm.script import ir as I\n# from tvm.script import relax as R\n@I.ir_module\nclass Module:\n"
        f"    @R.function\n    def main():\n        y = {expression}\n        return y\n"
    )
    try:
        module = tvm.script.from_source(text)
    except Exception:
        return None
    value = module["main"].body.blocks[0].bindings[0].value.value
    shape = " ".join(str(dim) for dim in value.shape)
    data = value.numpy()
    return f"{value.dtype} ({shape}) {data.tobytes().hex()}"


def cases():
    for number, dtype in itertools.product(NUMBERS, DTYPES):
        if not number.startswith('"'):
            yield f'R.const({number}, "{dtype}")'
        yield f'R.const([{number}], "{dtype}")'
    for number in NUMBERS:
        yield f"R.const({number})"
        yield f"R.const([{number}])"
    for values in LISTS:
        yield f"R.const({values})"
        yield f"R.const({values}, None)"
        for dtype in ("float32", "int8", "bool", "float8_e4m3fn", "int4", "float32x4", "nothing"):
            yield f'R.const({values}, "{dtype}")'
    yield from ('R.const([1], dtype="int8")', 'R.const(value=[1], dtype="int8")', 'R.const([1], "int8", 2)', "R.const()")


def main():
    lines = [f"{expression} => {read(expression) or 'refused'}\n" for expression in cases()]
    (ROOT / "script/tests/constants.txt").write_text("".join(lines))
    print(len(lines), "expressions")


if __name__ == "__main__":
    main()
