#!/usr/bin/env python3
"""Compares loops whose number of iterations depends on data, and scans over axes of symbolic length, with onnxruntime.

`onnx_loops.py [--passhost FILE] [--manifest FILE]` reads each model, and then executes it without passes, after the
pipeline `compile`, and after `native`, with several inputs. The exit code is 1 if a result differs.
"""
import argparse, subprocess, sys, tempfile
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
STAGES = ("exec", "compile", "native")


def value(name, shape, kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def body(nodes, inputs, outputs, loop=True):
    """Returns the body of a loop: its first inputs are the iteration and the condition, its first output is `goes`."""
    nodes = [helper.make_node(*node[:3], **node[3]) if len(node) > 3 else helper.make_node(*node) for node in nodes]
    inputs = ([value("i", [], INT64), value("go", [], BOOL)] if loop else []) + [value(name, shape) for name, shape in inputs]
    outputs = ([value("goes", [], BOOL)] if loop else []) + [value(name, None) for name in outputs]
    return helper.make_graph(nodes, "body", inputs, outputs)


def model(nodes, inputs, outputs, constants=()):
    stored = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants]
    graph = helper.make_graph(nodes, "g", inputs, [value(name, None) for name in outputs], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def f32(array):
    return np.asarray(array, "float32")


def doubling():
    """Goes on until a sum reaches a limit. The condition is unknown after the first iteration."""
    nodes = [("Add", ["c", "c"], ["c2"]), ("ReduceSum", ["c2"], ["s"], {"keepdims": 0}), ("Less", ["s", "limit"], ["goes"]),
             ("Identity", ["c2"], ["seen"])]
    loop = helper.make_node("Loop", ["", "", "x"], ["y", "z"], body=body(nodes, [("c", [3])], ["c2", "seen"]))
    feeds = [{"x": f32([1, 2, 3]), "limit": f32(limit)} for limit in (0, 20, 1000)]
    return model([loop], [value("x", [3]), value("limit", [])], ["y", "z"]), feeds


def counted():
    """Uses a value of symbolic size from outside, and the number of the iteration. Its last result is used further."""
    nodes = [("Add", ["c", "w"], ["c2"]), ("Cast", ["i"], ["f"], {"to": FLOAT}), ("Mul", ["c2", "f"], ["seen"]), ("Identity", ["go"], ["goes"])]
    loop = helper.make_node("Loop", ["n", "", "x"], ["y", "z"], body=body(nodes, [("c", None)], ["c2", "seen"]))
    around = [helper.make_node("Relu", ["w0"], ["w"]), loop, helper.make_node("Neg", ["y"], ["out"])]
    inputs = [value("n", [], INT64), value("x", ["a", 4]), value("w0", ["a", 4])]
    feeds = [{"n": np.int64(n), "x": f32(np.arange(4 * a).reshape(a, 4)), "w0": f32(np.full((a, 4), 2))} for n, a in ((1, 2), (5, 3), (40, 1))]
    return model(around, inputs, ["out", "z"]), feeds


def growing():
    """Carries a value that becomes longer, and decides in each iteration."""
    branch = lambda op, name: helper.make_graph([helper.make_node(op, ["last", "one"], [name])], name, [], [value(name, [1])])
    choice = {"then_branch": branch("Add", "up"), "else_branch": branch("Sub", "down")}
    nodes = [("Gather", ["c", "end"], ["last"]), ("ReduceMax", ["last"], ["top"], {"keepdims": 0}), ("Greater", ["top", "half"], ["is"]),
             ("If", ["is"], ["next"], choice), ("Concat", ["c", "next"], ["c2"], {"axis": 0}), ("Identity", ["go"], ["goes"])]
    loop = helper.make_node("Loop", ["n", "", "x"], ["y"], body=body(nodes, [("c", ["k"])], ["c2"]))
    feeds = [{"n": np.int64(n), "x": f32([sign, sign])} for n in (0, 3) for sign in (1, -1)]
    constants = [("end", np.array([-1])), ("one", f32([1])), ("half", f32(0.5))]
    return model([loop], [value("n", [], INT64), value("x", [2])], ["y"], constants), feeds


def nested():
    """A loop in a loop, whose number of iterations is the number of the outer iteration."""
    inner = helper.make_graph(
        [helper.make_node("Add", ["d", "one"], ["d2"]), helper.make_node("Identity", ["inner_go"], ["inner_goes"])], "inner",
        [value("j", [], INT64), value("inner_go", [], BOOL), value("d", [])], [value("inner_goes", [], BOOL), value("d2", [])])
    nodes = [("Loop", ["i", "", "c"], ["c1"], {"body": inner}), ("Mul", ["c1", "two"], ["c2"]), ("Less", ["c2", "limit"], ["goes"])]
    loop = helper.make_node("Loop", ["ten", "", "x"], ["y"], body=body(nodes, [("c", [])], ["c2"]))
    feeds = [{"x": f32(1), "limit": f32(limit)} for limit in (0, 50, 1e9)]
    return model([loop], [value("x", []), value("limit", [])], ["y"], [("ten", np.int64(10)), ("one", f32(1)), ("two", f32(2))]), feeds


def scanned(backward):
    """Scans an axis of symbolic length, and stacks its results along the second axis."""
    nodes = [("Add", ["s", "e"], ["s2"]), ("Mul", ["s2", "e"], ["part"])]
    directions = {"scan_input_directions": [backward], "scan_output_directions": [1 - backward], "scan_output_axes": [1]}
    inside = body(nodes, [("s", [2]), ("e", [2])], ["s2", "part"], loop=False)
    scan = helper.make_node("Scan", ["s", "x"], ["y", "z"], body=inside, num_scan_inputs=1, **directions)
    rng = np.random.default_rng(backward)
    feeds = [{"s": f32([1, 2]), "x": f32(rng.normal(size=(length, 2)))} for length in (1, 2, 7)]
    return model([scan], [value("s", [2]), value("x", ["t", 2])], ["y", "z"]), feeds


CASES = {
    "doubling": doubling, "counted": counted, "growing": growing, "nested": nested,
    "scan forward": lambda: scanned(0), "scan backward": lambda: scanned(1),
}


def difference(args, text, folder, feed, want, stage):
    np.savez(f"{folder}/in.npz", **feed)
    command = [args.passhost, "exec", text, "--inputs", f"{folder}/in.npz", "-o", f"{folder}/out.npz", "--manifest", args.manifest]
    done = subprocess.run(command + ([] if stage == "exec" else ["--pipeline", stage]), capture_output=True, text=True)
    if done.returncode != 0:
        return " ".join(done.stderr.split())[:300]
    loaded = np.load(f"{folder}/out.npz")
    got = [loaded[key] for key in (["output"] if "output" in loaded else [f"output_{k}" for k in range(len(loaded.files))])]
    same = len(got) == len(want) and all(g.shape == w.shape and np.allclose(g, w, rtol=1e-5, equal_nan=True) for g, w in zip(got, want))
    return None if same else f"{got} instead of {want}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passhost", default="target/debug/passhost")
    parser.add_argument("--manifest", default="passes.toml")
    args = parser.parse_args()
    import onnxruntime
    tried = right = 0
    for name, make in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            loops, feeds = make()
            path, text = f"{folder}/loop.onnx", f"{folder}/loop.py"
            onnx.save(loops, path)
            session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
            done = subprocess.run([args.passhost, "run", path, "--passes", "", "-o", text, "--manifest", args.manifest], capture_output=True, text=True)
            for feed in feeds:
                feed = {key: np.asarray(array) for key, array in feed.items()}
                for stage in STAGES:
                    why = " ".join(done.stderr.split())[:300] if done.returncode != 0 else None
                    why = why or difference(args, text, folder, feed, session.run(None, feed), stage)
                    tried, right = tried + 1, right + (why is None)
                    if why is not None:
                        print(f"{name}, {stage}: {why}")
    print(f"{right} of {tried} runs are right")
    return 0 if right == tried else 1


if __name__ == "__main__":
    sys.exit(main())
