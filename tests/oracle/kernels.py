"""Compares the interpreter's results for PrimFuncs with the results of TVM's compiled code.

    cargo run --release -p passhost-runtime --example kernels -- MODULE.py --write FOLDER
    python tests/oracle/kernels.py MODULE.py FOLDER [EVERY]

Every EVERY-th function is compiled for `llvm` and run on the interpreter's arguments. Floats may differ by 1e-5 of
the largest element, because TVM may contract and reorder operations; all other values must be equal.
"""

import pathlib
import sys

import numpy
import tvm


def argument(folder, name, at, when):
    dtype, *shape = (folder / f"{name}.{at}.type").read_text().split()
    data = numpy.frombuffer((folder / f"{name}.{at}.{when}").read_bytes(), dtype=dtype)
    return data.reshape([int(extent) for extent in shape]).copy()


def compare(name, function, folder):
    count = len(list(folder.glob(f"{name}.*.type")))
    function = function.with_attr("global_symbol", name)
    built = tvm.compile(tvm.IRModule({name: function}), target="llvm")
    tensors = [tvm.runtime.tensor(argument(folder, name, at, "before")) for at in range(count)]
    built[name](*tensors)
    worst = 0.0
    for at in range(count):
        ours, theirs = argument(folder, name, at, "after"), tensors[at].numpy()
        if numpy.issubdtype(ours.dtype, numpy.floating):
            difference = numpy.abs(ours.astype("float64") - theirs.astype("float64")).max(initial=0.0)
            worst = max(worst, difference / max(numpy.abs(theirs).max(initial=0.0), 1e-30))
        elif not numpy.array_equal(ours, theirs):
            worst = numpy.inf
    return worst


def main():
    text, folder = pathlib.Path(sys.argv[1]).read_text(), pathlib.Path(sys.argv[2])
    every = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    module = tvm.script.from_source(text)
    functions = [(var.name_hint, f) for var, f in module.functions_items() if isinstance(f, tvm.tirx.PrimFunc)]
    bad = 0
    for name, function in functions[::every]:
        worst = compare(name, function, folder)
        bad += not worst <= 1e-5
        print(f"{name:40} {worst:.2e}{'' if worst <= 1e-5 else '  DIFFERS'}", flush=True)
    print(f"{len(functions[::every])} of {len(functions)} functions compared, {bad} differ")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
