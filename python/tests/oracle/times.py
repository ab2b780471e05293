"""Compares the speed of passhost and TVM: import, passes written in Python, mutators, the block builder, and
decorators.

    python python/tests/oracle/times.py [--models FOLDER]

Each row is measured in separate processes, alternating TVM and passhost, three times each. The time is CPU time of
the fastest call. Needs TVM 0.27 in the environment and an optimized extension: `python build_backend.py --release`.
"""

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve()
IMPORTS = {
    "tvm": "import tvm\nfrom tvm import relax\nfrom tvm.script import ir as I, relax as R, tirx as T\n",
    "passhost": (
        "import passhost as tvm\nfrom passhost import relax\n"
        "from passhost.script import ir as I, relax as R, tirx as T\n"
    ),
}

FUNCTIONS = """
def functions(count):
    builder = relax.BlockBuilder()
    for at in range(count):
        x = relax.Var("x", relax.TensorType((4, 4), "float32"))
        with builder.function(f"f{at}", [x]):
            builder.emit_func_output(builder.emit(relax.op.add(x, x)))
    return builder.finalize()
"""

CHAIN = """
def chain(count):
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 4), "float32"))
    with builder.function("main", [x]):
        value = x
        for at in range(count):
            value = builder.emit(relax.op.add(value, x))
        builder.emit_func_output(value)
    return builder.finalize()
"""

NOOP = """
@tvm.transform.module_pass(opt_level=0)
def same(mod, ctx):
    return mod
"""


def rows(models):
    """Yields the name, the setup and the measured code of each row."""
    yield "import", None, None
    yield "module_pass without effect, 1 function", FUNCTIONS + NOOP + "mod = functions(1)\n", "same(mod)"
    yield "module_pass without effect, 1,000 functions", FUNCTIONS + NOOP + "mod = functions(1000)\n", "same(mod)"
    visits = (
        CHAIN
        + """
from {package}.relax.expr_functor import PyExprMutator, mutator
@mutator
class Renamed(PyExprMutator):
    def visit_call_(self, call):
        call = self.visit_expr_post_order(call)
        return relax.op.multiply(*call.args) if call.op.name == "relax.add" else call
mod = chain(10000)
function = mod["main"]
"""
    )
    yield "PyExprMutator that rewrites 10,000 calls", visits, "Renamed(mod).visit_expr(function)"
    leaves = visits.replace('relax.op.multiply(*call.args) if call.op.name == "relax.add" else call', "call")
    yield "PyExprMutator that leaves 10,000 calls as they are", leaves, "Renamed(mod).visit_expr(function)"
    yield "BlockBuilder, 10,000 bindings", CHAIN, "chain(10000)"
    for model in models:
        # A decorator reads the source of its module from a file.
        read = (
            "import importlib, os, sys, tempfile\n"
            "folder = tempfile.TemporaryDirectory()\n"
            "sys.path.insert(0, folder.name)\n"
            "def read():\n"
            "    sys.modules.pop('decorated', None)\n"
            "    return importlib.import_module('decorated')\n"
            "with open(os.path.join(folder.name, 'decorated.py'), 'w') as file:\n"
            f"    file.write({{imports!r}} + open({str(model)!r}).read())\n"
        )
        yield f"decorator, {model.name}", read, "read()"


TIMED = """
import gc, timeit, time
timer = timeit.Timer({timed!r}, "gc.enable()", time.process_time, globals())
number, spent = timer.autorange()
number = max(1, int(number / 4))
print(min(timer.repeat(max(5, int(1.5 / (spent / 4))), number)) / number)
"""


def measured(package, prepared, timed):
    """Returns the CPU time of the fastest call in one process, in milliseconds."""
    if prepared is None:
        program = f"import time\nstart = time.process_time()\nimport {package}\nprint(time.process_time() - start)"
    else:
        prepared = prepared.replace("{package}", package).replace("{imports!r}", repr(IMPORTS[package]))
        program = IMPORTS[package] + prepared + TIMED.format(timed=timed)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{package}: {done.stderr}")
    return float(done.stdout.splitlines()[-1]) * 1e3


def main():
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, nargs="*", default=[HERE.parents[3] / "tests/models/vgg19.py"])
    parser.add_argument("--only", default="", help="measure only rows whose names contain this")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print("| what | TVM 0.27, ms | passhost, ms | times as fast |\n|---|---|---|---|")
    for name, prepared, timed in rows(options.models):
        if options.only not in name:
            continue
        rounds = [
            [measured(package, prepared, timed) for package in ("tvm", "passhost")] for _ in range(options.rounds)
        ]
        tvm, own = map(min, zip(*rounds, strict=True))
        print(f"| {name} | {tvm:.4g} | {own:.4g} | {tvm / own:.3g} |", flush=True)


if __name__ == "__main__":
    main()
