"""Tests neural network modules and their exports."""

import numpy as np
import pytest

import passhost
from passhost.relax.frontend import nn


class Layers(nn.Module):
    def __init__(self):
        self.emb = nn.Embedding(10, 6)
        self.fc1 = nn.Linear(6, 4)
        self.relu = nn.ReLU()
        self.ln = nn.LayerNorm(4)
        self.rms = nn.RMSNorm(4, -1, bias=False)
        self.gelu, self.silu = nn.GELU(), nn.SiLU()
        self.layers = nn.ModuleList([nn.Linear(4, 4, bias=False) for _ in range(2)])

    def forward(self, x):
        x = self.rms(self.ln(self.relu(self.fc1(self.emb(x)))))
        return self.layers(self.silu(self.gelu(x)))


# The result of exporting the same class in TVM 0.27.
EXPORTED = """
@I.ir_module
class Module:
    @R.function
    def forward(
        x: R.Tensor(("n",), "int32"), emb_weight: R.Tensor((10, 6), "float32"), fc1_weight: R.Tensor((4, 6), "float32"),
        fc1_bias: R.Tensor((4,), "float32"), ln_weight: R.Tensor((4,), "float32"), ln_bias: R.Tensor((4,), "float32"),
        rms_weight: R.Tensor((4,), "float32"), layers_0_weight: R.Tensor((4, 4), "float32"),
        layers_1_weight: R.Tensor((4, 4), "float32")
    ) -> R.Tensor(("n", 4), "float32"):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            take = R.take(emb_weight, x, axis=0, mode="fast")
            permute_dims = R.permute_dims(fc1_weight, axes=None)
            matmul = R.matmul(take, permute_dims, out_dtype=None)
            add = R.add(matmul, fc1_bias)
            relu = R.nn.relu(add)
            layer_norm = R.nn.layer_norm(relu, ln_weight, ln_bias, axes=[-1], epsilon=1.0000000000000001e-05)
            rms_norm = R.nn.rms_norm(layer_norm, rms_weight, axes=[-1], epsilon=1.0000000000000001e-05)
            gelu = R.nn.gelu(rms_norm)
            silu = R.nn.silu(gelu)
            permute_dims1 = R.permute_dims(layers_0_weight, axes=None)
            matmul1 = R.matmul(silu, permute_dims1, out_dtype=None)
            permute_dims2 = R.permute_dims(layers_1_weight, axes=None)
            matmul2 = R.matmul(matmul1, permute_dims2, out_dtype=None)
            gv = matmul2
            R.output(gv)
        return gv
"""


def test_layers_export_what_tvm_exports():
    mod, params = Layers().export_tvm({"forward": {"x": nn.spec.Tensor(("n",), "int32")}})
    passhost.ir.assert_structural_equal(mod, passhost.script.from_source(EXPORTED))
    names = "emb.weight fc1.weight fc1.bias ln.weight ln.bias rms.weight layers.0.weight layers.1.weight"
    assert [name for name, _ in params] == names.split()
    x = np.array([1, 3, 3], "int32")
    weights = [np.random.default_rng(1).standard_normal(param.shape).astype(param.dtype) for _, param in params]
    rows = passhost.exec(mod, x, *weights, function="forward").numpy()
    assert rows.shape == (3, 4)
    np.testing.assert_array_equal(rows[1], rows[2])
    assert not np.array_equal(rows[0], rows[1])


def test_a_convolution_adds_its_bias_to_each_channel():
    class Net(nn.Module):
        def __init__(self):
            self.c = nn.Conv2D(2, 3, 1, padding=1)

        def forward(self, x):
            return self.c(x) * 2.0

    mod, params = Net().export_tvm({"forward": {"x": nn.spec.Tensor((1, 2, 3, 3), "float32")}})
    weight, bias = (np.arange(np.prod(param.shape), dtype="float32").reshape(param.shape) for _, param in params)
    x = np.ones((1, 2, 3, 3), "float32")
    result = passhost.exec(mod, x, weight, bias, function="forward").numpy()
    assert result.shape == (1, 3, 5, 5)
    np.testing.assert_array_equal(result[0, :, 0, 0], 2 * bias)
    np.testing.assert_array_equal(result[0, :, 2, 2], 2 * (weight.sum((1, 2, 3)) + bias))


def test_methods_and_tuples():
    class Net(nn.Module):
        def __init__(self):
            self.w = nn.Parameter((2,))

        def pair(self, xs):
            a, b = xs
            return a + self.w, (b - 1.0, nn.concat([a, b], 0))

        def one(self, x):
            return 1.0 / x

    two = nn.spec.Tensor((2,), "float32")
    net = Net()
    net.load_state_dict({"w": np.array([5, 6], "float32")})
    mod, _ = net.export_tvm({"pair": {"xs": (two, two)}, "one": {"x": two}})
    a, b = np.array([1, 2], "float32"), np.array([3, 4], "float32")
    first, (second, third) = passhost.exec(mod, a, b, net.w.data, function="pair")
    np.testing.assert_array_equal(first.numpy(), [6, 8])
    np.testing.assert_array_equal(second.numpy(), [2, 3])
    np.testing.assert_array_equal(third.numpy(), [1, 2, 3, 4])
    np.testing.assert_array_equal(passhost.exec(mod, a, net.w.data, function="one").numpy(), [1, 0.5])


def test_errors():
    two = nn.spec.Tensor((2,), "float32")
    with pytest.raises(AttributeError, match="Layers lacks the method 'forwards'"):
        Layers().export_tvm({"forwards": {}})
    with pytest.raises(TypeError, match="described by nn.spec.Tensor"):
        Layers().export_tvm({"forward": {"x": 3}})
    with pytest.raises(ValueError, match="call Module.export_tvm"):
        nn.relu(nn.Parameter((2,)))
    with pytest.raises(KeyError, match="missing"):
        nn.Linear(2, 2).load_state_dict({})
    with pytest.raises(ValueError, match="the values have shape"):
        nn.Linear(2, 2).weight.data = np.ones((2, 3), "float32")

    class Wrong(nn.Module):
        def forward(self, x):
            return 3

    with pytest.raises(TypeError, match="returns tensors"):
        Wrong().export_tvm({"forward": {"x": two}})
    with pytest.raises(TypeError, match="a dimension"):
        nn.spec.Tensor((2.5,), "float32")
