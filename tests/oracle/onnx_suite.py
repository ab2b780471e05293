#!/usr/bin/env python3
"""Runs the node cases in the `onnx` wheel through the ONNX reader, and compares the results.

Each case is read, and then executed without passes, after the pipeline `compile`, and after `native`. The results are
written as JSON lines, one for each case, so that an interrupted run can be continued. Fields of a line:

- `read`: ok, or the reason why the model was rejected
- `exec`, `compile`, `native`: ok, wrong (with the first difference), or the error

The reader rejects inputs that determine the rank or the type of a result, such as axes or a trip count. The case is
then read again with the values of such inputs in the option `values`; the field `given` lists these inputs. The shapes
of the elements of sequences are always given.
"""
import argparse, collections, json, os, re, subprocess, tempfile
from concurrent.futures import ThreadPoolExecutor

STAGES = ("exec", "compile", "native")


def cases():
    import warnings
    warnings.filterwarnings("ignore")
    from onnx.backend.test.case.node import collect_testcases
    return collect_testcases(None)


def array(value):
    import numpy as np
    from onnx import TensorProto, numpy_helper
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def flat(values):
    out = []
    for value in values:
        out += flat(value) if isinstance(value, (list, tuple)) else [array(value)]
    return out


INTEGERS = {"int4": "int8", "int2": "int8", "uint4": "uint8", "uint2": "uint8"}


def raw(value):
    """Returns an array in the form that passhost reads: types that NumPy lacks, such as bfloat16, become bytes."""
    import numpy as np
    name = value.dtype.name
    if name == "bfloat16":
        return np.array(value, order="C").view("V2")
    if name in INTEGERS:
        return value.astype(INTEGERS[name])
    if name.startswith(("float8", "float4")):
        return np.array(value, order="C").view("uint8")
    return np.array(value, order="C")


def identifier(name):
    import keyword
    out = name if name.isidentifier() else "".join(c if c.isascii() and c.isalnum() else "_" for c in name)
    if not out[:1].isalpha() and not out.startswith("_"):
        out = "v" + out
    return out + "_" if keyword.iskeyword(out) or out in ("I", "R", "T", "cls") else out


def literal(value):
    return json.dumps(value.tolist()).replace("NaN", "nan").replace("Infinity", "inf")


def run(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        return 1, "does not finish in 120 s"
    text = done.stderr.strip()
    return done.returncode, text if done.returncode >= 0 else f"killed by signal {-done.returncode}: {text}"


def message(text):
    lines = [line for line in text.splitlines() if line.startswith("error")]
    return (lines[0] if lines else text)[:400]


def compared(got, want, rtol, atol):
    import numpy as np
    if len(got) != len(want):
        return f"{len(got)} results instead of {len(want)}"
    for at, (g, w) in enumerate(zip(got, want)):
        name = w.dtype.name
        if g.dtype.kind == "V":
            g = g.view(w.dtype)
        if name in INTEGERS:
            w = w.astype(INTEGERS[name])
        if name.startswith(("float8", "float4")) and g.dtype == np.uint8:
            g = g.view(w.dtype)
        if g.shape != w.shape:
            return f"result {at}: shape {g.shape}, {w.shape} is right"
        if g.dtype != w.dtype:
            return f"result {at}: {g.dtype}, {w.dtype} is right"
        if w.dtype.kind == "b":
            if not np.array_equal(g, w):
                return f"result {at}: differs"
            continue
        try:
            np.testing.assert_allclose(g.astype("float64"), w.astype("float64"), rtol=rtol, atol=atol)
        except AssertionError as error:
            text = " ".join(str(error).split())
            return f"result {at}: {text[:200]}"
    return None


def precise(case, names):
    """Returns the results of the reference implementation for the inputs of a case in double precision, in the types of
    the expected results; None if it does not compute them. The expected results of a few cases, such as those of inverse
    Fourier transforms, have rounding errors that are larger than the tolerance of the case."""
    import numpy as np
    from onnx.reference import ReferenceEvaluator
    inputs, outputs = case.data_sets[0]
    wide = lambda value: value.astype("float64") if value.dtype == np.float32 else value
    try:
        feeds = {name: wide(array(value)) for name, value in zip(names, inputs, strict=True)}
        found = ReferenceEvaluator(case.model).run(None, feeds)
        return [value.astype(want.dtype) for value, want in zip(found, flat(outputs), strict=True)]
    except Exception:  # not implemented for this type
        return None


class Runner:
    def __init__(self, args):
        self.args = args

    def base(self):
        return [self.args.passhost]

    def read(self, model, values, out, shapes):
        options = f'{{path="{model}", values=[{", ".join(json.dumps(v) for v in values)}]}}'
        if self.args.as_pass:
            command = ["run", self.args.as_pass, "--passes", "onnx.Import" + options, "-o", out]
        else:
            lists = [f'{key}=[{", ".join(json.dumps(v) for v in entries)}]' for key, entries in (("values", values), ("shapes", shapes))]
            reader = f'onnx{{{", ".join(lists)}}}'
            command = ["run", model, "--from", reader, "--passes", "", "-o", out]
        return run(self.base() + command + ["--manifest", self.args.manifest])

    def one(self, at, case):
        import numpy as np
        record = {"i": at, "name": case.name, "ops": sorted({n.op_type for n in case.model.graph.node})}
        with tempfile.TemporaryDirectory() as folder:
            model, text = f"{folder}/model.onnx", f"{folder}/model.py"
            with open(model, "wb") as file:
                file.write(case.model.SerializeToString())
            inputs, outputs = case.data_sets[0]
            initial = {t.name for t in case.model.graph.initializer}
            names = [i.name for i in case.model.graph.input if i.name not in initial]
            lists = [(name, value) for name, value in zip(names, inputs) if isinstance(value, (list, tuple))]
            shapes = [f"{name}_{k}={','.join(map(str, array(v).shape))}" for name, value in lists for k, v in enumerate(value)]
            empty = [f"{name}=[]" for name, value in lists if not len(value)]
            code, error = self.read(model, empty, text, shapes)
            given = {}
            if code != 0:
                for name, value in zip(names, inputs):
                    if isinstance(value, (list, tuple)) or value is None:
                        continue
                    value = array(value)
                    if 0 < value.size <= 64 and value.dtype.kind in "iufb" and value.dtype.name != "bfloat16":
                        given[name] = value
                small = {n: v for n, v in given.items() if v.dtype.kind in "ib"}
                for chosen in (small, given):
                    if not chosen or code == 0:
                        continue
                    code, again = self.read(model, empty + [f"{n}={literal(v)}" for n, v in chosen.items()], text, shapes)
                    if code == 0:
                        given = chosen
                        record["given"] = sorted(chosen)
                    else:
                        error = again
            if code != 0:
                record["read"] = message(error)
                return record
            record["read"] = "ok"
            given = given if "given" in record else {}
            arrays = {}
            for name, value in zip(names, inputs):
                if name in given:
                    continue
                if value is None:
                    continue
                if isinstance(value, (list, tuple)):
                    arrays.update({f"{identifier(name)}_{k}": raw(array(v)) for k, v in enumerate(value)})
                else:
                    arrays[identifier(name)] = raw(array(value))
            np.savez(f"{folder}/in.npz", **arrays)
            want = flat(outputs)
            for stage in self.args.stages:
                command = ["exec", text, "--inputs", f"{folder}/in.npz", "-o", f"{folder}/{stage}.npz", "--random", "1"]
                command += ["--pipeline", stage] if stage != "exec" else []
                code, error = run(self.base() + command + ["--manifest", self.args.manifest])
                if code != 0:
                    record[stage] = message(error)
                    continue
                loaded = np.load(f"{folder}/{stage}.npz", allow_pickle=False)
                # The elements of a sequence have two numbers, as in output_0_1.
                keys = sorted(loaded.files, key=lambda name: [int(part) for part in name.split("_")[1:]])
                got, rtol, atol = [loaded[k] for k in keys], case.rtol or 1e-3, max(case.atol or 1e-7, 1e-7)
                wrong = compared(got, want, rtol, atol)
                if wrong is not None and (exact := precise(case, names)) is not None and compared(got, exact, rtol, atol) is None:
                    wrong, record["precise"] = None, True
                record[stage] = "ok" if wrong is None else "wrong: " + wrong
            return record


def summary(records, stages):
    n = len(records)
    read = [r for r in records if r["read"] == "ok"]
    print(f"read: {len(read)} of {n}, {sum('given' in r for r in read)} of them with values given")
    for stage in stages:
        right = sum(r.get(stage) == "ok" for r in read)
        wrong = sum(str(r.get(stage, "")).startswith("wrong") for r in read)
        print(f"{stage}: {right} of {n} right ({100 * right / n:.1f} %), {wrong} wrong")


def page(records, stages, tvm, out):
    """Writes a Markdown table: for each operator, the correct cases of passhost and TVM; then each failure."""
    of = lambda record: record["ops"][0] if len(record["ops"]) == 1 else "bodies of function operators"
    other = {}
    for line in open(tvm) if tvm else ():
        record = json.loads(line)
        other[record["name"]] = record["res"] == "ok"
    rows = collections.defaultdict(list)
    for record in records:
        rows[of(record)].append(record)
    head = ["operator", "cases", "read", *stages] + (["TVM 0.27"] if tvm else [])
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for name in sorted(rows):
        cells = [name, len(rows[name]), sum(r["read"] == "ok" for r in rows[name])]
        cells += [sum(r.get(stage) == "ok" for r in rows[name]) for stage in stages]
        cells += [sum(other.get(r["name"], False) for r in rows[name])] if tvm else []
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    lines += ["", "| not right | at | why |", "|---|---|---|"]
    for record in records:
        for stage in ("read", *stages):
            if record.get(stage, "ok") != "ok":
                why = re.sub(r"/\S*/", "", record[stage]).removeprefix("error: model.onnx: reader `onnx` of plugin `passhost-onnx`: ")
                lines.append(f"| {record['name']} | {stage} | {why.replace('|', '/')[:200]} |")
                break
    with open(out, "w") as file:
        file.write("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passhost", default="target/debug/passhost")
    parser.add_argument("--manifest", default="passes.toml")
    parser.add_argument("--results", default="onnx_suite.jsonl")
    parser.add_argument("--as-pass", help="an empty module, in which the pass onnx.Import reads the model")
    parser.add_argument("--only", help="run only cases whose names contain this")
    parser.add_argument("--again", action="store_true", help="run the failed cases again")
    parser.add_argument("--stages", default=",".join(STAGES), type=lambda text: text.split(","))
    parser.add_argument("--jobs", default=2, type=int)
    parser.add_argument("--page", help="write a table of all operators to this file")
    parser.add_argument("--tvm", help="TVM's results for that table: a file of JSON lines with `name` and `res`")
    args = parser.parse_args()
    known = {}
    if os.path.exists(args.results):
        for line in open(args.results):
            record = json.loads(line)
            known[record["name"]] = record
    right = lambda r: r["read"] == "ok" and all(r.get(stage) == "ok" for stage in args.stages)
    todo = []
    for at, case in enumerate(cases()):
        old = known.get(case.name)
        if args.only and args.only not in case.name:
            continue
        if old is None or (args.again and not right(old)) or args.only:
            todo.append((at, case))
    runner = Runner(args)
    with open(args.results, "a") as file, ThreadPoolExecutor(args.jobs) as pool:
        for record in pool.map(lambda pair: runner.one(*pair), todo):
            known[record["name"]] = record
            file.write(json.dumps(record) + "\n")
            file.flush()
            if args.only:
                print(json.dumps(record))
    summary(list(known.values()), args.stages)
    if args.page:
        page(sorted(known.values(), key=lambda record: record["i"]), args.stages, args.tvm, args.page)
    reasons = collections.Counter()
    for record in known.values():
        for stage in ("read", *args.stages):
            if record.get(stage, "ok") != "ok":
                reasons[(stage, "+".join(record["ops"][:3]), record[stage][:90])] += 1
                break
    for (stage, ops, why), count in reasons.most_common(60 if not args.only else 0):
        print(f"{count:4} {stage:8} {ops:40} {why}")


if __name__ == "__main__":
    main()
