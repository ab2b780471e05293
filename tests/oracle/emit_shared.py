"""Loads the output of `passhost emit --kind shared` with TVM-FFI, and compares its results with `passhost exec`.

    python tests/oracle/emit_shared.py [--binary FILE]

The functions are called with TVM-FFI tensors, TVM tensors and NumPy arrays. All bits must be equal. Then each
incorrect call must raise a Python error with the reason.
"""

import argparse
import pathlib
import subprocess
import tempfile

import numpy as np
import tvm
import tvm_ffi

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODULE = '''# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def matmul_relu(A: T.Buffer((24, 40), "float32"), B: T.Buffer((40, 33), "float32"), C: T.Buffer((24, 33), "float32")):
        D = T.alloc_buffer((24, 33), "float32")
        for i in T.parallel(24):
            for j in range(33):
                D[i, j] = T.float32(0)
                for k in range(40):
                    D[i, j] = D[i, j] + A[i, k] * B[k, j]
        for i, j in T.grid(24, 33):
            C[i, j] = T.max(D[i, j], T.float32(0))

    @T.prim_func(s_tir=True)
    def halves(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, 3), "float16")
        B = T.match_buffer(b, (n, 3), "float16")
        for i, j in T.grid(n, 3):
            B[i, j] = A[i, j] * A[i, j] + T.float16(0.1)

    @T.prim_func(s_tir=True)
    def gather(A: T.Buffer((5,), "float64"), I: T.Buffer((4,), "int32"), B: T.Buffer((4,), "float64")):
        for i in range(4):
            B[i] = A[I[i]]

    @R.function
    def run_matmul_relu(x: R.Tensor((24, 40), "float32"), y: R.Tensor((40, 33), "float32")):
        cls = Module
        out = R.call_tir(cls.matmul_relu, (x, y), out_ty=R.Tensor((24, 33), "float32"))
        return out

    @R.function
    def run_halves(x: R.Tensor((7, 3), "float16")):
        cls = Module
        out = R.call_tir(cls.halves, (x,), out_ty=R.Tensor((7, 3), "float16"))
        return out

    @R.function
    def run_gather(x: R.Tensor((5,), "float64"), y: R.Tensor((4,), "int32")):
        cls = Module
        out = R.call_tir(cls.gather, (x, y), out_ty=R.Tensor((4,), "float64"))
        return out
'''


def ways(array):
    """Returns an array as each kind of tensor that TVM-FFI accepts."""
    aligned = tvm.runtime.tensor(array)
    return {"TVM": aligned, "TVM-FFI": tvm_ffi.from_dlpack(array), "NumPy": array}


def compare(passhost, folder, library, name, inputs, out):
    """Compares a function's result with `passhost exec`, bit by bit, for each kind of tensor."""
    np.savez(folder / "in.npz", **dict(zip("xy", inputs)))
    files = ["--inputs", str(folder / "in.npz"), "-o", str(folder / "out.npz")]
    command = [passhost, "exec", str(folder / "module.py"), "--function", f"run_{name}", *files]
    subprocess.run([*command, "--backend", "interpreter"], check=True, capture_output=True, cwd=folder)
    expected = np.load(folder / "out.npz")["output"]
    for kind in ["TVM", "TVM-FFI", "NumPy"]:
        result = ways(np.full_like(out, 7))[kind]
        library[name](*[ways(array)[kind] for array in inputs], result)
        found = result if kind == "NumPy" else np.from_dlpack(result)
        same = found.tobytes() == expected.tobytes()
        print(f"{name:12} {kind:8} {'the same bits' if same else 'DIFFERS'}")
        assert same


def refused(function, arguments, error, text):
    try:
        function(*arguments)
    except error as found:
        assert text in str(found), f"{found}\nlacks: {text}"
        print(f"{error.__name__}: {str(found).splitlines()[0]}")
    else:
        raise AssertionError(f"no error: {text}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", default=str(ROOT / "target/release/passhost"))
    passhost = str(pathlib.Path(parser.parse_args().binary).resolve())
    folder = pathlib.Path(tempfile.mkdtemp())
    (folder / "passes.toml").write_text("# No plugins are needed.\n")
    (folder / "module.py").write_text(MODULE)
    made = [passhost, "emit", str(folder / "module.py"), "--kind", "shared", "-o", str(folder / "kernels.so")]
    subprocess.run(made, check=True, cwd=folder, capture_output=True)
    library = tvm_ffi.load_module(folder / "kernels.so")
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((24, 40), "float32"), rng.standard_normal((40, 33), "float32")
    out = np.zeros((24, 33), "float32")
    compare(passhost, folder, library, "matmul_relu", [x, y], out)
    half = rng.standard_normal((7, 3)).astype("float16")
    compare(passhost, folder, library, "halves", [half], half)
    x5, at, out4 = rng.standard_normal(5), np.array([4, 0, 3, 3], "int32"), np.zeros(4)
    compare(passhost, folder, library, "gather", [x5, at], out4)

    matmul, halves, gather = library["matmul_relu"], library["halves"], library["gather"]
    refused(matmul, [x, y], TypeError, "takes 3 arguments")
    refused(matmul, [x, y, 5], TypeError, "parameter `C` is a tensor, but the argument is")
    refused(matmul, [y, y, out], ValueError, "extent 0 of the argument differs")
    refused(matmul, [x.astype("float64"), y, out], ValueError, "a different data type")
    refused(matmul, [np.asfortranarray(x), y, out], ValueError, "not contiguous in row-major order")
    refused(matmul, [x[0], y, out], ValueError, "a different number of dimensions")
    refused(halves, [half, half], ValueError, "shares memory")
    refused(halves, [half, half[:5].copy()], ValueError, "shape [n, 3], but extent 0")
    refused(gather, [x5, np.array([0, 1, 2, 5], "int32"), out4], RuntimeError, "an index is outside of `A`")
    print("all checks passed")


if __name__ == "__main__":
    main()
