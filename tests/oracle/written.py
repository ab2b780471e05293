"""Checks that TVM parses the same modules from the handwritten texts in `tests/goldens/written` and from passhost's
output for them.

    ../oracle-venv/bin/python tests/oracle/written.py
"""

import pathlib
import sys

import tvm
import tvm_ffi


def read(text):
    read = tvm.script.from_source(text)
    return read if isinstance(read, tvm.IRModule) else tvm.IRModule.from_expr(read)


def main():
    folder = pathlib.Path(__file__).parent.parent / "goldens" / "written"
    failed = 0
    for path in sorted(folder.glob("*.py")):
        written, printed = path.read_text().split("# is read as\n")
        same = tvm_ffi.structural_equal(read(written), read(printed))
        failed += not same
        print(f"{path.stem}: {'same' if same else 'TVM parses the two texts differently'}")
    sys.exit(failed > 0)


main()
