"""Runs the Python code in `docs/porting-from-tvm.md` with TVM, on the modules of the goldens on the page.

    python tests/oracle/port.py

The result of TVM's pass must equal the golden, which is also the result of the Rust code. The exit code is 1 if a
module differs.
"""

import importlib.util
import sys
import tempfile
import textwrap
from pathlib import Path

import tvm
import tvm.script
import tvm_ffi

PAGE = Path(__file__).parents[2] / "docs/porting-from-tvm.md"


def python_text(page: str) -> str:
    """Returns the fenced Python blocks, joined."""
    blocks = page.split("```python fold_batch_norm.py\n")[1:]
    assert blocks, "the page contains no Python code"
    return "\n".join(block.split("```", 1)[0] for block in blocks)


def loaded(text: str) -> type:
    """Loads the pass from a file, because TVMScript, and perhaps the decorator, reads the source file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fold_batch_norm.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location("fold_batch_norm", path)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.FoldBatchNorm


def goldens(page: str) -> list[tuple[str, str, str]]:
    """Returns the title, and the modules before and after the pass, of each golden on the page."""
    block = page.split("Append to `tests/goldens/fold_batch_norm.txt`:\n", 1)[1].split("\nand\n", 1)[0]
    cases = []
    for case in textwrap.dedent(block).split("== ")[1:]:
        title, rest = case.split("\n", 1)
        before = rest.split("-- before\n", 1)[1]
        before, kind, after = before.partition("-- after\n")
        cases.append((title, before.split("-- unchanged")[0], after if kind else before.split("-- unchanged")[0]))
    return cases


def main() -> int:
    """Compares the results of all goldens."""
    page = PAGE.read_text()
    fold = loaded(python_text(page))()
    differ = 0
    cases = goldens(page)
    assert len(cases) == 2, cases
    for title, before, after in cases:
        head = "" if "from tvm.script" in before else "# from tvm.script import ir as I\n# from tvm.script import relax as R\n"
        found = fold(tvm.script.from_source(head + before))
        expected = tvm.script.from_source(head + after)
        equal = tvm_ffi.structural_equal(found, expected)
        print(f"{title}: {'equal' if equal else 'differs'}")
        if not equal:
            print(found.script(), expected.script(), sep="\n")
            differ += 1
    return int(differ > 0)


if __name__ == "__main__":
    sys.exit(main())
