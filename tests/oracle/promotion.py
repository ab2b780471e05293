"""Writes TVM's results for operands of two data types: `script/tests/promotion.txt`, which `script/tests/promotion.rs`
reads.

Each line contains an expression, and after an arrow TVM's output for it, or `refused` if TVM rejects it. Expressions
that TVM folds while parsing are in `folding.py` instead.
"""

import itertools
import pathlib

import tvm

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARAMETERS = {
    "a": "T.int32",
    "b": "T.int64",
    "c": "T.int8",
    "d": "T.uint8",
    "e": "T.uint32",
    "f": "T.float32",
    "g": "T.float16",
    "h": "T.bool",
    "k": "T.bfloat16",
    "q": "T.float8_e4m3fn",
    "V": 'T.Buffer((16,), "float32")',
    "W": 'T.Buffer((16,), "int32")',
}
VALUES = [name for name in PARAMETERS if name.islower()] + ["V[T.Ramp(0, 1, 4)]", "W[T.Ramp(0, 1, 4)]"]
NUMBERS = ["3", "2.5", "T.int64(3)", "T.uint8(3)", "T.float16(2.5)"]
OPERATIONS = [
    "{} + {}",
    "{} < {}",
    "{} == {}",
    "{} << {}",
    "{} & {}",
    "{} // {}",
    "{} / {}",
    "{} and {}",
    "T.max({}, {})",
    "T.truncmod({}, {})",
    "T.pow({}, {})",
    "T.if_then_else(h, {}, {})",
    "T.Select(h, {}, {})",
    "T.Add({}, {})",
    "T.Ramp({}, {}, 4)",
]
SINGLE = ["-{}", "~{}", "not {}", "T.float32({})", 'T.Cast("int64", {})', "T.Broadcast({}, 4)"]


def read(expression):
    """Returns TVM's output for an expression; None if TVM rejects it."""
    parameters = ", ".join(f"{name}: {ty}" for name, ty in PARAMETERS.items())
    text = (
        "# from tvm.script import ir as I\n# from tvm.script import tirx as T\n@I.ir_module\nclass Module:\n"
        f"    @T.prim_func(private=True)\n    def f({parameters}):\n        y = {expression}\n"
    )
    try:
        printed = tvm.script.from_source(text, check_well_formed=False).script(show_meta=True)
    except Exception:
        return None
    return printed.strip().splitlines()[-1].split(" = ", 1)[1]


def cases():
    """Yields expressions without operations on two constants, because TVM would fold such operations."""
    for form in SINGLE:
        yield from (form.format(value) for value in VALUES)
    for form in OPERATIONS:
        for a, b in itertools.product(VALUES + NUMBERS, repeat=2):
            if a != b and not (a in NUMBERS and b in NUMBERS):
                yield form.format(a, b)


def main():
    lines = []
    for expression in cases():
        lines.append(f"{expression} => {read(expression) or 'refused'}\n")
    (ROOT / "script/tests/promotion.txt").write_text("".join(lines))
    print(len(lines), "expressions")


if __name__ == "__main__":
    main()
