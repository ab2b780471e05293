"""Writes an 8 GB ONNX model with external data, and measures passhost's time and resident memory on it.

    python tests/oracle/large_model.py FOLDER [--gib 8] [--dense] [--passhost PROGRAM]

The data file is sparse: each weight consists of a few distinct bytes and holes of zeros, so that no two weights are
equal. With --dense, the file contains random bytes and is not sparse. Every eighth layer contains its weight twice, and
a dead branch, so that EliminateCommonSubexpr and DeadCodeElimination have work.
"""

import argparse
import os
import subprocess
import time

from onnx import TensorProto, helper

ROWS, COLUMNS = 4096, 8192
BYTES = ROWS * COLUMNS * 4
PASSES = "EliminateCommonSubexpr,DeadCodeElimination,FuseOps"


def weight(name, at, shape):
    """A tensor at an offset in the data file."""
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
    for key, value in ("location", "large.bin"), ("offset", str(at * BYTES)), ("length", str(BYTES)):
        tensor.external_data.add(key=key, value=value)
    return tensor


def write(folder, layers, dense):
    """Writes the model and the data."""
    nodes, weights, last = [], [], "x"
    for layer in range(layers):
        shape = (ROWS, COLUMNS) if layer % 2 == 0 else (COLUMNS, ROWS)
        weights.append(weight(f"w{layer}", layer, shape))
        nodes += [helper.make_node("MatMul", [last, f"w{layer}"], [f"m{layer}"]), helper.make_node("Relu", [f"m{layer}"], [f"r{layer}"])]
        if layer % 8 == 0:
            weights.append(weight(f"again{layer}", layer, shape))
            nodes += [
                helper.make_node("MatMul", [last, f"again{layer}"], [f"n{layer}"]),
                helper.make_node("Sigmoid", [f"n{layer}"], [f"unused{layer}"]),
            ]
        last = f"r{layer}"
    width = ROWS if layers % 2 == 0 else COLUMNS
    of = lambda name, width: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", width])
    graph = helper.make_graph(nodes, "large", [of("x", ROWS)], [of(last, width)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with open(f"{folder}/large.onnx", "wb") as file:
        file.write(model.SerializeToString())
    with open(f"{folder}/large.bin", "wb") as file:
        for layer in range(layers):
            file.seek(layer * BYTES)
            if dense:
                [file.write(os.urandom(1 << 20)) for _ in range(BYTES >> 20)]
            else:
                file.write(f"weight {layer}".encode())
        file.truncate(layers * BYTES)


def measure(command):
    """Runs a command. Returns the seconds, and the largest resident memory in MiB of the command or a child process."""
    start = time.monotonic()
    process = subprocess.Popen(command)
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0, f"{command} ended with status {status}"
    return time.monotonic() - start, used.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--gib", default=8, type=int)
    parser.add_argument("--dense", action="store_true")
    parser.add_argument("--passhost", default="target/release/passhost")
    parser.add_argument("--manifest", default="passes.toml")
    args = parser.parse_args()
    os.makedirs(args.folder, exist_ok=True)
    write(args.folder, args.gib << 3, args.dense)
    run = [args.passhost, "run", "--manifest", args.manifest, "--passes", PASSES]
    for name, more in [
        ("model to text", [f"{args.folder}/large.onnx", "-o", f"{args.folder}/out.py"]),
        ("text to text", [f"{args.folder}/out.py", "-o", f"{args.folder}/again.py"]),
        ("text to text with weights", [f"{args.folder}/out.py", "-o", f"{args.folder}/other.py", "--weights", f"{args.folder}/out.safetensors"]),
    ]:
        seconds, resident = measure(run + more)
        print(f"{name}: {seconds:.2f} s, {resident:.0f} MiB resident")


if __name__ == "__main__":
    main()
