"""Modules go from TVM to passhost and back, and come back structurally equal. Needs TVM 0.27 in the environment.

    python python/tests/oracle/beside_tvm.py [--limit N] MODEL.py… RECORDED.jsonl…

`--limit` is the number of modules that are taken of each recorded file, evenly spread over it. The way back is measured
twice: by JSON, as `to_tvm` does, and by TVMScript.
"""

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

import tvm
from tvm_ffi import structural_equal

from passhost.tvm import from_tvm, to_tvm, tvm_pass
from passhost.tvm._json import NoJsonError, module_json


def modules(paths, limit):
    """Names and texts of modules."""
    for path in paths:
        if path.suffix == ".py":
            yield path.name, path.read_text()
            continue
        lines = path.read_text().splitlines()
        step = max(1, len(lines) // limit) if limit else 1
        for line in lines[::step][: limit or None]:
            record = json.loads(line)
            for key in ("input", "before", "module", "text"):
                if isinstance(record.get(key), str):
                    yield f"{path.name}:{record.get('id', key)}", record[key]
                    break


class Times:
    """Seconds that were spent on each thing."""

    def __init__(self):
        """Nothing yet."""
        self.spent = Counter()

    def of(self, what, function, *args):
        """Calls a function and notes its time."""
        start = time.perf_counter()
        result = function(*args)
        self.spent[what] += time.perf_counter() - start
        return result


def main():
    """Compares each; the exit code is 1 if one differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", type=Path, nargs="+")
    parser.add_argument("--limit", type=int, default=0)
    options = parser.parse_args()
    equal, different, unread, scripts, times = 0, [], 0, Counter(), Times()
    for name, text in modules(options.paths, options.limit):
        try:
            mod = tvm.script.from_source(text)
        except Exception:
            unread += 1
            continue
        if not isinstance(mod, tvm.IRModule):
            mod = tvm.IRModule.from_expr(mod)
        try:
            own = times.of("from_tvm", from_tvm, mod)
            back = times.of("to_tvm", to_tvm, own)
            try:
                module_json(own)
                times.of("TVMScript instead of to_tvm", lambda own=own: tvm.script.from_source(own.script()))
            except NoJsonError as error:
                scripts[str(error)] += 1
            if structural_equal(mod, back):
                equal += 1
            else:
                different.append(name)
        except Exception as error:
            different.append(f"{name}: {type(error).__name__}: {str(error).splitlines()[:1]}")
    for name in different:
        print("differs:", name)
    print(f"equal {equal}, different {len(different)}; TVM does not read {unread}")
    print(f"through TVMScript, as JSON cannot say them: {scripts.total()} {dict(scripts)}")
    print(", ".join(f"{what} {seconds:.1f} s" for what, seconds in times.spent.items()))

    mod = tvm.script.from_source((Path(__file__).parents[3] / "tests/models/vgg19.py").read_text())
    sequence = tvm.transform.Sequential([tvm.relax.transform.Normalize(), tvm_pass("acme.GroupConvolutions")])
    grouped = [name for name in sequence(mod).get_global_vars() if name.name_hint.startswith("fused_conv2d")]
    print(f"a Sequential of TVM with acme.GroupConvolutions formed {len(grouped)} functions")
    sys.exit(bool(different) or not grouped)


if __name__ == "__main__":
    main()
