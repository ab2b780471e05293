"""Runs the README's commands for an ONNX model: passhost's default pipeline, and then TVM's compiler.

The model consists of two convolutions. passhost must group them, and the compiled module must compute the same results
as the model that TVM imports.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[2]


def save_model(path):
    """Saves a model of two successive convolutions."""
    generator = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(generator.standard_normal(shape).astype("float32"), name)
        for name, shape in [("w1", (8, 3, 3, 3)), ("w2", (8, 8, 3, 3))]
    ]
    nodes = [helper.make_node("Conv", ["x", "w1"], ["y"]), helper.make_node("Conv", ["y", "w2"], ["z"])]
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 16, 16])
    result = helper.make_tensor_value_info("z", TensorProto.FLOAT, [1, 8, 12, 12])
    graph = helper.make_graph(nodes, "convolutions", [image], [result], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)


def compute(executable, image):
    """Returns the result of `main`."""
    import tvm

    machine = tvm.relax.VirtualMachine(executable, tvm.cpu())
    return machine["main"](tvm.runtime.tensor(image)).numpy()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", type=Path, default=ROOT / "target/release/passhost")
    binary = parser.parse_args().binary.resolve()
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    if len(blocks) != 1:
        sys.exit(f"the README has {len(blocks)} blocks of Python; expected one, which compiles")
    os.chdir(tempfile.mkdtemp())
    save_model("model.onnx")
    compiled = {}
    manifest = ["--manifest", str(ROOT / "passes.toml")]
    subprocess.run([binary, "run", "model.onnx", "-o", "out.py", *manifest], check=True)
    if "acme.conv2d_conv2d" not in Path("out.py").read_text():
        sys.exit("the convolutions were not grouped")
    exec(blocks[0], compiled)  # noqa: S102
    import tvm
    from tvm.relax.frontend.onnx import from_onnx

    image = np.random.default_rng(1).standard_normal((1, 3, 16, 16)).astype("float32")
    expected = compute(tvm.compile(from_onnx(onnx.load("model.onnx")), target="llvm"), image)
    np.testing.assert_allclose(compute(compiled["executable"], image), expected, rtol=1e-5, atol=1e-5)
    print("the README's Python code works")


if __name__ == "__main__":
    main()
