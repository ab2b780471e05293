"""Measures TVM and passhost on the same synthetic modules in one run, and prints the ratios.

Both use one thread in a process that already did the same work; each time is the shortest of several runs.

TVM parses modules with more bindings than `--read-limit` too slowly. Such modules are built with TVM's block builder
instead, and the passes are skipped. If TVM parses the text, the parsed module is compared with the built module.
"""

import argparse
import pathlib
import subprocess
import tempfile
import time

import tvm
import tvm_ffi
from tvm import relax

ROOT = pathlib.Path(__file__).resolve().parents[2]

PASSES = {
    "relax.Normalize": relax.transform.Normalize,
    "relax.CanonicalizeBindings": relax.transform.CanonicalizeBindings,
    "relax.EliminateCommonSubexpr": relax.transform.EliminateCommonSubexpr,
    "relax.DeadCodeElimination": relax.transform.DeadCodeElimination,
    # This pass finds nothing to do, because all blocks of the module are dataflow blocks.
    "relax.ConvertToDataflow": relax.transform.ConvertToDataflow,
    # Nor does this pass, because the module lacks constants.
    "relax.FoldConstant": relax.transform.FoldConstant,
}
# From operators to fused loops: each pass runs on the result of the previous pass.
LOWERING = {
    "relax.LegalizeOps": relax.transform.LegalizeOps,
    "relax.AnnotateTIROpPattern": relax.transform.AnnotateTIROpPattern,
    "relax.FuseOps": relax.transform.FuseOps,
    "relax.FuseTIR": relax.transform.FuseTIR,
}


def best(work, times=3):
    """Returns the shortest time of several runs, in milliseconds."""
    laps = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        laps.append((time.perf_counter() - start) * 1e3)
    return min(laps)


def built(functions, bindings):
    """Returns the module from `synthetic`, built by TVM."""
    builder, tensor = relax.BlockBuilder(), relax.TensorType((8, 8), "float32")
    for f in range(functions):
        x, y = relax.Var("x", tensor), relax.Var("y", tensor)
        with builder.function("main" if functions == 1 else f"f{f:06}", [x, y]):
            with builder.dataflow():
                last, emitted = x, []
                for i in range(bindings - 1):
                    if i % 10 == 3:
                        value = relax.op.multiply(last, y)
                    elif i % 10 == 4:
                        value = relax.op.multiply(emitted[i - 2], y)
                    elif i % 10 == 6:
                        value = relax.op.subtract(last, y)
                    elif i % 10 == 8:
                        value = last
                    else:
                        value = relax.op.add(last, y) if i % 2 == 0 else relax.op.nn.relu(last)
                    emitted.append(builder.emit(value, f"lv{i}"))
                    if i % 10 != 6:
                        last = emitted[-1]
                result = builder.emit_output(relax.op.add(last, x), "gv")
            builder.emit_func_output(result)
    return builder.get()


def constant(functions, bindings):
    """Returns a module whose bindings are all constant and distinct."""
    lines = ["@I.ir_module", "class Module:"]
    for f in range(functions):
        lines += ["    @R.function", f"    def f{f:06}():", "        with R.dataflow():"]
        last = "None"
        for i in range(bindings):
            rows = [[float(64 * f + 8 * i + row + column) for column in range(8)] for row in range(8)]
            a = last if i else f'R.const({rows}, "float32")'
            op = "multiply" if i % 2 else "add"
            last = "gv" if i == bindings - 1 else f"lv{i}"
            lines.append(f'            {last} = R.{op}({a}, R.const({rows[::-1]}, "float32"))')
        lines += ["            R.output(gv)", "        return gv", ""]
    return "\n".join(["# from tvm.script import ir as I", "# from tvm.script import relax as R", *lines])


def folding(args, size="10x2"):
    """Measures FoldConstant on a module in which everything is folded."""
    text = constant(*map(int, size.split("x")))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "module.py"
        path.write_text(text)
        mine = times(args.times, path, ["relax.FoldConstant"])["relax.FoldConstant"]
    module, fold = tvm.script.from_source(text), relax.transform.FoldConstant()
    folded = fold(module)
    assert all(not function.body.blocks for _, function in folded.functions_items()), "everything is folded"
    return size + " const", [("relax.FoldConstant", best(lambda: fold(module)), mine)]


def modules(functions, bindings, text, limit):
    """Returns two copies of the module in a text, and TVM's parsing time if TVM parsed the text."""
    if functions * bindings > limit:
        return built(functions, bindings), built(functions, bindings), None
    start = time.perf_counter()
    module = tvm.script.from_source(text)
    lap = (time.perf_counter() - start) * 1e3
    like = built(functions, bindings)
    tvm.ir.assert_structural_equal(module, like)
    return module, like, lap


def times(binary, path, passes):
    """Returns the milliseconds by name that `times` prints for a module and passes."""
    done = subprocess.run([str(binary), str(path), *passes], capture_output=True, text=True, cwd=ROOT, check=True)
    return {name: float(value) for name, value in map(str.split, done.stdout.splitlines())}


def report(size, rows):
    for name, theirs, mine in rows:
        print(f"{size:10} {name:32} {theirs:12.3f} {mine:12.3f} {theirs / max(mine, 1e-3):9.0f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--synthetic", default=ROOT / "target/release/synthetic", type=pathlib.Path)
    parser.add_argument("--times", default=ROOT / "target/release/times", type=pathlib.Path)
    parser.add_argument("--read-limit", default=10_000, type=int, help="maximum number of bindings in a module that TVM parses")
    parser.add_argument("sizes", nargs="*", default=["1x1000", "100x20"], help="functions x bindings")
    args = parser.parse_args()
    print(f"{'size':10} {'work':32} {'TVM ms':>12} {'passhost ms':>12} {'ratio':>9}")
    for size in args.sizes:
        text = subprocess.run([str(args.synthetic), *size.split("x")], capture_output=True, text=True, check=True).stdout
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "module.py"
            path.write_text(text)
            functions, bindings = map(int, size.split("x"))
            module, like, read = modules(functions, bindings, text, args.read_limit)
            mine = times(args.times, path, [*PASSES, "then", *LOWERING] if read else [])
            laps = 3 if read else 1
            rows = [
                ("check", best(lambda: relax.analysis.well_formed(module), laps), mine["check"]),
                ("print", best(module.script, laps), mine["print"]),
                ("hash", best(lambda: tvm_ffi.structural_hash(module), laps), mine["hash"]),
                ("equality", best(lambda: tvm_ffi.structural_equal(module, like), laps), mine["equality"]),
            ]
            if read:
                rows.insert(0, ("read", read, mine["read"]))
                for name, make in PASSES.items():
                    one = make()
                    rows.append((name, best(lambda: one(module), 10), mine[name]))
                for name, make in LOWERING.items():
                    one = make()
                    rows.append((name, best(lambda: one(module)), mine[name]))
                    module = one(module)
            report(size, rows)
    report(*folding(args))


if __name__ == "__main__":
    main()
