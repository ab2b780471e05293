"""Compares the speed of float32 matrix products with OpenBLAS, which numpy calls.

    PYTHONPATH=python/python python tests/oracle/matmul.py [--rounds N] [MxKxN ...]

Needs numpy and the Python package, which `python build_backend.py --release` in `python/` builds. The product has
the schedule of `tir.ScheduleForCPU`. The table contains the medians of all turns, with two threads each (`turns.py`),
and the median ratio of OpenBLAS's time to passhost's time in the same round.
"""

import argparse
import pathlib
import statistics
import tempfile

import numpy as np
import turns


def given(sizes):
    """Returns the two matrices of a product."""
    m, k, n = map(int, sizes.split("x"))
    random = np.random.default_rng(0)
    return random.random((m, k), dtype="float32"), random.random((k, n), dtype="float32")


def in_openblas(sizes):
    """Computes the product with numpy, into existing memory."""
    a, b = given(sizes)
    out = np.empty((a.shape[0], b.shape[1]), "float32")
    return lambda: np.matmul(a, b, out=out)


def in_passhost(sizes):
    """Computes the product as a Relax function, with the schedule of the pass."""
    import passhost
    from passhost import relax, s_tir
    from passhost.transform import Sequential

    arrays = given(sizes)
    builder = relax.BlockBuilder()
    params = [
        relax.Var(name, relax.TensorType(array.shape, "float32")) for name, array in zip("ab", arrays, strict=True)
    ]
    with builder.function("main", params):
        builder.emit_func_output(builder.emit(relax.op.matmul(*params)))
    names = (
        "LowerInitBlock",
        "PlanAndUpdateBufferAllocationLocation",
        "ConvertBlocksToOpaque",
        "CompactBufferAllocation",
        "LowerMatchBuffer",
        "StmtSimplify",
        "LowerOpaqueBlock",
    )
    lower = [getattr(s_tir.transform, name)() for name in names]
    passes = [
        relax.transform.LegalizeOps(),
        passhost.passes.tir.ScheduleForCPU(),
        *lower,
        passhost.passes.tir.FuseMultiplyAdd(),
    ]
    machine = passhost.runtime.VirtualMachine(Sequential(passes)(builder.get()), backend="llvm")
    tensors = [passhost.runtime.tensor(array) for array in arrays]
    return lambda: machine["main"](*tensors).numpy()


PROGRAMS = {"passhost": in_passhost, "OpenBLAS": in_openblas}


def main():
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", default=["512x512x512", "1024x1024x1024", "128x768x3072"])
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--serve")
    options = parser.parse_args()
    if options.serve:
        return turns.serve(PROGRAMS[options.serve](*options.sizes))
    print(f"median of {options.rounds} turns, {turns.THREADS} threads")
    print("\n| product | passhost, ms | OpenBLAS, ms | of OpenBLAS's speed |\n|---|---|---|---|")
    for sizes in options.sizes:
        programs = {program: [__file__, sizes, "--serve", program] for program in PROGRAMS}
        with tempfile.TemporaryDirectory() as folder:
            seconds = turns.measure(programs, options.rounds, pathlib.Path(folder))
        ours, theirs = seconds.values()
        speed = statistics.median(b / a for a, b in zip(ours, theirs, strict=True))
        print(
            f"| {sizes} | {statistics.median(ours) * 1e3:.2f} | {statistics.median(theirs) * 1e3:.2f} | {speed:.2f} |"
        )


if __name__ == "__main__":
    main()
