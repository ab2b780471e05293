#!/usr/bin/env python3
"""Compares the modules that the reader and TVM's `from_onnx` make of ONNX models.

`onnx_structure.py` reads the nine image models of the `onnx` wheel (its light test models, with random weights of the
same shapes), whose import by TVM is in `models`. `onnx_structure.py FOLDER` reads all .onnx files below a folder.

Weights are parameters. Both modules are normalized in the same way: TVM's RemoveRedundantReshape runs, bindings that no
result needs are removed, and the others are sorted in the order in which a depth-first search from the results needs
them, because TVM binds a value when a later node uses it, not when its node is read. Modules are equal if TVM's `structural_equal` holds, which ignores
names. For other modules, the script prints each kind of difference once: the calls that only the reader emits, and the
calls that only TVM emits, with the number of places.
"""
import argparse, collections, difflib, glob, json, os, re, subprocess, sys, tempfile, warnings

import numpy as np
import onnx
import tvm
import tvm_ffi
from onnx import numpy_helper
from tvm import relax
from tvm.relax.frontend import detach_params
from tvm.relax.frontend.onnx import from_onnx


def with_weights(path):
    """Returns a light model of the wheel, with random weights instead of nodes that create constant weights."""
    model = onnx.load(path)
    graph, rng = model.graph, np.random.default_rng(0)
    stored = {tensor.name: tensor for tensor in graph.initializer}
    shapes, nodes, weights = set(), [], []
    for node in graph.node:
        if node.op_type == "ConstantOfShape" and node.input[0] in stored:
            shapes.add(node.input[0])
            shape = numpy_helper.to_array(stored[node.input[0]])
            weights.append(numpy_helper.from_array(rng.uniform(0.01, 0.1, shape).astype("f4"), node.output[0]))
        else:
            nodes.append(node)
    kept = [tensor for tensor in graph.initializer if tensor.name not in shapes] + weights
    inputs = [value for value in graph.input if value.name not in stored]
    for field, values in ((graph.node, nodes), (graph.input, inputs), (graph.initializer, kept)):
        del field[:]
        field.extend(values)
    return model


def nine_models(folder):
    """Writes the nine models into a folder, and returns their paths."""
    paths = []
    for light in sorted(glob.glob(f"{os.path.dirname(onnx.__file__)}/backend/test/data/light/light_*.onnx")):
        paths.append(f"{folder}/{os.path.basename(light).removeprefix('light_')}")
        onnx.save(with_weights(light), paths[-1])
    return paths


def by_tvm(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = from_onnx(onnx.load(path), keep_params_in_input=True)
    return detach_params(module)[0]


def by_passhost(path, args, folder):
    text = f"{folder}/module.py"
    command = [args.passhost, "run", path, "--from", "onnx{keep_params_in_input=true}", "--passes", "", "--inline-weights", "-o", text]
    done = subprocess.run([*command, "--manifest", args.manifest], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(" ".join(done.stderr.split())[:300])
    # The values of weights are not compared: the attribute with them is removed, and then the table of constants, unless
    # the functions use it.
    with open(text) as file:
        lines = list(file)
    start = next(at for at, line in enumerate(lines) if line.startswith("# from tvm"))
    head, body = lines[:start], "".join(lines[start:])
    body = re.sub(r', "params": \[.*\](?=\}\)$)', "", body, flags=re.MULTILINE)
    if "metadata[" in body:
        body = "".join(head) + body
    return tvm.script.from_source(body)


def operands(value):
    """Returns the variables that the value of a binding uses."""
    found = []
    relax.analysis.post_order_visit(value, lambda e: found.append(e) if isinstance(e, relax.Var) else None)
    return found


def sorted_function(function):
    """Returns the function with one block, whose bindings are sorted and needed by the result."""
    bindings = [binding for block in function.body.blocks for binding in block.bindings]
    makers = {binding.var: binding for binding in bindings}
    ordered, seen = [], set()
    stack = [(var, False) for var in reversed(operands(function.body.body))]
    while stack:
        var, done = stack.pop()
        if var not in makers or (var in seen and not done):
            continue
        if done:
            ordered.append(makers[var])
            continue
        seen.add(var)
        value = makers[var].value
        stack.append((var, True))
        stack.extend((operand, False) for operand in reversed(operands(value)))
    kind = type(function.body.blocks[0])
    body = relax.SeqExpr([kind(ordered)], function.body.body)
    attrs = {key: value for key, value in (function.attrs or {}).items() if key != "params"}
    made = relax.Function(function.params, body, function.ret_ty, function.is_pure, tvm.ir.make_node("ir.DictAttrs", **attrs))
    return made, ordered


def described(ordered):
    """Returns a text for each binding that does not depend on names."""
    texts = []
    for binding in ordered:
        text = re.sub(r"\b(lv|gv)\d*\b", "_", str(binding.value))
        names = {re.sub(r"\W", "_", var.name) for var in operands(binding.value)}
        for name in sorted(names, key=len, reverse=True):
            text = re.sub(rf"(?<![\w.]){re.escape(name)}\b", "_", text)
        texts.append(text)
    return texts


def differences(ours, theirs):
    """Returns the number of places for each kind of difference. Numbers in shapes are not part of the kind."""
    kinds = collections.Counter()
    plain = lambda texts: " ; ".join(re.sub(r"R\.shape\(\[[^]]*\]\)", "R.shape(..)", text) for text in texts) or "nothing"
    for tag, a, b, c, d in difflib.SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        if tag != "equal":
            kinds[(plain(ours[a:b]), plain(theirs[c:d]))] += 1
    return kinds


def compare(path, args, folder):
    theirs, ours = by_tvm(path), by_passhost(path, args, folder)
    tidy = relax.transform.RemoveRedundantReshape()
    theirs, ours = (sorted_function(tidy(module)["main"]) for module in (theirs, ours))
    equal = tvm_ffi.structural_equal(ours[0], theirs[0])
    record = {"model": os.path.basename(path), "equal": bool(equal), "bindings": [len(ours[1]), len(theirs[1])]}
    if equal:
        return record, collections.Counter()
    shape = lambda function: [str(param.ty) for param in function.params]
    kinds = differences(described(ours[1]), described(theirs[1]))
    if shape(ours[0]) != shape(theirs[0]):
        kinds[(f"{len(ours[0].params)} parameters", f"{len(theirs[0].params)} parameters")] += 1
    if not kinds:
        try:
            tvm.ir.assert_structural_equal(ours[0], theirs[0])
        except ValueError as error:
            kinds[(str(error).splitlines()[1], "")] += 1
    return record, kinds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", help="a folder with models; default: the nine models of the wheel")
    parser.add_argument("--passhost", default="target/release/passhost")
    parser.add_argument("--manifest", default="passes.toml")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = nine_models(folder) if args.folder is None else sorted(
            os.path.join(at, name) for at, _, names in os.walk(args.folder) for name in names if name.endswith(".onnx"))
        tried = n_equal = 0
        total = collections.Counter()
        for path in paths:
            if args.only not in path:
                continue
            try:
                record, kinds = compare(path, args, folder)
            except Exception as why:  # one of the importers refuses the model
                print(json.dumps({"model": os.path.basename(path), "error": str(why)[:200]}), flush=True)
                continue
            tried, n_equal = tried + 1, n_equal + record["equal"]
            print(json.dumps({**record, "kinds": len(kinds)}), flush=True)
            total.update(kinds)
        print(f"{n_equal} of {tried} models are equal")
        for (ours, theirs), count in total.most_common():
            print(f"{count} x\n  passhost: {ours[:600]}\n  TVM:      {theirs[:600]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
