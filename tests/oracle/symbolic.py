"""Compares the speed of kernels with a symbolic dimension with the speed of the same kernels with a number in its place.

    python tests/oracle/symbolic.py [--passhost FILE] [--manifest FILE] [--rounds N] [--threads N] [NAME ...]

Needs a release build of passhost, and neither TVM nor a Python package. Each kernel is measured at five sizes: the
static and the symbolic form in turns, each with `passhost bench`, in the pipeline `native`. The table contains the
time of the static form divided by that of the symbolic form, from the shortest run of each. The exit code is 1 if a
ratio is below 0.9.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
LEAST = 0.9

# Name: the shapes of the parameters, in which N is the dimension; the lines of the function; the sizes.
KERNELS = {
    "matmul, rows": ({"x": "N, 256", "w": "256, 512"}, ["y = R.matmul(x, w)"], [1, 8, 100, 128, 512]),
    "matmul, columns": ({"x": "128, 256", "w": "256, N"}, ["y = R.matmul(x, w)"], [16, 64, 100, 128, 512]),
    "matmul, steps": ({"x": "128, N", "w": "N, 256"}, ["y = R.matmul(x, w)"], [1, 16, 100, 128, 512]),
    "matmul, batch": (
        {"x": "N, 16, 64", "w": "64, 256", "b": "256,"},
        ["z = R.matmul(x, w)", "y = R.add(z, b)"],
        [1, 4, 8, 32, 64],
    ),
    "dense": (
        {"x": "N, 256", "w": "256, 256", "b": "256,"},
        ["z = R.matmul(x, w)", "u = R.add(z, b)", "y = R.nn.relu(u)"],
        [1, 8, 32, 100, 256],
    ),
    "attention, batch": ({"q": "N, 4, 64, 32", "k": "N, 4, 32, 64"}, ["y = R.matmul(q, k)"], [1, 2, 4, 8, 16]),
    "attention, sequence": ({"q": "2, 4, N, 32", "k": "2, 4, 32, N"}, ["y = R.matmul(q, k)"], [16, 64, 77, 128, 256]),
    "conv2d, batch": (
        {"x": "N, 16, 32, 32", "w": "32, 16, 3, 3"},
        ["y = R.nn.conv2d(x, w, padding=[1, 1, 1, 1])"],
        [1, 2, 4, 8, 16],
    ),
    "conv2d, height and width": (
        {"x": "1, 16, N, N", "w": "32, 16, 3, 3"},
        ["y = R.nn.conv2d(x, w, padding=[1, 1, 1, 1])"],
        [14, 28, 56, 64, 112],
    ),
    "depthwise conv2d": (
        {"x": "N, 32, 56, 56", "w": "32, 1, 3, 3"},
        ["y = R.nn.conv2d(x, w, padding=[1, 1, 1, 1], groups=32)"],
        [1, 2, 4, 8, 16],
    ),
    "softmax": ({"x": "N, 128"}, ["y = R.nn.softmax(x, axis=-1)"], [8, 32, 100, 128, 512]),
    "layer_norm": (
        {"x": "N, 256", "g": "256,", "b": "256,"},
        ["y = R.nn.layer_norm(x, g, b, axes=[-1])"],
        [8, 32, 100, 128, 512],
    ),
    "sum of rows": ({"x": "N, 256"}, ["y = R.sum(x, axis=[1])"], [8, 32, 100, 128, 512]),
    "sum of columns": ({"x": "256, N"}, ["y = R.sum(x, axis=[0])"], [16, 32, 100, 128, 512]),
    "gelu": ({"x": "N, 768"}, ["y = R.nn.gelu(x)"], [1, 8, 32, 100, 512]),
    "add": ({"x": "N,", "z": "N,"}, ["y = R.add(x, z)"], [64, 100, 1000, 10000, 100000]),
    "max_pool2d": (
        {"x": "N, 32, 56, 56"},
        ["y = R.nn.max_pool2d(x, pool_size=[3, 3], strides=[2, 2], padding=[1, 1, 1, 1])"],
        [1, 2, 4, 8, 16],
    ),
    "transpose": ({"x": "N, 64, 4, 32"}, ["y = R.permute_dims(x, axes=[0, 2, 1, 3])"], [1, 2, 4, 8, 32]),
}


def module(shapes, lines, size):
    """Returns the text of a module; `size` is a number, or a name in quotes."""
    params = ", ".join(
        f'{name}: R.Tensor(({shape.replace("N", str(size))}), "float32")' for name, shape in shapes.items()
    )
    body = "".join(f"            {line}\n" for line in lines)
    return (
        f"@I.ir_module\nclass Module:\n    @R.function\n    def main({params}):\n        with R.dataflow():\n{body}"
        "            R.output(y)\n        return y\n"
    )


class Bench:
    """Measures modules with `passhost bench`."""

    def __init__(self, options, folder):
        """Keeps the options; modules are written to `folder`."""
        self.options, self.folder = options, folder

    def file(self, text):
        """Writes a module to a file."""
        path = self.folder / f"{len(list(self.folder.iterdir()))}.py"
        path.write_text(text)
        return path

    def shortest(self, path, dims, times):
        """Returns the shortest run, in seconds."""
        options = self.options
        command = [options.passhost, "bench", path, "--manifest", options.manifest, "--pipeline", "native", "--json"]
        command += ["--times", str(times), "--threads", str(options.threads), *dims]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        return json.loads(done.stdout)["runs"]["min"]

    def ratio(self, static, symbolic, size):
        """Returns the shortest time of both forms."""
        dims = ["--dim", f"n={size}"]
        once = self.shortest(static, [], 5)
        times = max(10, min(2000, int(0.1 / once)))
        least = [once, float("inf")]
        for _ in range(self.options.rounds):
            least[0] = min(least[0], self.shortest(static, [], times))
            least[1] = min(least[1], self.shortest(symbolic, dims, times))
        return least


def main():
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="kernels whose name contains one of these; default: all")
    parser.add_argument("--passhost", default=str(ROOT / "target" / "release" / "passhost"))
    parser.add_argument("--manifest", default=str(ROOT / "passes.toml"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    chosen = {name: of for name, of in KERNELS.items() if not options.names or any(n in name for n in options.names)}
    print("| kernel | static time / symbolic time, at each size |\n|---|---|")
    low = 0
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, pathlib.Path(folder))
        for name, (shapes, lines, sizes) in chosen.items():
            symbolic, cells = bench.file(module(shapes, lines, '"n"')), []
            for size in sizes:
                static, own = bench.ratio(bench.file(module(shapes, lines, size)), symbolic, size)
                low += static / own < LEAST
                cells.append(f"{size}: {static / own:.2f} ({static * 1e6:.0f} µs)")
            print(f"| {name} | {', '.join(cells)} |", flush=True)
    print(f"{low} ratios below {LEAST}")
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
