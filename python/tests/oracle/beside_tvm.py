"""Checks that modules converted from TVM to passhost and back are structurally equal. Needs TVM 0.27 in the
environment.

python python/tests/oracle/beside_tvm.py MODEL.py… RECORDED.jsonl…
"""

import json
import sys
import time
from pathlib import Path

import tvm
from tvm_ffi import structural_equal

from passhost.tvm import from_tvm, to_tvm, tvm_pass


def modules(paths):
    """Yields names and texts of modules."""
    for path in paths:
        if path.suffix == ".py":
            yield path.name, path.read_text()
            continue
        for line in path.read_text().splitlines():
            record = json.loads(line)
            for key in ("input", "before", "module", "text"):
                if isinstance(record.get(key), str):
                    yield f"{path.name}:{record.get('id', key)}", record[key]
                    break


def main():
    """Compares each module. The exit code is 1 if a module differs."""
    equal, different, unread = 0, [], 0
    spent = [0.0, 0.0]
    for name, text in modules(map(Path, sys.argv[1:])):
        try:
            mod = tvm.script.from_source(text)
        except Exception:
            unread += 1
            continue
        if not isinstance(mod, tvm.IRModule):
            mod = tvm.IRModule.from_expr(mod)
        try:
            start = time.perf_counter()
            own = from_tvm(mod)
            middle = time.perf_counter()
            back = to_tvm(own)
            spent = [spent[0] + middle - start, spent[1] + time.perf_counter() - middle]
            if structural_equal(mod, back):
                equal += 1
            else:
                different.append(name)
        except Exception as error:
            different.append(f"{name}: {str(error).splitlines()[0]}")
    for name in different:
        print("differs:", name)
    print(f"equal {equal}, different {len(different)}; TVM does not parse {unread}")
    print(f"from_tvm {spent[0]:.1f} s, to_tvm {spent[1]:.1f} s")

    mod = tvm.script.from_source((Path(__file__).parents[3] / "tests/models/vgg19.py").read_text())
    sequence = tvm.transform.Sequential([tvm.relax.transform.Normalize(), tvm_pass("acme.GroupConvolutions")])
    grouped = [name for name in sequence(mod).get_global_vars() if name.name_hint.startswith("fused_conv2d")]
    print(f"a TVM Sequential with acme.GroupConvolutions formed {len(grouped)} functions")
    sys.exit(bool(different) or not grouped)


if __name__ == "__main__":
    main()
