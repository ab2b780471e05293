"""Applies the traces in runtime/tests/schedules/cases.txt with TVM's schedule, and compares the results.

Each result must be structurally equal to TVM's, or have a reason in REASONS; TVM may accept traces that passhost
refuses. The exit code is 1 if a difference is unexplained.
"""

import re
import sys

import tvm
from goldens import ROOT
from tvm import s_tir
from tvm.script import from_source

HEAD = "# from tvm.script import ir as I\n# from tvm.script import tirx as T\n\n"
FILE = ROOT / "runtime/tests/schedules/cases.txt"

SIMPLER = "passhost simplifies quotients and remainders of sums"
# The reasons why TVM's results differ, by the title of the case.
REASONS = {
    "a loop is split into one and all": "passhost omits the variable of a loop with one iteration",
    "a loop is split twice, and both last parts are not full": "TVM keeps the parentheses around the sum that replaces a variable",
    "three loops are fused": "passhost writes x // 64 % 96, and TVM writes x % 6144 // 64",
    "a fused loop is split again": SIMPLER,
    "a fused loop is split differently": SIMPLER,
    "a buffer that a statement allocates goes with its block": "TVM rejects it, because it does not support buffers that statements allocate",
    "a buffer that a statement allocates is written earlier": "TVM writes the buffer before the statement that allocates it",
}

# TVM's names of primitives, if they differ.
NAMES = {"get_block": "get_sblock"}


def cases():
    """Returns the functions by name, and the title, function name, trace and result of each case."""
    text = FILE.read_text()
    head, *rest = re.split(r"^== ", text, flags=re.M)
    functions = dict(re.findall(r"^-- function (\w+)\n(.*?)(?=\n\n-- function |\Z)", head.rstrip() + "\n", flags=re.M | re.S))
    for case in rest:
        found = re.fullmatch(r"(.*)\n-- trace (\w+)\n(.*?)\n?-- after\n(.*)", case.rstrip() + "\n", flags=re.S)
        yield found[1], functions[found[2]], found[3], found[4]


def module(function):
    lines = "".join(f"    {line}\n" for line in function.rstrip().splitlines())
    return from_source(f"{HEAD}@I.ir_module\nclass Module:\n    @T.prim_func(s_tir=True)\n{lines}")


def apply(function, trace):
    schedule, known = s_tir.Schedule(module(function), error_render_level="none"), {}
    schedule.work_on("f")
    for line in trace.splitlines():
        outs, call = line.split(" = ", 1) if " = " in line else ("", line)
        name, args = re.fullmatch(r"(\w+)\((.*)\)", call).groups()
        args = list(eval(f"({args},)", {}, known))
        if name in ("reorder", "fuse"):
            args = args[0]
        if name == "get_block" and len(args) == 2:
            raise NotImplementedError("TVM's names of blocks are unique")
        made = getattr(schedule, NAMES.get(name, name))(*args)
        outs = [out.strip() for out in outs.split(",") if out.strip()]
        if len(outs) == 1 and name not in ("get_loops", "split"):
            made = [made]
        known.update(zip(outs, made or []))
    return schedule.mod


def main():
    counts = {"equal": 0, "explained": 0, "both refuse": 0, "only passhost refuses": 0}
    wrong = []
    for title, function, trace, after in cases():
        try:
            theirs = apply(function, trace)
        except Exception as error:  # TVM raises errors of several classes
            theirs = error
        if after.startswith("error: "):
            refused = isinstance(theirs, Exception)
            counts["both refuse" if refused else "only passhost refuses"] += 1
            if not refused:
                print(f"only passhost refuses: {title}")
            continue
        if isinstance(theirs, Exception):
            outcome = f"TVM refuses it: {str(theirs).strip().splitlines()[-1]}"
        else:
            try:
                tvm.ir.assert_structural_equal(theirs, module(after))
                counts["equal"] += 1
                if title in REASONS:
                    wrong.append(f"{title}: equal, although REASONS explains a difference")
                continue
            except ValueError:
                outcome = f"TVM makes\n{theirs['f'].script()}\npasshost makes\n{after}" if "-v" in sys.argv else "other"
        if title in REASONS:
            counts["explained"] += 1
        else:
            wrong.append(f"{title}: {outcome}")
    print(", ".join(f"{n} {what}" for what, n in counts.items()))
    for text in wrong:
        print(f"unexplained: {text}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
