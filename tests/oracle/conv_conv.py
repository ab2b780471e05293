"""Compares the speed of the two convolutions in docs/tutorial-conv-conv.md with onnxruntime and TVM's untuned build.

    PYTHONPATH=python/python ../oracle-venv/bin/python tests/oracle/conv_conv.py [--rounds N]

Needs TVM, `onnx`, `onnxruntime`, and the Python package, which `python build_backend.py --release` in `python/`
builds. The modules come from running the examples in the document. The table contains the median of the medians of
all turns, with two threads each (`turns.py`). Results must be close to onnxruntime's results.
"""

import argparse
import contextlib
import doctest
import io
import pathlib
import statistics
import tempfile

import turns

ROOT = pathlib.Path(__file__).resolve().parents[2]


def document():
    """Returns the values of names in the document after running its examples."""
    names = {}
    examples = doctest.DocTestParser().get_examples((ROOT / "docs/tutorial-conv-conv.md").read_text())
    with contextlib.redirect_stdout(io.StringIO()):
        for example in examples:
            # Examples that raise show rejected code, and the last examples measure times.
            if example.exc_msg is None and "times" not in example.source:
                exec(example.source, names)
    return names


def in_passhost(name):
    """Measures a schedule from the document."""
    import passhost

    names = document()
    call, inputs = passhost.runtime.VirtualMachine(names["modules"][name])["main"], names["inputs"]
    return lambda: call(*inputs).numpy(), inputs


def in_onnxruntime(_):
    """Measures the same computation as an ONNX model."""
    import onnxruntime
    from onnx import TensorProto, checker, helper

    names = document()
    arrays = names["arrays"]
    conv = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], **conv),
        helper.make_node("Add", ["a", "bias"], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Conv", ["c", "w2"], ["y"], **conv),
    ]
    shapes = names["shapes"]
    weights = [
        helper.make_tensor(name, TensorProto.FLOAT, array.shape, array.tobytes(), raw=True)
        for name, array in zip(list(shapes)[1:], arrays[1:], strict=True)
    ]
    outer = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes["x"]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "conv_conv", outer[:1], outer[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(turns.THREADS)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": arrays[0]})[0], arrays


def in_tvm(_):
    """Measures the fused module without a schedule, built by TVM."""
    names = document()
    text, arrays = names["unscheduled"].script(), names["arrays"]
    import tvm
    from tvm import relax

    target = tvm.target.Target({"kind": "llvm", "mcpu": tvm.target.codegen.llvm_get_system_cpu()})
    machine = relax.VirtualMachine(relax.build(tvm.script.from_source(text), target), tvm.cpu())
    given = [tvm.runtime.tensor(array) for array in arrays]
    return lambda: machine["main"](*given).numpy(), arrays


PROGRAMS = {"passhost": in_passhost, "onnxruntime": in_onnxruntime, "TVM, untuned": in_tvm}


def main():
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--serve", nargs=2)
    options = parser.parse_args()
    if options.serve:
        program, name = options.serve
        return turns.serve(PROGRAMS[program](name)[0])
    rows = [("passhost", name) for name in ("unscheduled", "reordered", "tiled", "ScheduleForCPU", "one rounding")]
    rows += [("TVM, untuned", ""), ("onnxruntime", "")]
    programs = {f"{program} {name}".strip(): [__file__, "--serve", program, name] for program, name in rows}
    with tempfile.TemporaryDirectory() as folder:
        seconds = turns.measure(programs, options.rounds, pathlib.Path(folder))
    medians = {name: statistics.median(of) * 1e3 for name, of in seconds.items()}
    print(f"median of {options.rounds} turns, {turns.THREADS} threads")
    print("\n| program | ms | of onnxruntime's speed | x TVM, untuned |\n|---|---|---|---|")
    for name, ms in medians.items():
        print(f"| {name} | {ms:.2f} | {medians['onnxruntime'] / ms:.2f} | {medians['TVM, untuned'] / ms:.1f} |")


if __name__ == "__main__":
    main()
