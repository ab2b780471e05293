"""Compares the goldens of relax.FoldConstant with TVM: TVM parses the modules before and after the pass, and TVM's pass
must return the same result.

Cases with options, and cases whose title describes TVM's different result, are counted separately. In the latter, the
results must differ or TVM must fail, so that no title is out of date. The exit code is 1 if a case contradicts its
title.
"""

import pathlib
import sys

import tvm
import tvm_ffi
from tvm import relax

import workers

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDENS = ROOT / "plugins/relax-passes/tests/goldens/fold_constant.txt"
HEAD = "# from tvm.script import ir as I\n# from tvm.script import tirx as T\n# from tvm.script import relax as R\n"


def cases():
    """Yields the title, the pipeline, and the modules before and after it."""
    for case in ("\n" + GOLDENS.read_text()).split("\n== ")[1:]:
        head, rest = case.split("\n-- before\n", 1)
        title, *settings = head.split("\n")
        before, *sections = rest.split("\n-- ")
        passes = next(line for line in settings if line.startswith("passes: "))
        after = next((section for section in sections if section.startswith("after")), "unchanged")
        yield title, passes, before, before if after == "unchanged" else after.split("\n", 1)[1]


def equal(case):
    """Returns true if TVM's pass returns the module in the golden."""
    _, _, before, after = case
    before, after = (tvm.script.from_source(HEAD + text) for text in (before, after))
    return tvm_ffi.structural_equal(relax.transform.FoldConstant()(before), after, map_free_vars=True)


def main():
    all_cases = list(cases())
    asked = [case for case in all_cases if case[1] == "passes: relax.FoldConstant"]
    as_tvm, wrong = 0, []
    for at, result in workers.run(equal, asked, 1, seconds=60):
        title = asked[at][0]
        # Unequal results, crashes and timeouts all count as different.
        expected = "TVM" not in title and "passhost" not in title
        as_tvm += result is True
        if (result is True) != expected:
            wrong.append((title, result))
    for title, result in wrong:
        print(f"{title}: {'equal, which contradicts its title' if result is True else f'not equal ({result})'}")
    print(f"{as_tvm} of {len(asked)} cases without options equal TVM's results; {len(wrong)} contradict their title")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
