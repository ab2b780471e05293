"""Compares TVM's `sym.Analyzer` with passhost's analyzer on the same queries, and counts the more precise answers of
each."""

import argparse
import collections
import itertools
import json
import pathlib
import random
import subprocess
import sys

import tvm
from tvm import sym, tirx

ROOT = pathlib.Path(__file__).resolve().parents[2]
INFINITE = 2**62
FUNCTIONS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "truncdiv": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "truncmod": lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1),
    "min": min,
    "max": max,
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    ">": lambda a, b: int(a > b),
    ">=": lambda a, b: int(a >= b),
    "and": lambda a, b: int(bool(a) and bool(b)),
    "or": lambda a, b: int(bool(a) or bool(b)),
    "not": lambda a: int(not a),
}
NODES = {
    "+": tirx.Add, "-": tirx.Sub, "*": tirx.Mul, "//": tirx.FloorDiv, "%": tirx.FloorMod,
    "truncdiv": tirx.Div, "truncmod": tirx.Mod, "min": tirx.Min, "max": tirx.Max,
    "==": tirx.EQ, "!=": tirx.NE, "<": tirx.LT, "<=": tirx.LE, ">": tirx.GT, ">=": tirx.GE,
    "and": tirx.And, "or": tirx.Or,
}  # fmt: skip
CONDITIONS = ["==", "!=", "<", "<=", ">", ">=", "and", "or", "not"]
NAMES = {node: name for name, node in NODES.items()}


def integer(rng, depth):
    """Returns a random expression that resembles an index."""
    if depth == 0 or rng.random() < 0.1:
        return f"x{rng.randrange(3)}" if rng.random() < 0.75 else rng.choice([1, 2, 3, 4, 5, 8, 16, -1, -3])
    op = rng.choice(["+", "+", "+", "-", "-", "*", "*", "//", "//", "%", "%", "min", "max", "truncdiv", "truncmod"])
    a = integer(rng, depth - 1)
    if op in ("*", "//", "%", "truncdiv", "truncmod"):
        return [op, a, rng.choice([2, 3, 4, 8, 16, 32]) if rng.random() < 0.95 else integer(rng, 0)]
    return [op, a, integer(rng, depth - 1)]


def index(rng):
    """Returns an index of the form that flattening and splitting of loops create."""
    inner = rng.choice([2, 4, 8])
    flat = ["+", ["*", "x0", inner], rng.choice(["x1", ["%", "x1", inner]])]
    if rng.random() < 0.5:
        flat = ["+", flat, rng.choice([1, inner, ["*", "x2", inner * rng.choice([1, 2, 4])]])]
    outer = inner * rng.choice([1, 2, 4])
    pieces = [["//", flat, outer], ["%", flat, outer], ["+", ["*", ["//", flat, outer], outer], ["%", flat, outer]],
              ["//", ["//", flat, inner], 2], ["%", ["%", flat, outer], inner], ["//", ["%", flat, outer], inner]]  # fmt: skip
    return rng.choice(pieces)


def question(rng):
    kind = rng.random()
    ranges = [[rng.choice([0, 0, 0, 1, -3]), rng.choice([1, 2, 4, 8, 16])] if rng.random() < 0.8 else None for _ in range(3)]
    make = index if kind < 0.4 else lambda rng: integer(rng, rng.randrange(1, 5))
    expr = make(rng)
    if rng.random() < 0.3:
        op = rng.choice(["==", "!=", "<", "<=", ">", ">="])
        expr = [op, expr, rng.choice([make(rng), rng.randrange(-4, 40)])]
        if rng.random() < 0.2:
            expr = rng.choice([["not", expr], ["and", expr, ["<", make(rng), 8]], ["or", ["<", make(rng), 8], expr]])
    return {"vars": [range_ or [] for range_ in ranges], "expr": expr}


def evaluate(expr, point):
    if isinstance(expr, int):
        return expr
    if isinstance(expr, str):
        return point[int(expr[1:])]
    return FUNCTIONS[expr[0]](*(evaluate(part, point) for part in expr[1:]))


def to_tvm(expr, variables):
    if isinstance(expr, int):
        return tirx.IntImm("int64", expr)
    if isinstance(expr, str):
        return variables[int(expr[1:])]
    parts = [to_tvm(part, variables) for part in expr[1:]]
    return tirx.Not(parts[0]) if expr[0] == "not" else NODES[expr[0]](*parts)


def from_tvm(expr, variables):
    if isinstance(expr, tirx.IntImm):
        return int(expr.value)
    if isinstance(expr, tirx.Var):
        return next(f"x{i}" for i, var in enumerate(variables) if var.same_as(expr))
    if isinstance(expr, tirx.Not):
        return ["not", from_tvm(expr.a, variables)]
    return [NAMES[type(expr)], from_tvm(expr.a, variables), from_tvm(expr.b, variables)]


def size(expr):
    return 1 + sum(size(part) for part in expr[1:]) if isinstance(expr, list) else 1


def ask_tvm(asked):
    analyzer = sym.Analyzer()
    variables = [tirx.Var(f"x{i}", "int64") for i in range(3)]
    for var, range_ in zip(variables, asked["vars"]):
        if range_:
            analyzer.bind(var, tvm.ir.Range.from_min_extent(*(tirx.IntImm("int64", v) for v in range_)))
    expr = to_tvm(asked["expr"], variables)
    answer = {"simple": from_tvm(analyzer.simplify(expr, 3), variables), "proven": False}
    if isinstance(asked["expr"], list) and asked["expr"][0] in CONDITIONS:
        answer["proven"] = bool(analyzer.can_prove(expr))
    else:
        bounds, set_ = analyzer.const_int_bound(expr), analyzer.modular_set(expr)
        answer["bounds"] = [int(bounds.min_value), int(bounds.max_value)]
        answer["modular"] = [int(set_.coeff), int(set_.base)]
    return answer


def points(asked):
    spans = [range(r[0], r[0] + r[1]) if r else range(-5, 20, 3) for r in asked["vars"]]
    return itertools.product(*spans)


def unsound(asked, answer):
    """Describes an incorrect answer; returns None if it is correct."""
    for point in points(asked):
        try:
            expected = evaluate(asked["expr"], point)
        except ZeroDivisionError:
            continue
        if evaluate(answer["simple"], point) != expected:
            return f"{answer['simple']} has a different value at {point}"
        if answer["proven"] and not expected:
            return f"proven, but false at {point}"
        if "bounds" in answer and not answer["bounds"][0] <= expected <= answer["bounds"][1]:
            return f"{answer['bounds']} does not contain {expected} at {point}"
        if "modular" in answer:
            coeff, base = answer["modular"]
            if (expected - base) % coeff if coeff else expected != base:
                return f"{answer['modular']} does not contain {expected} at {point}"
    return None


def compare(count, what, theirs, ours, asked, shown):
    """Counts the side that is more precise: `theirs` and `ours` are numbers, and lower is better."""
    kind = "equal" if theirs == ours else "passhost" if ours < theirs else "TVM"
    count[what, kind] += 1
    if kind == "TVM" and what in shown:
        print(what, json.dumps(asked), theirs, ours)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", nargs="*", default=[], help="print where TVM is more precise: size, value, proof, bounds, modular")
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "target/release/arith")
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    asked = [question(rng) for _ in range(arguments.questions)]
    text = "\n".join(json.dumps(one) for one in asked)
    done = subprocess.run([str(arguments.binary)], input=text, capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    count, wrong = collections.Counter(), 0
    for one, ours in zip(asked, answers, strict=True):
        try:
            theirs = ask_tvm(one)
        except tvm.error.InternalError:
            # The expression divides by a constant 0.
            count["raised", "TVM"] += 1
            continue
        if "bounds" not in theirs:
            del ours["bounds"], ours["modular"]
        for who, answer in (("passhost", ours), ("TVM", theirs)):
            found = unsound(one, answer)
            if found:
                wrong += who == "passhost"
                print(f"{who} is wrong: {json.dumps(one)}: {found}")
                count["wrong", who] += 1
        show = arguments.show
        compare(count, "size", size(theirs["simple"]), size(ours["simple"]), [one, theirs["simple"], ours["simple"]], show)
        if isinstance(theirs["simple"], int) or isinstance(ours["simple"], int):
            is_open = [not isinstance(answer["simple"], int) for answer in (theirs, ours)]
            compare(count, "value", *is_open, one, show)
        if theirs["proven"] or ours["proven"]:
            compare(count, "proof", not theirs["proven"], not ours["proven"], one, show)
        if "bounds" in theirs:
            def width(b): return min(b[1], INFINITE) - max(b[0], -INFINITE)  # fmt: skip
            compare(count, "bounds", width(theirs["bounds"]), width(ours["bounds"]), [one, theirs["bounds"], ours["bounds"]], show)
            def distance(m): return -(m[0] or INFINITE)  # fmt: skip
            compare(count, "modular", distance(theirs["modular"]), distance(ours["modular"]), [one, theirs["modular"], ours["modular"]], show)
    for what in ("size", "value", "proof", "bounds", "modular"):
        equal, more, less = (count[what, kind] for kind in ("equal", "passhost", "TVM"))
        total = max(1, equal + more + less)
        print(f"{what}: {100 * (equal + more) / total:.1f} % at least as good as TVM: {equal} equal, {more} better, {less} worse")
    print(f"wrong: passhost {count['wrong', 'passhost']}, TVM {count['wrong', 'TVM']}, of {len(asked)}; TVM raised {count['raised', 'TVM']}")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
