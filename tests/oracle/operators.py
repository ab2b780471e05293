"""Executes calls of operators with `passhost exec` and with TVM (target llvm), and compares their results.

    python tests/oracle/operators.py [--recorded PASSES.jsonl] [--only take,sum] [--passhost FILE] [--manifest FILE] [--jobs N]

The calls come from `operator_cases.py`: every operator with a legalization at several shapes, including a shape with a
symbolic dimension that is bound at run time, and a shape with an extent of 0 or 1. With `--recorded`, the cases are the
modules in recorded runs of LegalizeOps. Each case is executed unchanged and after passhost's LegalizeOps. A case fails
if

- max |a - b| / max |b| is above 1e-4 (1e-3 for float16), or integers differ,
- a result contains NaN or Inf, or a single repeated value unless the operator requires it (see `MUST_REPEAT`),
- shapes or data types differ, or
- one side does not run.

Operators without a legalization are counted separately, with the reason. The exit code is 1 if a case fails.
"""

import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import workers

ROOT = pathlib.Path(__file__).resolve().parents[2]
BOUNDS = {"float16": 1e-3}
BOUND = 1e-4
# Operators with a result that must be a single repeated value.
MUST_REPEAT = {"isnan", "isinf", "isfinite", "zeros", "ones", "zeros_like", "ones_like", "full", "full_like", "dropout", "size"}
# Ranges of elements in recorded modules with these operators; the default is 0.1 to 0.9.
RANGES = {"relax.acosh": (1.1, 3.0), "relax.astype": (-9.0, 9.0)}
# Extents of symbolic dimensions in recorded modules, all distinct; data comes before kernels.
PRIMES = [13, 11, 7, 5, 3, 2]


def module_of(make, params):
    from tvm import relax

    variables = [relax.Var(f"x{i}", param.type()) for i, param in enumerate(params)]
    builder = relax.BlockBuilder()
    with builder.function("main", variables):
        builder.emit_func_output(builder.emit(make(*variables)))
    return builder.finalize()


def own_case(at, rng):
    """Returns the name, module and arrays of a case from `operator_cases.py`, and the module that TVM executes."""
    from operator_cases import CASES

    name, make, params, _, like = CASES[at]
    module = module_of(make, params)
    return name, module, [param.array(rng) for param in params], module_of(like, params) if like else module


def recorded_case(line, rng):
    """Returns the same for a recorded run; the value of a tuple parameter is a list of arrays."""
    import tvm
    from tvm import relax, tirx

    case = json.loads(line)
    module = tvm.script.from_source(case["before"])
    function = function_of(module)
    called = []
    relax.analysis.post_order_visit(function, lambda e: isinstance(e, tvm.ir.Call) and called.append(e.op))
    names = [op.name for op in called if isinstance(op, tvm.ir.Op) and op.name.startswith("relax.")]
    analyzer = tvm.sym.Analyzer()
    for prime, var in zip(PRIMES, relax.analysis.defined_symbolic_vars(function)):
        analyzer.bind(var, tirx.const(prime, "int64"))
    low, high = RANGES.get(names[-1], (0.1, 0.9)) if names else (0.1, 0.9)
    if "relax.nn.batch_norm" in names:
        # The axis fits the scale only if all extents are equal.
        for var in relax.analysis.defined_symbolic_vars(function):
            analyzer.bind(var, tirx.const(PRIMES[-2], "int64"), allow_override=True)

    def array(ty):
        if isinstance(ty, tvm.ir.TupleType):
            return [array(field) for field in ty.fields]
        if isinstance(ty, relax.ShapeType):
            known = ty.values if ty.values is not None else PRIMES[: ty.ndim]
            return np.array([int(analyzer.simplify(tirx.const(0, "int64") + dim)) for dim in known], dtype="int64")
        shape, dtype = [int(analyzer.simplify(dim)) for dim in ty.shape.values], str(ty.dtype.dtype)
        if dtype == "bool":
            # A lone condition is the argument of an assertion.
            return rng.integers(0, 2, shape).astype(bool) if shape else np.array(True)
        whole = "int" in dtype or "relax.not_equal" in names
        return (rng.integers(0, 2, shape) if whole else rng.uniform(low, high, shape)).astype(dtype)

    return " ".join([case["id"], *dict.fromkeys(names)]), module, [array(param.ty) for param in function.params], module


def function_of(module):
    from tvm import relax

    functions = [function for _, function in module.functions_items() if isinstance(function, relax.Function)]
    return functions[0]


def npz(function, arrays):
    """Returns arrays under the parameter names of `passhost exec`; fields of tuples are numbered."""
    out = {}

    def add(name, value):
        if isinstance(value, list):
            for i, field in enumerate(value):
                add(f"{name}_{i}", field)
        else:
            out[name] = value

    for param, value in zip(function.params, arrays):
        add(param.name, value)
    return out


def flat(value):
    if hasattr(value, "numpy"):
        return [value.numpy()]
    return [array for field in value for array in flat(field)]


def of_tvm(module, arrays):
    import tvm
    from tvm import relax

    machine = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())
    function = function_of(module)

    def value(ty, array):
        if isinstance(array, list):
            return tuple(value(field, each) for field, each in zip(ty.fields, array))
        if isinstance(ty, relax.ShapeType):
            return tvm.runtime.ShapeTuple([int(extent) for extent in array])
        return tvm.runtime.tensor(array)

    name = function.attrs["global_symbol"]
    return flat(machine[name](*[value(param.ty, array) for param, array in zip(function.params, arrays)]))


def of_passhost(settings, function, text, inputs, passes, folder):
    """Returns the results, or the reason why there are none."""
    output = folder / "out.npz"
    output.unlink(missing_ok=True)
    command = [settings["passhost"], "exec", "-", "--function", function, "--manifest", settings["manifest"], "--inputs", str(inputs)]
    done = subprocess.run([*command, "-o", str(output), "--json", *passes], input=text, capture_output=True, text=True)
    if done.returncode != 0:
        return None, (done.stderr.strip() or f"exit code {done.returncode}")
    said = json.loads(done.stdout)
    with np.load(output) as found:
        return [found[result["name"]] for result in said["results"]], ""


def difference(found, expected, may_repeat):
    """Returns max |a - b| / max |b| over all results; raises an error if a check fails."""
    if [(array.shape, array.dtype) for array in found] != [(array.shape, array.dtype) for array in expected]:
        what = lambda arrays: ", ".join(f"{a.dtype}{list(a.shape)}" for a in arrays)
        raise RuntimeError(f"results {what(found)}, TVM's {what(expected)}")
    worst = 0.0
    for a, b in zip(found, expected):
        bound = BOUNDS.get(str(b.dtype), BOUND)
        if a.size == 0:
            continue
        is_float = np.issubdtype(b.dtype, np.floating)
        if not is_float:
            if not np.array_equal(a, b):
                raise RuntimeError(f"{int(np.sum(a != b))} of {a.size} elements differ: {a.flat[:6]}, TVM's {b.flat[:6]}")
        a, b = a.astype("float64"), b.astype("float64")
        for who, array in (("passhost", a), ("TVM", b)):
            if not np.isfinite(array).all():
                raise RuntimeError(f"a result of {who} contains NaN or Inf")
            # A few integers or booleans may be equal by chance.
            if array.size > (1 if is_float else 8) and np.all(array == array.flat[0]) and not may_repeat:
                raise RuntimeError(f"a result of {who} is a single repeated value, {array.flat[0]}")
        size = np.max(np.abs(b))
        error = float(np.max(np.abs(a - b)) / size) if size else float(np.max(np.abs(a)))
        if error > bound:
            raise RuntimeError(f"differs by {error:.1e} of the largest element")
        worst = max(worst, error)
    return worst


def may_repeat(name, kind, what):
    """Returns true if the result must be one repeated value, for this operator or in this case."""
    from operator_cases import CASES

    return any(part.rsplit(".", 1)[-1] in MUST_REPEAT for part in name.split()) or (kind == "own" and CASES[what][3])


def lacks(message):
    """Returns the reason from an error about a missing legalization; None for other errors."""
    first = message.splitlines()[0].strip()
    return first[:160] if "cannot be executed: it " in first else None


def name_of(kind, what):
    """Returns the operator of a case, or the number of the recording."""
    if kind == "recorded":
        return json.loads(what)["id"]
    from operator_cases import CASES

    return CASES[what][0]


def run_case(job):
    """Returns `(name, verdict, detail)`; verdicts are `same`, `unsupported`, `refused` (by TVM) and `different`."""
    settings, kind, what = job
    rng = np.random.default_rng(settings["seed"])
    try:
        name, module, arrays, theirs = (own_case if kind == "own" else recorded_case)(what, rng)
        expected = of_tvm(theirs, arrays)
    except Exception as error:
        return name_of(kind, what), "refused", (str(error).strip() or type(error).__name__).splitlines()[-1][:160]
    text = module.script(show_meta=True)
    function = function_of(module)
    named = npz(function, arrays)
    shapes = " ".join(f"{array.dtype}{list(array.shape)}" for array in named.values())
    # A reduction over no elements returns a single repeated value.
    repeats = may_repeat(name, kind, what) or any(array.size == 0 for array in named.values())
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        inputs = folder / "in.npz"
        np.savez(inputs, **named)
        worst = 0.0
        for state, passes in (("as it is", []), ("legalized", ["--passes", "relax.LegalizeOps"])):
            found, why = of_passhost(settings, function.attrs["global_symbol"], text, inputs, passes, folder)
            if found is None:
                missing = lacks(why)
                return (name, "unsupported", missing) if missing else (name, "different", f"{shapes} {state}: {why[:600]}")
            try:
                worst = max(worst, difference(found, expected, repeats))
            except RuntimeError as error:
                return name, "different", f"{shapes} {state}: {error}"
    return name, "same", worst


def jobs_of(args):
    settings = {"passhost": args.passhost, "manifest": args.manifest, "seed": args.seed}
    only = {name for name in args.only.split(",") if name}
    if args.recorded:
        lines = [line for line in args.recorded.read_text().splitlines() if json.loads(line)["pass"] == "LegalizeOps"]
        return [(settings, "recorded", line) for line in lines]
    from operator_cases import CASES

    wanted = [at for at, (name, *_) in enumerate(CASES) if not only or name.removeprefix("relax.") in only]
    return [(settings, "own", at) for at in wanted]


def report(results):
    """Prints one line for each operator, and all failures."""
    by_name = collections.defaultdict(collections.Counter)
    reasons = collections.defaultdict(collections.Counter)
    largest = 0.0
    for name, verdict, detail in results:
        by_name[name][verdict] += 1
        if verdict == "same":
            largest = max(largest, detail)
        else:
            reasons[verdict][f"{name}: {detail}"] += 1
    for name, verdicts in sorted(by_name.items()):
        others = [f"{verdict} {n}" for verdict, n in sorted(verdicts.items()) if verdict != "same"]
        print(f"{name:44} {verdicts['same']} of {sum(verdicts.values())}{'  ' if others else ''}{', '.join(others)}")
    for verdict, found in reasons.items():
        print(f"{verdict}:")
        for why, n in sorted(found.items()):
            print(f"  {n} x {why}")
    total = collections.Counter()
    for verdicts in by_name.values():
        total += verdicts
    operators = sum(verdicts["same"] > 0 and set(verdicts) <= {"same", "refused"} for verdicts in by_name.values())
    print(f"largest difference: {largest:.1e}; {dict(total)}")
    tried = total["same"] + total["different"]
    print(f"{operators} of {len(by_name)} operators or modules are the same in all cases that TVM runs")
    print(f"{total['same']} of {tried} supported cases equal TVM's within {BOUND}")
    return total["different"] == 0 and total["same"] > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recorded", type=pathlib.Path, help="a file of recorded runs")
    parser.add_argument("--only", default="", help="names of operators, separated by commas")
    parser.add_argument("--passhost", default=str(ROOT / "target/release/passhost"))
    parser.add_argument("--manifest", default=str(ROOT / "passes.toml"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    jobs, results = jobs_of(args), []
    for n, (at, result) in enumerate(workers.run(run_case, jobs, args.jobs)):
        crashed = isinstance(result, str)
        results.append((at, (name_of(*jobs[at][1:]), "refused", result) if crashed else tuple(result)))
        if n % 100 == 99:
            print(f"{n + 1} of {len(jobs)} cases", file=sys.stderr, flush=True)
    return 0 if report([result for _, result in sorted(results, key=lambda entry: entry[0])]) else 1


if __name__ == "__main__":
    sys.exit(main())
