"""Executes operators with many data types, shapes and attributes, and compares the results with NumPy and TVM.

    python tests/oracle/sweep.py [--passhost FILE] [--only add,mean] [--states plain,legalized,fused,folded,tvm]
    python tests/oracle/sweep.py --write plugins/relax-ops/tests/values.txt

Each case in `sweep_cases.py` contains the result of NumPy (or of ONNX's reference implementation), or no result if the
call must be rejected. The states:

- plain: `passhost exec`
- legalized: after `relax.LegalizeOps`
- fused: after `relax.LegalizeOps`, `relax.FuseOps` and `relax.FuseTIR`
- folded: the arguments are constants, and `relax.FoldConstant` computes them
- tvm: TVM compiles and runs the output of `relax.LegalizeOps`

Cases share a function, because a process for each case would take too long; if a function fails, its cases run
separately. The last line is `N of M`; the exit code is 1 if a case fails.
"""

import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
FUSED = "relax.LegalizeOps,relax.AnnotateTIROpPattern,relax.FuseOps,relax.FuseTIR"
PASSES = {"plain": None, "legalized": "relax.LegalizeOps", "fused": FUSED, "folded": "relax.FoldConstant"}
# Number of cases in one function.
TOGETHER = 24


def literal(value, dtype):
    if dtype == "bool":
        return "True" if value else "False"
    if dtype.startswith(("int", "uint")):
        return str(int(value))
    value = float(value)
    return repr(value) if np.isfinite(value) else f'float("{value}")'


def constant(array):
    dtype = str(array.dtype)

    def of(part):
        return literal(part, dtype) if part.ndim == 0 else "[" + ", ".join(of(each) for each in part) + "]"

    return f'R.const({of(array)}, "{dtype}")'


def may_be_constant(case):
    return case.foldable and all(array.ndim == 1 and array.size > 0 and np.isfinite(array.astype("float64")).all() or array.ndim == 0 for array in case.inputs)


def module(cases, folded=False):
    """Returns a function with the calls in all cases, and its arguments by name."""
    params, arguments, lines, results = [], {}, [], []
    for at, case in enumerate(cases):
        names = []
        for k, (array, shape) in enumerate(zip(case.inputs, case.shapes())):
            if folded:
                names.append(constant(array))
                continue
            name = f"x{at}_{k}"
            dims = ", ".join(f'"{dim}{at}"' if isinstance(dim, str) else str(dim) for dim in shape)
            params.append(f'{name}: R.Tensor(({dims}{"," if len(shape) == 1 else ""}), "{array.dtype}")')
            arguments[name] = array
            names.append(name)
        lines.append(f"y{at} = {case.call.format(*names)}")
        results.append(f"y{at}")
    body = "\n".join(f"            {line}" for line in lines)
    returned = ", ".join(results) + ("," if len(results) == 1 else "")
    text = (
        "@I.ir_module\nclass Module:\n    @R.function\n"
        f"    def main({', '.join(params)}):\n        with R.dataflow():\n{body}\n"
        f"            out = ({returned})\n            R.output(out)\n        return out\n"
    )
    return text, arguments


def inline(array):
    """Returns a call that creates a constant of any shape."""
    if array.size == 0:
        return f'R.zeros(R.shape({list(array.shape)}), dtype="{array.dtype}")'
    flat = constant(array.ravel() if array.ndim else array)
    return flat if array.ndim < 2 else f"R.reshape({flat}, R.shape({list(array.shape)}))"


def line_of(case):
    """Returns the line for `plugins/relax-ops/tests/values.rs` if the case is small; long vectors are sampled at every
    seventh element."""
    inputs, expected = case.inputs, case.expected
    if expected is None or case.name.startswith("unique") and any(array.ndim == 0 for array in inputs):
        return None
    lengths = {array.shape for array in inputs + expected}
    if len(lengths) == 1 and inputs and inputs[0].ndim == 1 and inputs[0].size > 40:
        inputs, expected = [array[::7] for array in inputs], [array[::7] for array in expected]
    if sum(array.size for array in inputs) > 120 or sum(array.size for array in expected) > 60:
        return None
    if not all(np.isfinite(array.astype("float64")).all() for array in inputs):
        return None
    numbers = lambda array: [str(int(v)) if array.dtype.kind in "iub" else repr(float(v)) for v in array.ravel()]
    results = [" ".join([str(a.dtype), str(list(a.shape)).replace(" ", ""), *numbers(a)]) for a in expected]
    return " | ".join([case.call.format(*[inline(array) for array in inputs]), *results])


def flat(names, values, cases):
    """Returns the results of each case; fields of tuple results are numbered."""
    found = collections.OrderedDict()
    for name, value in zip(names, values):
        found.setdefault(int(name.split("_")[1]), []).append(value)
    return [found.get(at, []) for at in range(len(cases))]


def executed(settings, state, cases, folder):
    text, arguments = module(cases, state == "folded")
    inputs, output = folder / "in.npz", folder / "out.npz"
    np.savez(inputs, **arguments)
    output.unlink(missing_ok=True)
    command = [settings.passhost, "exec", "-", "--manifest", settings.manifest, "-o", str(output), "--json"]
    command += ["--inputs", str(inputs)] if arguments else []
    command += ["--passes", PASSES[state]] if PASSES[state] else []
    done = subprocess.run(command, input=text, capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        return None, (done.stderr.strip() or f"exit code {done.returncode}")
    names = [result["name"] for result in json.loads(done.stdout)["results"]]
    with np.load(output) as found:
        return flat(names, [found[name] for name in names], cases), ""


def of_tvm(settings, cases, _):
    import tvm
    from tvm import relax

    text, arguments = module(cases)
    command = [settings.passhost, "run", "-", "--manifest", settings.manifest, "--passes", "relax.LegalizeOps"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        return None, done.stderr.strip()
    try:
        built = tvm.compile(tvm.script.from_source(done.stdout), target="llvm")
        machine = relax.VirtualMachine(built, tvm.cpu())
        results = machine["main"](*[tvm.runtime.tensor(array) for array in arguments.values()])
    except Exception as error:
        return None, f"TVM: {(str(error).strip() or type(error).__name__).splitlines()[-1][:300]}"
    each = lambda result: [result.numpy()] if hasattr(result, "numpy") else [part.numpy() for part in result]
    return [each(result) for result in results], ""


def difference(found, expected, case):
    if len(found) != len(expected):
        return f"{len(found)} results instead of {len(expected)}"
    for a, b in zip(found, expected):
        b = np.asarray(b)
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{a.dtype}{list(a.shape)} instead of {b.dtype}{list(b.shape)}"
        if a.dtype.kind == "f":
            if not np.allclose(a.astype("float64"), b.astype("float64"), rtol=case.rtol(a.dtype), atol=case.rtol(a.dtype), equal_nan=True):
                return f"{a.flat[:6]} instead of {b.flat[:6]}"
        elif not np.array_equal(a, b):
            at = np.flatnonzero(a.ravel() != b.ravel())[:4]
            return f"{a.ravel()[at]} instead of {b.ravel()[at]} (at {at})"
    return None


def judge(case, found, why):
    """Describes the error in a result; returns None if the result is right."""
    if found is None:
        first = why.splitlines()[0] if why else ""
        if case.expected is not None:
            return f"not computed: {first[:300]}"
        for poor in ("memory that nothing wrote", "valid PrimFunc", "no such integer", "ill-formed", "bug in passhost", "panicked"):
            if poor in why:
                return f"refused with a poor message: {why[:300]}"
        return None
    if case.expected is None:
        return f"computed, but must be refused: {[list(array.flat[:4]) for array in found]}"
    return difference(found, case.expected, case)


def run(settings, state, cases, folder):
    """Returns the error of each case."""
    execute = of_tvm if state == "tvm" else lambda settings, cases, folder: executed(settings, state, cases, folder)
    out = {}
    work = [cases[at : at + TOGETHER] for at in range(0, len(cases), TOGETHER)]
    while work:
        some = work.pop()
        found, why = execute(settings, some, folder)
        if found is None and len(some) > 1:
            half = len(some) // 2
            work += [some[:half], some[half:]]
            continue
        for at, case in enumerate(some):
            out[case.name] = judge(case, found and found[at], why)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passhost", default=str(ROOT / "target/release/passhost"))
    parser.add_argument("--manifest", default=str(ROOT / "passes.toml"))
    parser.add_argument("--only", default="", help="prefixes of case names, separated by commas")
    parser.add_argument("--states", default="plain,legalized,fused,folded,tvm")
    parser.add_argument("--write", type=pathlib.Path, help="write the small cases for a test that does not need Python")
    settings = parser.parse_args()
    from sweep_cases import CASES

    if settings.write:
        lines = [line for line in map(line_of, CASES) if line]
        settings.write.write_text("".join(f"{line}\n" for line in dict.fromkeys(lines)))
        print(f"{len(lines)} of {len(CASES)} cases")
        return 0

    only = [name for name in settings.only.split(",") if name]
    cases = [case for case in CASES if not only or any(case.name.startswith(name) for name in only)]
    right = total = 0
    with tempfile.TemporaryDirectory() as folder:
        for state in settings.states.split(","):
            # Calls that must be rejected would make a shared function fail.
            able = [case for case in cases if case.expected is not None]
            if state == "folded":
                able = [case for case in able if may_be_constant(case)]
            refused = [case for case in cases if case.expected is None and state == "plain"]
            wrong = run(settings, state, able, pathlib.Path(folder))
            for case in refused:
                found, why = executed(settings, state, [case], pathlib.Path(folder))
                wrong[case.name] = judge(case, found and found[0], why)
            bad = {name: why for name, why in wrong.items() if why}
            for name, why in bad.items():
                print(f"{state}: {name}: {why}")
            print(f"{state}: {len(wrong) - len(bad)} of {len(wrong)}", flush=True)
            right, total = right + len(wrong) - len(bad), total + len(wrong)
    print(f"{right} of {total}")
    return 0 if right == total else 1


if __name__ == "__main__":
    sys.exit(main())
