"""Executes whole models with `passhost exec` and with TVM (target llvm), and compares their results.

    python tests/oracle/exec.py MODELS [--only squeezenet] [--states plain,legalized,default,compile] [--passhost FILE] [--manifest FILE]

MODELS is a folder with TVMScript modules. Weights and inputs are random with a fixed seed, scaled so that values
neither vanish nor explode; variances of batch normalizations are positive. A result fails if max |a - b| / max |b|
is above 1e-4, or if it contains NaN, Inf, or only a single repeated value.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import tvm
from tvm import relax

ROOT = pathlib.Path(__file__).resolve().parents[2]
STATES = {
    "plain": [],
    "legalized": ["--passes", "relax.LegalizeOps"],
    "default": ["--pipeline", "default"],
    "compile": ["--pipeline", "compile"],
}
BOUND = 1e-4


def variances(function):
    """Returns the names of the parameters that are variances of batch normalizations."""
    names = set()

    def visit(expr):
        if isinstance(expr, relax.Call) and getattr(expr.op, "name", "") == "relax.nn.batch_norm":
            if isinstance(expr.args[4], relax.Var):
                names.add(expr.args[4].name)

    relax.analysis.post_order_visit(function, visit)
    return names


def arrays(function, seed):
    """Returns random arrays for all parameters, by name and in order."""
    rng = np.random.default_rng(seed)
    positive = variances(function)
    n_inputs = int(function.attrs["num_input"]) if function.attrs and "num_input" in function.attrs else 0
    out = {}
    for i, param in enumerate(function.params):
        shape, dtype = [int(extent) for extent in param.ty.shape], str(param.ty.dtype)
        if dtype.startswith("int"):
            value = rng.integers(0, 4, shape)
        elif param.name in positive or "_riv_" in param.name or "_var_" in param.name:
            value = rng.uniform(0.5, 1.5, shape)
        elif i >= n_inputs and len(shape) > 1:
            value = rng.uniform(-1, 1, shape) * np.sqrt(6 / np.prod(shape[1:]))
        else:
            value = rng.uniform(-1, 1, shape)
        out[param.name] = value.astype(dtype)
    return out


def flat(value):
    """Returns the arrays of a result."""
    if hasattr(value, "numpy"):
        return [value.numpy()]
    return [array for field in value for array in flat(field)]


def of_tvm(module, values):
    """Returns TVM's results, and the seconds that it takes to compile and to run."""
    module = relax.transform.DecomposeOpsForInference()(module)
    begin = time.time()
    machine = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())
    built = time.time()
    result = machine["main"](*[tvm.runtime.tensor(value) for value in values])
    results = flat(result)
    return results, built - begin, time.time() - built


def of_passhost(args, model, inputs, folder, state):
    """Returns passhost's results, its messages, and the seconds that it takes."""
    output = folder / f"{model.stem}.{state}.npz"
    command = [args.passhost, "exec", str(model), "--manifest", args.manifest, "--inputs", str(inputs)]
    begin = time.time()
    done = subprocess.run([*command, "-o", str(output), "--json", *STATES[state]], capture_output=True, text=True)
    seconds = time.time() - begin
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"exit code {done.returncode}")
    said = json.loads(done.stdout)
    with np.load(output) as found:
        return [found[result["name"]] for result in said["results"]], said, seconds


def difference(found, expected):
    """Returns max |a - b| / max |b| over all results; raises an error if a comparison would be meaningless."""
    if [array.shape for array in found] != [array.shape for array in expected]:
        raise RuntimeError(f"shapes {[a.shape for a in found]}, expected {[a.shape for a in expected]}")
    worst = 0.0
    for a, b in zip(found, expected):
        a, b = a.astype("float64"), b.astype("float64")
        for who, array in (("passhost", a), ("TVM", b)):
            if not np.isfinite(array).all():
                raise RuntimeError(f"a result of {who} contains NaN or Inf")
            if array.size > 1 and np.all(array == array.flat[0]):
                raise RuntimeError(f"a result of {who} is a single repeated value, {array.flat[0]}")
        worst = max(worst, float(np.max(np.abs(a - b)) / np.max(np.abs(b))))
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("--only", default="", help="names of models, separated by commas")
    parser.add_argument("--states", default=",".join(STATES))
    parser.add_argument("--passhost", default=str(ROOT / "target/release/passhost"))
    parser.add_argument("--manifest", default=str(ROOT / "passes.toml"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=pathlib.Path, help="folder for inputs and results; TVM's earlier results in it are reused")
    args = parser.parse_args()
    only = {name for name in args.only.split(",") if name}
    # `resnet50.fused.py` is a later state of `resnet50.py`.
    models = [path for path in sorted(args.models.glob("*.py")) if "." not in path.stem]
    models = [path for path in models if not only or path.stem in only]
    folder = args.keep or pathlib.Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    cases = failed = 0
    total = 0.0
    for model in models:
        module = tvm.script.from_source(model.read_text())
        values = arrays(module["main"], args.seed)
        inputs, kept = folder / f"{model.stem}.inputs.npz", folder / f"{model.stem}.tvm.npz"
        np.savez(inputs, **values)
        if args.keep and kept.exists():
            with np.load(kept) as found:
                expected = [found[name] for name in found.files]
            print(f"{model.stem}: TVM's results come from an earlier run", flush=True)
        else:
            expected, built, ran = of_tvm(module, values.values())
            np.savez(kept, *expected)
            print(f"{model.stem}: TVM compiles in {built:.1f} s and runs in {ran:.2f} s", flush=True)
        for state in args.states.split(","):
            cases += 1
            try:
                found, said, seconds = of_passhost(args, model, inputs, folder, state)
                worst = difference(found, expected)
            except RuntimeError as error:
                failed += 1
                print(f"  {state:10} FAILED: {error}", flush=True)
                continue
            failed += worst > BOUND
            total += seconds
            mark = "FAILED" if worst > BOUND else "ok"
            memory = said["memory"] / 2**20
            print(
                f"  {state:10} {mark}: difference {worst:.1e}, {seconds:.1f} s, "
                f"{said['work']:.2e} units of work, {memory:.0f} MiB",
                flush=True,
            )
    print(f"{cases - failed} of {cases} equal TVM's within {BOUND}, {total:.0f} s in total")
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
