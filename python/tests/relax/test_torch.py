"""Tests the reading of PyTorch's archives, which are written by hand, so that `torch` is not needed."""

import io
import json
import struct
import sys
import types
import zipfile

import pytest

import passhost
from passhost.error import PasshostError
from passhost.relax import frontend
from passhost.relax.frontend.torch import from_exported_program


def tensor(name):
    return {"as_tensor": {"name": name}}


def meta(*sizes):
    sizes = [{"as_int": size} if isinstance(size, int) else {"as_expr": {"expr_str": size}} for size in sizes]
    return {
        "dtype": 7,
        "sizes": sizes,
        "requires_grad": False,
        "device": {"type": "cpu", "index": None},
        "strides": [{"as_int": 1}] * len(sizes),
        "storage_offset": {"as_int": 0},
        "layout": 7,
    }


def archive(major=8):
    """Returns `relu(x + w)`."""

    def node(op, first, second, result):
        given = {"self": first} | ({"other": second} if second else {})
        inputs = [{"name": name, "arg": tensor(value), "kind": 1} for name, value in given.items()]
        return {"target": f"torch.ops.aten.{op}", "inputs": inputs, "outputs": [tensor(result)], "metadata": {}}

    values = {name: meta("s0", 3) for name in ["x", "sum_1", "y"]} | {"p_w": meta(3)}
    graph = {
        "inputs": [tensor("p_w"), tensor("x")],
        "outputs": [tensor("y")],
        "nodes": [node("add.Tensor", "x", "p_w", "sum_1"), node("relu.default", "sum_1", None, "y")],
        "tensor_values": values,
    }
    specs = [{"parameter": {"arg": {"name": "p_w"}, "parameter_name": "w"}}, {"user_input": {"arg": tensor("x")}}]
    signature = {"input_specs": specs, "output_specs": [{"user_output": {"arg": tensor("y")}}]}
    program = {"graph_module": {"graph": graph, "signature": signature}, "schema_version": {"major": major, "minor": 1}}
    config = {"config": {"w": {"path_name": "weight_0", "is_param": True, "use_pickle": False, "tensor_meta": meta(3)}}}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as out:
        out.writestr("model/archive_format", "pt2")
        out.writestr("model/models/model.json", json.dumps(program))
        out.writestr("model/data/weights/model_weights_config.json", json.dumps(config))
        out.writestr("model/data/weights/weight_0", struct.pack("<3f", 1.0, -2.0, 3.0))
    return file.getvalue()


def test_bytes_and_a_file_give_the_same_module(tmp_path):
    path = tmp_path / "model.pt2"
    path.write_bytes(archive())
    text = from_exported_program(archive()).script()
    assert "R.add(x" in text and "R.Tensor((s0, 3)" in text
    for form in [bytearray(archive()), memoryview(archive()), path, str(path)]:
        assert from_exported_program(form).script() == text
    assert passhost.load_model(path).script() == text


def test_results_are_a_tuple_unless_it_is_unwrapped():
    assert "R.Tuple(" in from_exported_program(archive()).script()
    assert "R.Tuple(" not in from_exported_program(archive(), unwrap_unit_return_tuple=True).script()
    # The dataflow block returns the results, and the tuple follows it.
    after = from_exported_program(archive(), no_bind_return_tuple=True).script().split("R.output(gv)")[1]
    assert "= (gv,)" in after


def test_parameters_can_be_kept_and_detached():
    mod = from_exported_program(archive(), keep_params_as_input=True)
    assert [param.name_hint for param in mod["main"].params] == ["x", "p_w"]
    assert mod["main"].attrs["num_input"] == 1
    detached, params = frontend.detach_params(mod)
    [values] = params["main"]
    assert values.numpy().tolist() == [1.0, -2.0, 3.0]
    assert "params" not in detached["main"].attrs


def test_a_program_in_memory_is_saved(monkeypatch):
    class ExportedProgram:
        decomposed = False

        def run_decompositions(self):
            self.decomposed = True
            return self

    saved = []

    def save(program, file):
        saved.append(program.decomposed)
        file.write(archive())

    export = types.SimpleNamespace(ExportedProgram=ExportedProgram, save=save)
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(export=export))
    text = from_exported_program(archive()).script()
    assert from_exported_program(ExportedProgram()).script() == text
    assert from_exported_program(ExportedProgram(), run_ep_decomposition=False).script() == text
    assert saved == [True, False]


def test_other_programs_are_refused():
    with pytest.raises(TypeError, match="an ExportedProgram, bytes or a path"):
        from_exported_program(3)
    with pytest.raises(PasshostError, match="version 7 of the schema"):
        from_exported_program(archive(major=7))
    with pytest.raises(NotImplementedError, match="custom_convert_map"):
        from_exported_program(archive(), custom_convert_map={"aten.x": None})
