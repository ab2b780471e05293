#!/usr/bin/env python3
"""Compares each node of an ONNX model with onnxruntime, for the same inputs, to show where a difference begins.

    python tests/oracle/onnx_nodes.py MODEL.onnx INPUTS.npz [--pipeline NAME] [--top N] [--passhost PROGRAM] [--manifest FILE]

onnxruntime computes all intermediate values, without optimizations. The script converts the model to a model whose nodes take these values
instead of each other's results, and passhost executes that model once. So the error of a node does not include the errors of earlier
nodes. If each node is right, but the model is not, the model amplifies small errors, for example if a quantized value is rounded in the
other direction. The script first prints how much onnxruntime's own results differ with and without optimizations.
"""
import argparse
import collections
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

# Integers of at most this many elements may be sizes, which the reader needs to know.
SIZES = 64


def session(model, level):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level, options.intra_op_num_threads = level, 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def all_values(model, given):
    """Returns the inputs and all intermediate values, by name."""
    wide, known = onnx.ModelProto(), {value.name for value in model.graph.output}
    wide.CopyFrom(model)
    for node in model.graph.node:
        wide.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in node.output if name and name not in known)
    runner = session(wide, onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
    names = [value.name for value in runner.get_outputs()]
    return dict(zip(names, runner.run(None, given), strict=True)) | given


def used(node, own=frozenset()):
    """Returns the names that a node uses, including those that its nested graphs take from outside."""
    names = {name for name in node.input if name and name not in own}
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            graph = attribute.g
            inner = own | {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
            inner |= {name for nested in graph.node for name in nested.output}
            names = names.union(*(used(nested, inner) for nested in graph.node), (v.name for v in graph.output if v.name not in inner))
    return names


def cut(model, values):
    """Returns a model of separate nodes, its inputs, and the names of the results with their nodes."""
    constant = {tensor.name for tensor in model.graph.initializer}
    constant |= {node.output[0] for node in model.graph.node if node.op_type == "Constant"}
    nodes, inputs, weights, results = [], {}, list(model.graph.initializer), []
    for node in model.graph.node:
        alone = onnx.NodeProto()
        alone.CopyFrom(node)
        nodes.append(alone)
        if node.op_type == "Constant":
            continue
        for name in sorted(used(node) - constant):
            value = values[name]
            if value.dtype.kind == "i" and value.size <= SIZES or value.size == 0:
                weights.append(numpy_helper.from_array(value, name))
                constant.add(name)
            else:
                inputs[name] = value
        for at, name in enumerate(node.output):
            if name:
                alone.output[at] = f"{name}.got"
                results.append((node, name))
    info = lambda name, value: helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
    outputs = [info(f"{name}.got", values[name]) for _, name in results]
    graph = helper.make_graph(nodes, "cut", [info(name, value) for name, value in inputs.items()], outputs, weights)
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version), inputs, results


def apart(got, want):
    """Returns the largest error, relative to the largest element (integers: the largest difference), and its description."""
    if (got.shape, got.dtype) != (want.shape, want.dtype):
        return float("inf"), f"{got.dtype}{list(got.shape)}, {want.dtype}{list(want.shape)} is right"
    g, w = got.astype("f8"), want.astype("f8")
    errors = np.where((g == w) | (np.isnan(g) & np.isnan(w)), 0, np.nan_to_num(np.abs(g - w), nan=np.inf))
    most = errors.max(initial=0)
    largest = np.abs(w[np.isfinite(w)]).max(initial=0) if want.dtype.kind == "f" else 1
    relative = most / largest if largest else most
    return relative, f"{want.dtype}{list(want.shape)}: {most:.3g} of {largest:.3g}, {np.count_nonzero(errors)} of {errors.size} differ"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("inputs")
    parser.add_argument("--pipeline")
    parser.add_argument("--top", default=12, type=int)
    parser.add_argument("--passhost", default="target/debug/passhost")
    parser.add_argument("--manifest", default="passes.toml")
    args = parser.parse_args()
    onnxruntime.set_default_logger_severity(4)
    model, given = onnx.load(args.model), dict(np.load(args.inputs))
    levels = onnxruntime.GraphOptimizationLevel
    fast, plain = (session(model, level).run(None, given) for level in (levels.ORT_ENABLE_ALL, levels.ORT_DISABLE_ALL))
    for at, (one, other) in enumerate(zip(fast, plain, strict=True)):
        print(f"onnxruntime with and without optimizations, result {at}: {apart(one, other)[1]}")
    values = all_values(model, given)
    alone, inputs, results = cut(model, values)
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(alone, f"{folder}/cut.onnx")
        # Arrays without names are in the order of the inputs.
        np.savez(f"{folder}/in.npz", **{f"arr_{at}": value for at, value in enumerate(inputs.values())})
        command = [args.passhost, "exec", f"{folder}/cut.onnx", "--inputs", f"{folder}/in.npz", "-o", f"{folder}/out.npz"]
        command += ["--pipeline", args.pipeline] if args.pipeline else ["--passes", ""]
        command += ["--limit-work", "100000000000000", "--manifest", args.manifest]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr)
        with np.load(f"{folder}/out.npz") as loaded:
            got = [loaded["output" if len(results) == 1 else f"output_{at}"] for at in range(len(results))]
    rows = [(*apart(one, values[name]), node.op_type, name) for one, (node, name) in zip(got, results, strict=True)]
    wrong = sorted((row for row in rows if row[0] > 0), reverse=True)
    print(f"{len(rows)} results of nodes, {len(wrong)} of them differ")
    for error, words, op, name in wrong[: args.top]:
        print(f"{error:.1e} {op} {name} {words}")
    worst = collections.defaultdict(float)
    for error, _, op, _ in rows:
        worst[op] = max(worst[op], error)
    print("largest error by operator:", ", ".join(f"{op} {error:.1e}" for op, error in sorted(worst.items(), key=lambda row: -row[1])))


if __name__ == "__main__":
    main()
