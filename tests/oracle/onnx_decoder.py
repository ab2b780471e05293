#!/usr/bin/env python3
"""Compares a decoder layer of a language model with onnxruntime, in three forms, with symbolic batch and sequence.

    python tests/oracle/onnx_decoder.py [--passhost PROGRAM] [--manifest FILE]

The first form uses standard operators of opset 23: RMSNormalization, RotaryEmbedding, and Attention with grouped queries. The second form
uses operators of `com.microsoft`: SkipSimplifiedLayerNormalization, GroupQueryAttention with rotary positions, and MatMulNBits; the third
form is the same with a different name for each size of the cache. All have a
cache of keys and values. Each form is read once, and executed for a prompt, for one more token, and for several more tokens: without
passes, after the pipeline `compile`, and after `native`. The exit code is 1 if a result is wrong.
"""
import argparse
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

HIDDEN, HEADS, KV_HEADS, SIZE, INNER, POSITIONS = 128, 8, 2, 16, 256, 64
STAGES = ("exec", "compile", "native")
# Batch, sequence, and length of the cache.
CASES = {"prompt": (2, 5, 0), "next token": (3, 1, 6), "prompt of one": (1, 7, 0), "more tokens": (1, 4, 3)}
MS = "com.microsoft"


def value(name, dims, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, dims)


class Layer:
    """A graph that grows node by node."""

    def __init__(self):
        self.rng, self.nodes, self.weights = np.random.default_rng(0), [], []

    def weight(self, name, array):
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def floats(self, name, *shape):
        return self.weight(name, (self.rng.standard_normal(shape) / np.sqrt(shape[0])).astype("float32"))

    def node(self, op, inputs, *outputs, domain="", **attributes):
        self.nodes.append(helper.make_node(op, inputs, list(outputs), domain=domain, **attributes))
        return outputs[0]

    def caches(self):
        angles = np.arange(POSITIONS)[:, None] / 10000.0 ** (np.arange(SIZE // 2) / (SIZE // 2))
        return [self.weight("cos", np.cos(angles).astype("float32")), self.weight("sin", np.sin(angles).astype("float32"))]

    def gated(self, x, project):
        """The feed-forward part."""
        gate, up = project(x, "gate", HIDDEN, INNER), project(x, "up", HIDDEN, INNER)
        gate = self.node("Mul", [gate, self.node("Sigmoid", [gate], "sigmoid")], "silu")
        return project(self.node("Mul", [gate, up], "gated"), "down", INNER, HIDDEN)

    def model(self, inputs, opsets, apart=False):
        cached = ["batch", KV_HEADS, "total", SIZE]
        inputs = [value("x", ["batch", "sequence", HIDDEN])] + inputs
        for name in ("past_key", "past_value"):
            inputs.append(value(name, [f"{name}_batch", KV_HEADS, f"{name}_length", SIZE] if apart else ["batch", KV_HEADS, "past", SIZE]))
        outputs = [value("y", ["batch", "sequence", HIDDEN]), value("present_key", cached), value("present_value", cached)]
        graph = helper.make_graph(self.nodes, "layer", inputs, outputs, self.weights)
        opsets = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def standard():
    layer = Layer()
    project = lambda x, name, rows, columns: layer.node("MatMul", [x, layer.floats(f"w_{name}", rows, columns)], name)
    norm = lambda x, name: layer.node("RMSNormalization", [x, layer.floats(f"w_{name}", HIDDEN)], name, epsilon=1e-6)
    caches = layer.caches()
    turned = lambda x, heads: layer.node("RotaryEmbedding", [x, *caches, "position_ids"], f"{x}_turned", num_heads=heads)
    normed = norm("x", "norm")
    q, k = project(normed, "q", HIDDEN, HEADS * SIZE), project(normed, "k", HIDDEN, KV_HEADS * SIZE)
    v = project(normed, "v", HIDDEN, KV_HEADS * SIZE)
    inputs = [turned(q, HEADS), turned(k, KV_HEADS), v, "", "past_key", "past_value"]
    heads = {"q_num_heads": HEADS, "kv_num_heads": KV_HEADS}
    layer.node("Attention", inputs, "attended", "present_key", "present_value", is_causal=1, **heads)
    sum_ = layer.node("Add", ["x", project("attended", "out", HEADS * SIZE, HIDDEN)], "sum")
    layer.node("Add", [sum_, layer.gated(norm(sum_, "norm_2"), project)], "y")
    return layer.model([value("position_ids", ["batch", "sequence"], TensorProto.INT64)], {"": 23})


def contributed(apart=False):
    layer = Layer()

    def project(x, name, rows, columns):
        """A product with a weight of 4 bits, in blocks of 32."""
        bytes_ = layer.weight(f"w_{name}", layer.rng.integers(0, 256, (columns, rows // 32, 16), "uint8"))
        scales = layer.weight(f"s_{name}", layer.rng.uniform(0.005, 0.03, columns * (rows // 32)).astype("float32"))
        return layer.node("MatMulNBits", [x, bytes_, scales], name, domain=MS, K=rows, N=columns, bits=4, block_size=32)

    one = layer.floats("w_norm", HIDDEN)
    layer.node("SimplifiedLayerNormalization", ["x", one], "normed", epsilon=1e-6, axis=-1)
    q, k = project("normed", "q", HIDDEN, HEADS * SIZE), project("normed", "k", HIDDEN, KV_HEADS * SIZE)
    v = project("normed", "v", HIDDEN, KV_HEADS * SIZE)
    inputs = [q, k, v, "past_key", "past_value", "seqlens_k", "total_sequence_length", *layer.caches()]
    heads = {"num_heads": HEADS, "kv_num_heads": KV_HEADS, "do_rotary": 1}
    layer.node("GroupQueryAttention", inputs, "attended", "present_key", "present_value", domain=MS, **heads)
    inputs = ["x", project("attended", "out", HEADS * SIZE, HIDDEN), layer.floats("w_norm_2", HIDDEN)]
    layer.node("SkipSimplifiedLayerNormalization", inputs, "normed_2", "", "", "sum", domain=MS, epsilon=1e-6)
    layer.node("Add", ["sum", layer.gated("normed_2", project)], "y")
    more = [value("seqlens_k", ["samples" if apart else "batch"], TensorProto.INT32), value("total_sequence_length", [], TensorProto.INT32)]
    return layer.model(more, {"": 21, MS: 1}, apart)


def arrays(model, batch, sequence, past):
    rng = np.random.default_rng(1)
    all_ = {
        "x": rng.standard_normal((batch, sequence, HIDDEN)).astype("float32"),
        "past_key": rng.standard_normal((batch, KV_HEADS, past, SIZE)).astype("float32"),
        "past_value": rng.standard_normal((batch, KV_HEADS, past, SIZE)).astype("float32"),
        "position_ids": np.tile(np.arange(past, past + sequence), (batch, 1)),
        "seqlens_k": np.full(batch, past + sequence - 1, "int32"),
        "total_sequence_length": np.array(past + sequence, "int32"),
    }
    return {one.name: all_[one.name] for one in model.graph.input}


def run(command):
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return None if done.returncode == 0 else " ".join(done.stderr.split())[:400]


def compared(path, want):
    """Returns the largest relative error, or what is wrong."""
    with np.load(path) as got:
        got = [got[f"output_{at}"] for at in range(len(want))]
    worst = 0.0
    for one, right in zip(got, want, strict=True):
        if one.shape != right.shape:
            return f"shape {one.shape}, {right.shape} is right"
        worst = max(worst, float(np.max(np.abs(one - right)) / np.max(np.abs(right))))
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passhost", default="target/debug/passhost")
    parser.add_argument("--manifest", default="passes.toml")
    args = parser.parse_args()
    manifest, failed = ["--manifest", args.manifest], 0
    forms = ("standard, opset 23", standard()), ("com.microsoft", contributed()), ("com.microsoft, sizes named apart", contributed(True))
    for form, model in forms:
        with tempfile.TemporaryDirectory() as folder:
            onnx.save(model, f"{folder}/layer.onnx")
            for command in (["check", f"{folder}/layer.onnx"], ["run", f"{folder}/layer.onnx", "--passes", "", "-o", f"{folder}/layer.py"]):
                if error := run([args.passhost, *command, *manifest]):
                    sys.exit(f"{form}: {command[0]}: {error}")
            session = onnxruntime.InferenceSession(f"{folder}/layer.onnx", providers=["CPUExecutionProvider"])
            for name, sizes in CASES.items():
                given = arrays(model, *sizes)
                want = session.run(None, given)
                np.savez(f"{folder}/in.npz", **given)
                for stage in STAGES:
                    command = ["exec", f"{folder}/layer.py", "--inputs", f"{folder}/in.npz", "-o", f"{folder}/out.npz"]
                    command += [] if stage == "exec" else ["--pipeline", stage]
                    error = run([args.passhost, *command, *manifest]) or compared(f"{folder}/out.npz", want)
                    failed += isinstance(error, str) or error > 1e-4
                    batch, sequence, past = sizes
                    said = error if isinstance(error, str) else f"{error:.1e}"
                    print(f"{form}: {name} (batch {batch}, sequence {sequence}, cache {past}): {stage} {said}", flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
