"""Compares relax.LegalizeOps with TVM's pass: the results, and with --run the values computed on random data.

TVM parses each of passhost's results, which must be well-formed. Remaining operators are listed. The exit code is 1
if a result is not well-formed, or computes different values.
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys

import numpy as np
import tvm
from tvm import relax

ROOT = pathlib.Path(__file__).resolve().parents[2]
CALL = re.compile(r"\bR\.((?:nn\.|image\.|grad\.|vision\.)?[a-z]\w*)\(")
NO_OPERATORS = {"function", "dataflow", "output", "call_tir", "func_attr", "shape", "const", "tuple", "prim_value", "str"}


def passhost(binary, manifest, text):
    command = [str(binary), "run", "-", "--manifest", str(manifest), "--passes", "relax.LegalizeOps"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed with {done.returncode}:\n{done.stderr}")
    return done.stdout


def modules(files):
    """Yields the name and text of each module: TVMScript files, and recorded runs of the pass."""
    for path in files:
        if path.suffix != ".jsonl":
            yield path.stem, path.read_text()
            continue
        for line in path.read_text().splitlines():
            case = json.loads(line)
            if case["pass"] == "LegalizeOps":
                yield case["id"], case["before"]


def remaining(mod):
    """Returns the operators that a module still calls."""
    text = relax.transform.RemovePurityChecking()(mod).script(show_meta=False)
    found = collections.Counter(CALL.findall(text))
    return {name: n for name, n in found.items() if name not in NO_OPERATORS}


def difference(ours, theirs):
    try:
        tvm.ir.assert_structural_equal(ours, theirs)
    except ValueError as error:
        return str(error).splitlines()[0]
    return None


def arguments(function, rng):
    """Returns random values for the parameters of a function, or None if a shape is unknown."""
    values = []
    for param in function.params:
        ty = param.struct_info if hasattr(param, "struct_info") else param.ty
        shape = getattr(getattr(ty, "shape", None), "values", None)
        if shape is None or not all(isinstance(dim, tvm.tirx.IntImm) for dim in shape):
            return None
        dims, dtype = [int(dim) for dim in shape], str(ty.dtype)
        dtype = re.sub(r'^.*?"?(\w+)"?\)?$', r"\1", dtype)
        if "int" in dtype:
            values.append(rng.integers(0, 2, dims).astype(dtype))
        elif dtype == "bool":
            values.append(rng.integers(0, 2, dims).astype(bool))
        else:
            values.append(rng.uniform(0.1, 0.9, dims).astype(dtype))
    return values


def computed(mod, values):
    machine = relax.VirtualMachine(tvm.compile(mod, target="llvm"), tvm.cpu())
    result = machine["main"](*[tvm.runtime.tensor(value) for value in values])
    return [result.numpy()] if hasattr(result, "numpy") else [part.numpy() for part in result]


def compare_runs(ours, theirs, rng):
    """Returns a description of the difference between the computed values, or None, and the outcome if there is no
    difference."""
    values = arguments(theirs["main"], rng)
    if values is None:
        return None, "not run: a shape is unknown"
    try:
        expected = computed(theirs, values)
    except Exception as error:  # TVM cannot run its own result
        return None, f"not run: TVM cannot run its own result: {str(error).strip().splitlines()[-1][:80]}"
    found = computed(ours, values)
    same = len(found) == len(expected) and all(
        a.shape == b.shape and np.allclose(a, b, rtol=1e-3, atol=1e-4, equal_nan=True) for a, b in zip(found, expected)
    )
    return (None, "computes the same values") if same else ("computes different values", "")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=pathlib.Path, help="modules or recorded runs (default: tests/models)")
    parser.add_argument("--binary", default=ROOT / "target/release/passhost", type=pathlib.Path)
    parser.add_argument("--manifest", default=ROOT / "passes.toml", type=pathlib.Path)
    parser.add_argument("--run", action="store_true", help="run functions that differ, and compare their results")
    args = parser.parse_args()
    models = sorted((ROOT / "tests/models").glob("*.py"))
    files = args.files or [path for path in models if "T.prim_func" not in path.read_text()]
    failed, equal, count, rng = 0, 0, 0, np.random.default_rng(0)
    for name, text in modules(files):
        count += 1
        try:
            ours = tvm.script.from_source(passhost(args.binary, args.manifest, text))
            well_formed = relax.analysis.well_formed(ours) is not False
        except Exception as error:
            failed += 1
            print(f"{name:24} FAILS: {str(error).strip().splitlines()[0][:200]}", flush=True)
            continue
        theirs = relax.transform.LegalizeOps()(tvm.script.from_source(text))
        why = difference(ours, theirs)
        equal += why is None
        what = "equal" if why is None else "different"
        if not well_formed:
            failed, what = failed + 1, "NOT WELL-FORMED"
        elif why is not None and args.run:
            wrong, told = compare_runs(ours, theirs, rng)
            failed += wrong is not None
            what += f", {wrong.upper() if wrong else told}"
        kept = ", ".join(f"{op} ({n})" for op, n in sorted(remaining(ours).items()))
        print(f"{name:24} {what}{'; remain: ' + kept if kept else ''}", flush=True)
    print(f"total: {equal} of {count} equal")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
