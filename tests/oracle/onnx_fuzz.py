#!/usr/bin/env python3
"""Runs random ONNX nodes through onnxruntime and through the reader, and compares the results.

    python tests/oracle/onnx_fuzz.py --rounds 50 [--seed 1] [--only Resize,Pad] [--symbolic] [--stage compile]

Each round creates a model for one opset version, with a node for each operator in `onnx_fuzz_cases.py` and with random
attributes, shapes and types. Some operands are constants; dimensions are numbers or symbolic. If onnxruntime does not
support a node, the reference implementation in the `onnx` wheel decides. A failing model is split until only faulty
nodes remain. The results are JSON lines in `onnx_fuzz.jsonl`: operator, version, attributes, shapes, and the fault. A
new run continues after the last round of the previous run.
"""
import argparse, collections, json, os, subprocess, tempfile, warnings
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
import onnx_fuzz_cases as cases

warnings.filterwarnings("ignore")
LIMIT = 120
# The tolerated differences between two correct implementations, by data type.
TOLERANCE = {"float16": 1e-2, "float32": 1e-3, "float64": 1e-5}


def elem_type(array):
    return helper.np_dtype_to_tensor_dtype(array.dtype)


class Node:
    """A node, with the values of its operands."""

    def __init__(self, at, case, opset, symbolic, rng):
        self.case, self.opset = case, opset
        self.prefix = f"c{at}"
        names, self.fed, self.constants, self.inputs = [], {}, [], []
        for k, value in enumerate(case.inputs):
            if value is None:
                names.append("")
                continue
            name = f"{self.prefix}_i{k}"
            names.append(name)
            if k in case.constants:
                self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
                continue
            self.fed[name] = value
            dims = list(value.shape)
            if symbolic and k not in case.fixed:
                own = rng.random() < 0.5
                dims = [(f"{name}_{a}" if own else f"n{d}") if d > 1 and a not in case.fixed_axes and rng.random() < 0.7 else d for a, d in enumerate(dims)]
            self.inputs.append(helper.make_tensor_value_info(name, elem_type(value), dims))
        self.results = [f"{self.prefix}_o{k}" if k in case.wanted else "" for k in range(max(case.wanted) + 1)]
        self.proto = helper.make_node(case.op, names, self.results, domain=case.domain, **case.attrs)
        self.want = None

    def outputs(self):
        return [name for name in self.results if name]

    def describe(self):
        few = lambda v: f" = {v.tolist()}" if v.dtype.kind in "iub" and v.size <= 8 else ""
        shapes = [None if v is None else f"{v.dtype}{list(v.shape)}{few(v)}" for v in self.case.inputs]
        attrs = {k: repr(v) for k, v in self.case.attrs.items()}
        return {"op": self.case.op, "domain": self.case.domain, "opset": self.opset, "attrs": attrs, "inputs": shapes,
                "constants": sorted(self.case.constants), "wanted": sorted(self.case.wanted)}


def model_of(nodes, opset, fixed=False):
    inputs = [i for node in nodes for i in node.inputs]
    if fixed:
        inputs = [helper.make_tensor_value_info(n, elem_type(v), v.shape) for node in nodes for n, v in node.fed.items()]
    outputs = [onnx.ValueInfoProto(name=name) for node in nodes for name in node.outputs()]
    graph = helper.make_graph([node.proto for node in nodes], "g", inputs, outputs, [c for node in nodes for c in node.constants])
    domains = sorted({node.case.domain for node in nodes} - {""})
    imports = [helper.make_opsetid("", opset)] + [helper.make_opsetid(domain, 1) for domain in domains]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def by_onnxruntime(node):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model_of([node], node.opset, True).SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(node.outputs(), node.fed)


def by_reference(node):
    from onnx.reference import ReferenceEvaluator
    return ReferenceEvaluator(model_of([node], node.opset, True)).run(node.outputs(), node.fed)


def expected(node):
    """Returns the results, and the implementation that computed them."""
    why = []
    for name, of in (("onnxruntime", by_onnxruntime), ("reference", by_reference)):
        try:
            return [np.asarray(v) for v in of(node)], name
        except Exception as error:  # noqa: BLE001: any error means that the node is refused
            why.append(str(error).splitlines()[0][:160])
    return None, " | ".join(why)


def execute(options, nodes, opset):
    """Returns passhost's results, or its error."""
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/m.onnx", "wb") as file:
            file.write(model_of(nodes, opset).SerializeToString())
        np.savez(f"{folder}/in.npz", **{n: np.array(v, order="C") for node in nodes for n, v in node.fed.items()})
        command = [options.passhost, "exec", f"{folder}/m.onnx", "--inputs", f"{folder}/in.npz", "-o", f"{folder}/out.npz",
                   "--manifest", options.manifest] + (["--pipeline", options.stage] if options.stage else [])
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            return None, "timed out"
        if done.returncode != 0:
            lines = [line for line in done.stderr.splitlines() if line.startswith("error")] or [done.stderr[-300:]]
            return None, f"exit {done.returncode}: {lines[0].replace(folder, '')}"
        loaded = np.load(f"{folder}/out.npz")
        keys = ["output"] if "output" in loaded else [f"output_{k}" for k in range(len(loaded.files))]
        return [loaded[key] for key in keys], None


def differs(got, want, near):
    if got.shape != want.shape:
        return f"shape {got.shape}, {want.shape} is right"
    if got.dtype != want.dtype:
        return f"{got.dtype}, {want.dtype} is right"
    if want.dtype.kind in "biu":
        apart = np.abs(got.astype("float64") - want.astype("float64"))
        if apart.size and apart.max() > near:
            at = np.unravel_index(apart.argmax(), apart.shape)
            return f"{int((apart > near).sum())} of {apart.size} differ: at {list(map(int, at))} {got[at]}, {want[at]} is right"
        return None
    rtol = TOLERANCE.get(want.dtype.name, 1e-3)
    scale = np.nanmax(np.abs(np.where(np.isfinite(want), want, 0)).astype("float64"), initial=1.0)
    with np.errstate(all="ignore"):
        ok = np.isclose(got.astype("float64"), want.astype("float64"), rtol=rtol, atol=rtol * scale * 0.05, equal_nan=True)
    if not ok.all():
        at = np.unravel_index((~ok).argmax(), ok.shape)
        return f"{int((~ok).sum())} of {ok.size} differ: at {list(map(int, at))} {got[at]}, {want[at]} is right"
    return None


def judge(options, nodes, opset, found):
    """Runs nodes together. If that fails, runs each half, to find the faulty nodes."""
    got, error = execute(options, nodes, opset)
    if got is None:
        if len(nodes) == 1:
            found.append({**nodes[0].describe(), "error": error})
            return
        half = len(nodes) // 2
        judge(options, nodes[:half], opset, found)
        judge(options, nodes[half:], opset, found)
        return
    at = 0
    for node in nodes:
        wrong = None
        for name, want in zip(node.outputs(), node.want, strict=True):
            wrong = wrong or differs(got[at], want, node.case.near)
            wrong = f"{name}: {wrong}" if wrong and not wrong.startswith(node.prefix) else wrong
            at += 1
        if wrong:
            record = {**node.describe(), "wrong": wrong, "by": node.by}
            if node.by == "onnxruntime" and not node.case.domain:
                try:
                    ref = by_reference(node)
                    same = all(differs(np.asarray(g), np.asarray(w), node.case.near) is None for g, w in zip(got[at - len(ref):at], ref))
                    record["reference"] = "as passhost" if same else "differs, too"
                except Exception as error:  # noqa: BLE001: the reference lacks the form
                    record["reference"] = str(error)[:80]
            found.append(record)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passhost", default="target/debug/passhost")
    parser.add_argument("--manifest", default="passes.toml")
    parser.add_argument("--results", default="onnx_fuzz.jsonl")
    parser.add_argument("--rounds", default=20, type=int)
    parser.add_argument("--seed", default=1, type=int)
    parser.add_argument("--opset", type=int, help="opset version (default: random versions)")
    parser.add_argument("--only", help="operators, separated by commas")
    parser.add_argument("--symbolic", action="store_true", help="make the dimensions of inputs symbolic")
    parser.add_argument("--stage", default="", help="a pipeline that runs first")
    options = parser.parse_args()
    first, counts = 0, collections.Counter()
    if os.path.exists(options.results):
        for line in open(options.results):
            record = json.loads(line)
            if "round" in record and record.get("seed") == options.seed:
                first = max(first, record["round"] + 1)
    only = options.only.split(",") if options.only else None
    with open(options.results, "a") as file:
        for number in range(first, first + options.rounds):
            rng = np.random.default_rng([options.seed, number])
            opset = options.opset or int(rng.integers(7, 27))
            nodes, none = [], collections.Counter()
            for at, (name, of) in enumerate(cases.TABLE.items()):
                if only and name not in only:
                    continue
                case = of(cases.Draw(rng, opset))
                if case is None:
                    continue
                try:
                    node = Node(at, case, opset, options.symbolic, rng)
                except Exception as error:
                    raise RuntimeError(name) from error
                node.want, node.by = expected(node)
                if node.want is None:
                    none[f"{name}: {node.by[:200]}"] += 1
                else:
                    nodes.append(node)
            found = []
            if nodes:
                judge(options, nodes, opset, found)
            counts["nodes"] += len(nodes)
            counts["none"] += sum(none.values())
            for record in found:
                kind = "wrong" if "wrong" in record else "error"
                counts[kind] += 1
                print(kind, json.dumps(record)[:900], flush=True)
                file.write(json.dumps({"seed": options.seed, **record}) + "\n")
            file.write(json.dumps({"seed": options.seed, "round": number, "opset": opset, "nodes": len(nodes), "not_computed": dict(none)}) + "\n")
            file.flush()
    print(f"{counts['nodes']} nodes in {options.rounds} models: {counts['wrong']} wrong, {counts['error']} refused or failed;"
          f" {counts['none']} more are supported neither by onnxruntime nor by the reference")


if __name__ == "__main__":
    main()
