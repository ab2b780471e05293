"""Neural network modules, as in PyTorch, which `Module.export_tvm` converts to Relax.

>>> from passhost.relax.frontend import nn
>>> class Net(nn.Module):
...     def __init__(self):
...         self.fc1 = nn.Linear(4, 8)
...         self.relu = nn.ReLU()
...     def forward(self, x):
...         return self.relu(self.fc1(x))
>>> mod, params = Net().export_tvm({"forward": {"x": nn.spec.Tensor(("n", 4), "float32")}})
>>> [name for name, _ in params]
['fc1.weight', 'fc1.bias']
>>> mod["forward"].ret_ty
R.Tensor((n, 8), dtype="float32")
"""

from __future__ import annotations

from passhost.relax.frontend.nn import op, spec
from passhost.relax.frontend.nn.core import Module, ModuleDict, ModuleList, Parameter
from passhost.relax.frontend.nn.modules import (
    GELU,
    Conv2D,
    Embedding,
    LayerNorm,
    Linear,
    ReLU,
    RMSNorm,
    SiLU,
)
from passhost.relax.frontend.nn.op import (
    Tensor,
    add,
    astype,
    broadcast_to,
    concat,
    conv2d,
    divide,
    exp,
    gelu,
    layer_norm,
    matmul,
    maximum,
    minimum,
    multiply,
    negative,
    permute_dims,
    relu,
    reshape,
    rms_norm,
    sigmoid,
    silu,
    softmax,
    sqrt,
    squeeze,
    subtract,
    sum,
    take,
    tanh,
    unsqueeze,
    wrap_nested,
)

__all__ = [
    "GELU",
    "Conv2D",
    "Embedding",
    "LayerNorm",
    "Linear",
    "Module",
    "ModuleDict",
    "ModuleList",
    "Parameter",
    "RMSNorm",
    "ReLU",
    "SiLU",
    "Tensor",
    "add",
    "astype",
    "broadcast_to",
    "concat",
    "conv2d",
    "divide",
    "exp",
    "gelu",
    "layer_norm",
    "matmul",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "op",
    "permute_dims",
    "relu",
    "reshape",
    "rms_norm",
    "sigmoid",
    "silu",
    "softmax",
    "spec",
    "sqrt",
    "squeeze",
    "subtract",
    "sum",
    "take",
    "tanh",
    "unsqueeze",
    "wrap_nested",
]
