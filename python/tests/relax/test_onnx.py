"""Tests the ONNX reader. The tests encode models field by field, so that they do not need `onnx`."""

import struct

import pytest

from passhost.error import PasshostError
from passhost.relax import frontend
from passhost.relax.frontend.onnx import from_onnx


def field(number, content):
    """Encodes a field of bytes, which is a string or a message."""
    content = content.encode() if isinstance(content, str) else content
    assert len(content) < 1 << 14
    return bytes([number << 3 | 2, len(content) & 127 | 128, len(content) >> 7]) + content


def number(of, value):
    """Encodes a field that is a number."""
    return bytes([of << 3, value])


def value(of, name, dims):
    """Encodes an input or a result of type float32. A string is a symbolic dimension."""
    shape = b"".join(field(1, field(2, dim) if isinstance(dim, str) else number(1, dim)) for dim in dims)
    return field(of, field(1, name) + field(2, field(1, number(1, 1) + field(2, shape))))


def node(op, inputs, output):
    return field(1, b"".join(field(1, name) for name in inputs) + field(2, output) + field(4, op))


def weight(name, values):
    data = struct.pack(f"<{len(values)}f", *values)
    return field(5, number(1, len(values)) + number(2, 1) + field(8, name) + field(9, data))


def model(version=17):
    graph = node("Add", ["x", "w"], "sum") + node("Relu", ["sum"], "y")
    graph += weight("w", [1.0, -2.0, 3.0]) + value(11, "x", ["n", 3]) + value(12, "y", ["n", 3])
    return number(1, 8) + field(8, number(2, version)) + field(7, graph)


class Proto:
    """The part of a ModelProto that the reader uses."""

    def SerializeToString(self):
        return model()


def test_a_model_bytes_and_a_file_give_the_same_module(tmp_path):
    (tmp_path / "model.onnx").write_bytes(model())
    text = from_onnx(model()).script()
    assert "R.add(x" in text and "R.nn.relu(" in text
    for form in [
        Proto(),
        bytearray(model()),
        memoryview(model()),
        tmp_path / "model.onnx",
        str(tmp_path / "model.onnx"),
    ]:
        assert from_onnx(form).script() == text


def test_shapes_and_versions_are_options():
    assert "R.Tensor((2, 3)" in from_onnx(model(), {"x": (2, 3)}).script()
    with pytest.raises(PasshostError, match="`z`, which is not an input of the model"):
        from_onnx(model(), {"z": (2, 3)})
    with pytest.raises(PasshostError, match="<model>: .*version 6 of the standard operators"):
        from_onnx(model(version=6))
    with pytest.raises(TypeError, match="a ModelProto, bytes or a path"):
        from_onnx(3)
    with pytest.warns(UserWarning, match="`dtype_dict` is not used"):
        from_onnx(model(), dtype_dict={"x": "float16"})


def test_weights_can_be_parameters_and_detached():
    mod = from_onnx(model(), keep_params_in_input=True)
    assert [param.name_hint for param in mod["main"].params] == ["x", "w"]
    assert mod["main"].attrs["num_input"] == 1
    detached, params = frontend.detach_params(mod)
    assert list(params) == ["main"]
    [values] = params["main"]
    assert values.numpy().tolist() == [1.0, -2.0, 3.0]
    assert "params" not in detached["main"].attrs and "params" in mod["main"].attrs
    assert frontend.detach_params(from_onnx(model()))[1] == {}
