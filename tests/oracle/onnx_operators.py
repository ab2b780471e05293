"""Runs ONNX models written by `passhost bench` with onnxruntime, and compares the results.

    python tests/oracle/onnx_operators.py [MODELS] [--only squeezenet] [--weights constants,inputs] [--no-operators] [--passhost FILE]

It first tests each operator that passhost writes, in functions with the relevant attributes, and then the models in the
folder MODELS (default: tests/models). The line of each model contains the ratio of passhost's time to onnxruntime's
time. Needs onnxruntime.
"""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
NCHW = 'layout="NCHW", out_layout="NCHW"'
UNARY = ["nn.relu", "sigmoid", "tanh", "exp", "abs", "negative", "erf", "floor", "ceil", "sin", "cos", "nn.gelu"]
BINARY = ["add", "subtract", "multiply", "maximum", "minimum"]
# Each case: the parameters with their shapes, and the expression.
CASES = [
    *[(["x 2 3"], f"R.{name}(x)") for name in UNARY],
    *[(["x 2 3"], f'R.{name}(R.add(R.abs(x), R.const(0.5, "float32")))') for name in ["log", "sqrt"]],
    *[(["x 2 3", "y 3"], f"R.{name}(x, y)") for name in BINARY],
    (["x 2 3", "y 3"], 'R.divide(x, R.add(R.abs(y), R.const(0.5, "float32")))'),
    (["x 2 3"], 'R.power(R.abs(x), R.const(0.75, "float32"))'),
    (["x 2 4 9 9", "w 6 2 3 3"], "R.nn.conv2d(x, w, strides=[2, 1], padding=[1, 0, 2, 1], groups=2)"),
    (["x 2 4 9 9", "w 6 4 3 3"], "R.nn.conv2d(x, w, padding=1, dilation=2)"),
    (["x 2 4 9", "w 6 4 3"], "R.nn.conv1d(x, w, strides=2, padding=[0, 1])"),
    (["x 1 2 5 5 5", "w 3 2 2 2 2"], "R.nn.conv3d(x, w, padding=[0, 0, 0, 1, 1, 1])"),
    (["x 1 2 9 9"], f"R.nn.max_pool2d(x, [3, 3], [2, 2], padding=[0, 1, 1, 0], {NCHW})"),
    (["x 1 2 10 10"], f"R.nn.max_pool2d(x, [3, 3], [2, 2], padding=[0, 0], ceil_mode=True, {NCHW})"),
    (["x 1 2 9 9"], f"R.nn.max_pool2d(x, [2, 2], [1, 1], padding=[0, 0], dilation=[2, 2], {NCHW})"),
    (["x 1 2 9"], "R.nn.max_pool1d(x, [3], [2], padding=[1])"),
    (["x 1 2 5 6 7"], "R.nn.max_pool3d(x, [2, 2, 2], [1, 2, 2], padding=[0, 0, 0])"),
    (["x 1 2 9 9"], f"R.nn.avg_pool2d(x, [3, 3], [2, 2], padding=[0, 0, 1, 1], count_include_pad=False, {NCHW})"),
    (["x 1 2 9 9"], f"R.nn.avg_pool2d(x, [3, 3], [1, 1], padding=[1, 1], count_include_pad=True, {NCHW})"),
    (["x 1 2 10 10"], f"R.nn.avg_pool2d(x, [3, 3], [2, 2], padding=[0, 0], ceil_mode=True, {NCHW})"),
    (["x 1 2 9"], "R.nn.avg_pool1d(x, [3], [2], padding=[1])"),
    (["x 1 1 9 4 4"], "R.nn.avg_pool3d(x, [5, 1, 1], [1, 1, 1], padding=[2, 0, 0, 2, 0, 0], count_include_pad=True)"),
    (["x 2 3 4 4", "g 3", "b 3", "m 3", "var 3"], "R.nn.batch_norm(x, g, b, m, var, axis=1, epsilon=0.01, training=False)[0]"),
    (["x 2 3"], "R.nn.dropout(x, rate=0.5)[0]"),
    (["x 2 3 4"], "R.nn.softmax(x, axis=1)"),
    (["x 2 3 4"], "R.nn.log_softmax(x, axis=-1)"),
    (["x 2 3 4", "y 4 5"], "R.matmul(x, y)"),
    *[(["x 2 3 4"], f"R.{name}(x, axis=[0, -1])") for name in ["sum", "mean", "max", "min"]],
    (["x 2 3 4"], "R.sum(x, axis=[1], keepdims=True)"),
    (["x 2 3 4"], "R.mean(x)"),
    (["x 2 3 4"], "R.reshape(x, R.shape([4, 6]))"),
    (["x 2 1 4"], "R.broadcast_to(x, R.shape([2, 3, 4]))"),
    (["x 2 3"], "R.expand_dims(x, axis=[0, -1])"),
    (["x 1 2 1 3"], "R.squeeze(x, axis=[0])"),
    (["x 1 2 1 3"], "R.squeeze(x)"),
    (["x 2 3 4"], "R.permute_dims(x, axes=[2, 0, -2])"),
    (["x 2 3 4"], "R.permute_dims(x)"),
    (["x 2 3", "y 2 5"], "R.concat((x, y), axis=-1)"),
    (["x 2 3", "y 2 3"], "R.stack((x, y), axis=-1)"),
    (["x 2 3", "y 2 3"], "(R.add(x, y), x)"),
]


def module(params, expression):
    """Returns the source of a module with one function."""
    named = [param.split() for param in params]
    typed = ", ".join(f'{name}: R.Tensor(({", ".join(dims)},), dtype="float32")' for name, *dims in named)
    return f"@I.ir_module\nclass Module:\n    @R.function\n    def main({typed}):\n        y_ = {expression}\n        return y_\n"


def bench(options, path, *args):
    """Returns the output of `passhost bench`, or its error."""
    command = [options.passhost, "bench", str(path), "--against", "onnxruntime", "--json", *args]
    environment = {**os.environ, "PASSHOST_PYTHON": sys.executable}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    if done.returncode != 0:
        return None, done.stderr.strip()
    return json.loads(done.stdout), ""


def operators(options):
    """Returns the number of operators with different results."""
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "case.py"
        for params, expression in CASES:
            path.write_text(module(params, expression))
            found, why = bench(options, path, "--passes", "", "--backend", "interpreter", "--times", "1")
            if found is None:
                failed += 1
                print(f"FAILED {expression}: {why}")
    print(f"operators: {len(CASES) - failed} of {len(CASES)}")
    return failed


def models(options):
    """Returns the number of models with different results."""
    failed, ratios = 0, {}
    paths = [path for path in sorted(options.models.glob("*.py")) if "." not in path.stem]
    for path in paths:
        if options.only and path.stem not in options.only:
            continue
        for weights in options.weights:
            found, why = bench(options, path, "--weights", weights)
            if found is None:
                failed += 1
                print(f"FAILED {path.stem} {weights}: {why}")
                continue
            ours, theirs, against = found["runs"]["median"], found["against"]["runs"]["median"], found["against"]
            ratios.setdefault(weights, []).append(against["ratio"])
            times = f"{1e3 * ours:9.2f} ms {1e3 * theirs:9.2f} ms {against['ratio']:6.2f} ({against['ratio_of_min']:.2f})"
            print(f"{path.stem:16} {weights:10} {times} differs by {against['difference']:.1e}", flush=True)
    for weights, all_of in ratios.items():
        print(f"geometric mean, {weights}: {math.exp(sum(map(math.log, all_of)) / len(all_of)):.2f}")
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="?", type=pathlib.Path, default=ROOT / "tests/models")
    parser.add_argument("--only", type=lambda text: text.split(","))
    parser.add_argument("--weights", type=lambda text: text.split(","), default=["constants"])
    parser.add_argument("--no-operators", action="store_true")
    parser.add_argument("--passhost", default=str(ROOT / "target/release/passhost"))
    options = parser.parse_args()
    failed = (0 if options.no_operators else operators(options)) + models(options)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
