"""Writes docs/tvm-compatibility.md, which lists the public names of TVM 0.27 that passhost has.

    python python/tests/oracle/compatibility.py

Needs TVM in the environment. TVM and passhost are inspected in separate processes, because passhost replaces
TVM in one of them.
"""

import json
import subprocess
import sys
from pathlib import Path

MODULES = (
    "tvm",
    "tvm.ir",
    "tvm.ir.transform",
    "tvm.ir.instrument",
    "tvm.relax",
    "tvm.relax.analysis",
    "tvm.relax.expr_functor",
    "tvm.relax.op",
    "tvm.relax.op.nn",
    "tvm.relax.op.image",
    "tvm.relax.transform",
    "tvm.script",
    "tvm.s_tir",
    "tvm.s_tir.schedule",
    "tvm.te",
    "tvm.tirx",
    "tvm.tirx.transform",
)

OF_TVM = """
import importlib, inspect, json, sys
names = {}
for name in json.loads(sys.argv[1]):
    module = importlib.import_module(name)
    public = (word for word in dir(module) if not word.startswith("_"))
    names[name] = [word for word in public if not inspect.ismodule(getattr(module, word))
                   and str(getattr(getattr(module, word), "__module__", name)).startswith("tvm")]
print(json.dumps(names))
"""

OF_PASSHOST = """
import importlib, json, sys
from passhost.tvm import install
install()
def at(name):
    outer, _, last = name.rpartition(".")
    return getattr(at(outer), last) if outer else importlib.import_module(name)
print(json.dumps({name: [word for word in words if hasattr(at(name), word)]
                  for name, words in json.loads(sys.argv[1]).items()}))
"""


def asked(program, argument):
    """Returns the JSON that a program prints."""
    command = [sys.executable, "-c", program, json.dumps(argument)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])


def main():
    """Writes the page."""
    names = asked(OF_TVM, MODULES)
    found = asked(OF_PASSHOST, names)
    lines = [
        "# TVM's Python interface in passhost",
        "",
        "`python/tests/oracle/compatibility.py` writes this page. It compares the public names of TVM 0.27 with the",
        "names in `tvm` after `passhost.tvm.install()`. Using a missing name raises an error that contains the name.",
        "A name that exists may do less than in TVM.",
        "",
        "| module | names in TVM | in passhost |",
        "|---|---|---|",
    ]
    lines += [f"| `{name}` | {len(words)} | {len(found[name])} |" for name, words in names.items()]
    for name, words in names.items():
        missing = [f"`{word}`" for word in words if word not in found[name]]
        if missing:
            lines += ["", f"## Not in passhost: `{name}`", "", ", ".join(missing)]
    page = Path(__file__).parents[3] / "docs/tvm-compatibility.md"
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
