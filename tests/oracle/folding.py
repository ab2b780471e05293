"""Writes the constants that TVM folds while parsing: `script/tests/folding.txt`, which `script/tests/folding.rs` reads.

Each line contains an expression, and after an arrow TVM's output for it, or `refused` if TVM rejects it. The
expressions are the foldable ones from `promotion.py`: plain numbers, numbers with a type, and variables next to 0 and
1.
"""

import itertools
import pathlib

from promotion import read

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXT = ["-7", "0", "1", "2", "0.5"]
TYPED = ["T.int32(-7)", "T.int64(2)", "T.int8(100)", "T.uint8(200)", "T.float32(0.1)", "T.float64(0.1)", "T.float16(2.0)", "T.bool(True)"]
WIDE = ["-7", "T.int32(-7)", "T.int8(100)", "T.uint8(200)"]
NEUTRAL = ["0", "1", "T.int64(0)", "T.float32(1.0)", "T.float32(0.0)", "T.bool(False)"]
VARIABLES = ["a", "b", "d", "f", "g", "h"]
OPERATIONS = ["{} + {}", "{} - {}", "{} * {}", "{} // {}", "{} % {}", "{} / {}", "{} < {}", "{} >= {}", "{} == {}", "{} & {}",
              "{} and {}", "{} or {}", "T.min({}, {})", "T.max({}, {})", "T.truncdiv({}, {})", "T.truncmod({}, {})",
              "T.floordiv({}, {})", "T.shift_left({}, {})", "T.shift_right({}, {})", "T.LShift({}, {})", "T.Add({}, {})", "T.Mul({}, {})"]
SINGLE = ["-({})", "not ({})"]


def cases():
    for form in SINGLE:
        yield from (form.format(value) for value in TEXT + TYPED)
    for form in OPERATIONS:
        for a, b in itertools.product(TEXT + TYPED, repeat=2):
            # TVM rejects shifts by a negative number or by more than the width. passhost keeps such an expression.
            if not ("shift" in form.lower() and b in WIDE):
                yield form.format(a, b)
        for a, b in itertools.product(VARIABLES, NEUTRAL):
            yield form.format(a, b)
            yield form.format(b, a)
    yield from ["a + 2 * 3", "a + (1 + 2) * 3", "W[1 + 2]", "W[2 * 3 - 1] + 0", "T.min(a, a)", "T.max(1 + 1, 2)", "a * (3 - 2)"]


if __name__ == "__main__":
    lines = [f"{case} => {read(case) or 'refused'}" for case in cases()]
    (ROOT / "script/tests/folding.txt").write_text("\n".join(lines) + "\n")
    print(f"{len(lines)} expressions; TVM rejects {sum(line.endswith('=> refused') for line in lines)} of them")
