"""Networks for `fresh.py`, written with TVM's `relax.frontend.nn`, and the node models from the `onnx` wheel.

Each network is a function of a random generator and a target, and returns an IRModule.
"""

import math

import tvm
from tvm import relax, te, tirx
from tvm.relax.frontend import nn
from tvm.relax.frontend.nn import op, spec
from tvm.relax.frontend.nn.llm.kv_cache import PagedKVCache, RopeMode, TIRPagedKVCache

FLOATS = ["float32", "float16", "float32", "float16", "bfloat16"]


def exported(network, methods):
    """Returns the IRModule of a network; `methods` maps each method to the specification of its arguments."""
    return network.export_tvm(spec=methods)[0]


class CachedBlock(nn.Module):
    """One or two layers of attention over a paged KV cache, each with a gated feed-forward network."""

    def __init__(self, layers, heads, kv_heads, head_dim, dtype):
        self.shape = (layers, heads, kv_heads, head_dim)
        self.dtype = dtype
        hidden = heads * head_dim
        self.norms = nn.ModuleList([nn.RMSNorm(hidden, -1, bias=False) for _ in range(layers)])
        self.qkv = nn.ModuleList([nn.Linear(hidden, (heads + 2 * kv_heads) * head_dim, bias=False) for _ in range(layers)])
        self.out = nn.ModuleList([nn.Linear(hidden, hidden, bias=False) for _ in range(layers)])
        self.gate = nn.ModuleList([nn.Linear(hidden, 4 * hidden, bias=False) for _ in range(layers)])
        self.down = nn.ModuleList([nn.Linear(2 * hidden, hidden, bias=False) for _ in range(layers)])

    def forward(self, x: nn.Tensor, cache: PagedKVCache):
        layers, heads, kv_heads, head_dim = self.shape
        for i in range(layers):
            b, s, _ = x.shape
            qkv = op.reshape(self.qkv[i](self.norms[i](x)), (b, s, heads + 2 * kv_heads, head_dim))
            attended = cache.attention_with_fused_qkv(i, qkv, heads, sm_scale=head_dim**-0.5)
            x = x + self.out[i](op.reshape(attended, (b, s, heads * head_dim)))
            gate, up = op.split(self.gate[i](x), 2, axis=-1)
            x = x + self.down[i](op.silu(gate) * up)
        return x

    def prefill(self, x: nn.Tensor, cache: PagedKVCache):
        return self.forward(x, cache), cache

    def decode(self, x: nn.Tensor, cache: PagedKVCache):
        return self.forward(x, cache), cache

    def create_cache(
        self,
        max_batch_size: tirx.Var,
        max_total_seq_len: tirx.Var,
        prefill_chunk_size: tirx.Var,
        page_size: tirx.Var,
        support_sliding_window: tirx.Var,
    ):
        layers, heads, kv_heads, head_dim = self.shape
        return TIRPagedKVCache(
            attn_kind="mha",
            max_batch_size=max_batch_size,
            max_total_seq_len=max_total_seq_len,
            prefill_chunk_size=prefill_chunk_size,
            page_size=page_size,
            support_sliding_window=support_sliding_window,
            layer_partition=relax.ShapeExpr([0, layers]),
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=kv_heads,
            qk_head_dim=head_dim,
            v_head_dim=head_dim,
            mla_original_qk_head_dim=head_dim,
            mla_original_v_head_dim=head_dim,
            rope_mode=self.rope_mode,
            rope_scale=1,
            rope_theta=10000,
            rope_scaling=self.rope_scaling,
            rope_ext_factors=relax.op.zeros((), "float32"),
            rotary_dim=head_dim,
            enable_disaggregation=False,
            dtype=self.dtype,
            target=self.target,
        )


def paged_cache(random, target):
    kv_heads = random.choice([1, 2, 4])
    network = CachedBlock(random.choice([1, 2]), kv_heads * random.choice([1, 2, 4]), kv_heads, random.choice([32, 64]), random.choice(["float16", "float32"]))
    network.rope_mode = random.choice([RopeMode.NORMAL, RopeMode.INLINE, RopeMode.NONE])
    llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
    network.rope_scaling = random.choice([{}, llama3])
    network.target = target
    network.to(network.dtype)
    hidden = network.shape[1] * network.shape[3]
    cache = spec.Object(object_type=PagedKVCache)
    methods = {
        "prefill": {"x": spec.Tensor([1, "seq_len", hidden], network.dtype), "cache": cache},
        "decode": {"x": spec.Tensor(["batch", 1, hidden], network.dtype), "cache": cache},
        "create_cache": dict.fromkeys(["max_batch_size", "max_total_seq_len", "prefill_chunk_size", "page_size", "support_sliding_window"], int),
    }
    return exported(network, methods)


class Attention(nn.Module):
    """Attention composed of basic operators, with grouped heads, a mask, a window, or a bias."""

    def __init__(self, heads, kv_heads, head_dim, kind):
        self.sizes, self.kind = (heads, kv_heads, head_dim), kind
        hidden = heads * head_dim
        self.q, self.k = nn.Linear(hidden, hidden, bias=kind == "bias"), nn.Linear(hidden, kv_heads * head_dim)
        self.v, self.o = nn.Linear(hidden, kv_heads * head_dim), nn.Linear(hidden, hidden, bias=False)
        self.norm = nn.LayerNorm(hidden)

    def forward(self, x: nn.Tensor, mask: nn.Tensor):
        heads, kv_heads, head_dim = self.sizes
        b, s, _ = x.shape
        y = self.norm(x)
        q = op.reshape(self.q(y), (b, s, heads, head_dim))
        k = op.reshape(self.k(y), (b, s, kv_heads, head_dim))
        v = op.reshape(self.v(y), (b, s, kv_heads, head_dim))
        if heads != kv_heads:
            k, v = op.repeat(k, heads // kv_heads, axis=2), op.repeat(v, heads // kv_heads, axis=2)
        if self.kind == "fused":
            attended = op.scaled_dot_product_attention(q, k, v, is_causal=True)
            return x + self.o(op.reshape(attended, (b, s, heads * head_dim)))
        q, k, v = (op.permute_dims(part, [0, 2, 1, 3]) for part in (q, k, v))
        scores = op.matmul(q, op.permute_dims(k, [0, 1, 3, 2])) / math.sqrt(head_dim)
        if self.kind == "triangle":
            scores = op.triu(scores, diagonal=1)
        scores = op.maximum(op.minimum(scores, mask), op.full(scores.shape, -1e4, dtype=x.dtype))
        weights = op.astype(op.softmax(op.astype(scores, "float32"), axis=-1), x.dtype)
        attended = op.permute_dims(op.matmul(weights, v), [0, 2, 1, 3])
        return x + self.o(op.reshape(attended, (b, s, heads * head_dim)))


def attention(random, target):
    kv_heads, head_dim, dtype = random.choice([1, 2, 3]), random.choice([8, 16, 20]), random.choice(FLOATS)
    heads = kv_heads * random.choice([1, 2])
    network = Attention(heads, kv_heads, head_dim, random.choice(["plain", "bias", "fused", "triangle"]))
    network.to(dtype)
    s = random.choice(["n", 16, 33])
    b = random.choice(["b", 1, 2])
    return exported(network, {"forward": {"x": spec.Tensor([b, s, heads * head_dim], dtype), "mask": spec.Tensor([b, 1, s, s], dtype)}})


class PlainCache(nn.Module):
    """Attention over an `nn.KVCache`, an effect that is threaded through the function."""

    def __init__(self, heads, head_dim):
        self.sizes = (heads, head_dim)
        self.keys, self.values = nn.KVCache(32, [heads, head_dim]), nn.KVCache(32, [heads, head_dim])
        self.qkv = nn.Linear(heads * head_dim, 3 * heads * head_dim)

    def forward(self, x: nn.Tensor, total: tirx.Var):
        heads, head_dim = self.sizes
        b, s, _ = x.shape
        q, k, v = op.split(op.reshape(self.qkv(x), (b, s, 3 * heads, head_dim)), 3, axis=2)
        self.keys.append(op.squeeze(k, axis=0))
        self.values.append(op.squeeze(v, axis=0))
        k = op.reshape(self.keys.view(total), (1, total, heads, head_dim))
        v = op.reshape(self.values.view(total), (1, total, heads, head_dim))
        scores = op.matmul(op.permute_dims(q, [0, 2, 1, 3]), op.permute_dims(k, [0, 2, 3, 1]))
        return op.matmul(op.softmax(scores), op.permute_dims(v, [0, 2, 1, 3]))


def plain_cache(random, target):
    network = PlainCache(random.choice([1, 4]), random.choice([8, 32]))
    hidden = network.sizes[0] * network.sizes[1]
    return network.export_tvm(spec={"forward": {"x": spec.Tensor([1, "s", hidden], "float32"), "total": int}}, debug=random.random() < 0.5)[0]


class Quantized(nn.Module):
    """A layer with weights packed into 32-bit words, and a scale for each group."""

    def __init__(self, inputs, outputs, bits, group, dtype):
        self.facts = (inputs, outputs, bits, group, dtype)
        self.weight = nn.Parameter([outputs, inputs * bits // 32], "uint32")
        self.scale = nn.Parameter([outputs, inputs // group], dtype)
        self.bias = nn.Parameter([outputs], dtype)

    def forward(self, x: nn.Tensor):
        inputs, outputs, bits, group, dtype = self.facts
        per_word, mask = 32 // bits, (1 << bits) - 1

        def unpack(weight, scale):
            def element(i, j):
                word = weight[i, j // per_word] >> ((j % per_word) * bits).astype("uint32")
                whole = tirx.bitwise_and(word, tirx.const(mask, "uint32")).astype(dtype)
                return (whole - tirx.const(1 << (bits - 1), dtype)) * scale[i, j // group]

            return te.compute((outputs, inputs), element, name="unpacked")

        weight = op.tensor_expr_op(unpack, "unpack", [self.weight, self.scale])
        return op.relu(op.matmul(x, op.permute_dims(weight)) + self.bias)


def quantized(random, target):
    dtype = random.choice(FLOATS)
    network = Quantized(random.choice([64, 128]), random.choice([32, 96]), random.choice([2, 4, 8]), random.choice([16, 32]), dtype)
    rows = random.choice([1, 7, "n", "n"])
    return exported(network, {"forward": {"x": spec.Tensor([rows, network.facts[0]], dtype)}})


class EightBit(nn.Module):
    """An 8-bit integer matrix product with a scale for each row, as in dynamic quantization."""

    def __init__(self, inputs, outputs, dtype):
        self.facts = (inputs, outputs, dtype)
        self.weight, self.scale = nn.Parameter([outputs, inputs], "int8"), nn.Parameter([outputs], dtype)

    def forward(self, x: nn.Tensor):
        _, _, dtype = self.facts
        top = op.max(op.maximum(x, op.negative(x)), axis=-1, keepdims=True)
        small = op.astype(op.floor(x / top * 127.0), "int8")
        product = op.matmul(small, op.permute_dims(self.weight), out_dtype="int32")
        return op.astype(product, dtype) * self.scale * top


def eight_bit(random, target):
    dtype = random.choice(["float32", "float16"])
    network = EightBit(random.choice([32, 48]), random.choice([16, 40]), dtype)
    return exported(network, {"forward": {"x": spec.Tensor([random.choice(["n", 1, 12]), network.facts[0]], dtype)}})


class Convolutions(nn.Module):
    """Residual convolution blocks with group normalization, followed by resampling."""

    def __init__(self, channels, kernel, depth, kind):
        self.kind = kind
        conv = {1: nn.Conv1D, 2: nn.Conv2D, 3: nn.Conv3D}[kind]
        self.first = conv(3, channels, kernel, stride=2, padding=kernel // 2)
        self.layers = nn.ModuleList([conv(channels, channels, kernel, padding=kernel // 2, groups=1 + i % 2, bias=i % 2 == 0) for i in range(depth)])
        self.norms = nn.ModuleList([nn.GroupNorm(2, channels) for _ in range(depth)])
        self.back = nn.ConvTranspose1D(channels, 4, 3, stride=2) if kind == 1 else None

    def forward(self, x: nn.Tensor):
        x = self.first(x)
        for layer, norm in zip(self.layers, self.norms):
            x = op.relu(norm(layer(x), channel_axis=1, axes=list(range(2, self.kind + 2)))) + x
        if self.back is not None:
            x = self.back(x)
        if self.kind == 2:
            x = op.interpolate(x, scale_factor=2, mode="nearest")
        return op.sigmoid(x)


def convolutions(random, target):
    kind = random.choice([1, 2, 2, 2, 3])
    network = Convolutions(random.choice([4, 8]), random.choice([1, 3]), random.choice([1, 3]), kind)
    dtype = random.choice(["float32", "float16"])
    network.to(dtype)
    batch = random.choice([1, 2, "n"])
    sides = [random.choice([9, 16]) for _ in range(kind)]
    if kind == 2 and random.random() < 0.3:
        sides = ["h", "w"]
    return exported(network, {"forward": {"x": spec.Tensor([batch, 3, *sides], dtype)}})


class Recurrent(nn.Module):
    """LSTM or GRU cells, unrolled over a few steps."""

    def __init__(self, inputs, hidden, steps, gated):
        self.facts = (hidden, steps, gated)
        gates = 3 if gated else 4
        self.from_input, self.from_state = nn.Linear(inputs, gates * hidden), nn.Linear(hidden, gates * hidden)

    def lstm(self, x, h, c):
        i, f, g, o = op.split(self.from_input(x) + self.from_state(h), 4, axis=-1)
        c = op.sigmoid(f) * c + op.sigmoid(i) * op.tanh(g)
        return op.sigmoid(o) * op.tanh(c), c

    def gru(self, x, h):
        r, z, n = op.split(self.from_input(x), 3, axis=-1)
        hr, hz, hn = op.split(self.from_state(h), 3, axis=-1)
        n = op.tanh(n + op.sigmoid(r + hr) * hn)
        return n + op.sigmoid(z + hz) * (h - n)

    def forward(self, x: nn.Tensor, h: nn.Tensor, c: nn.Tensor):
        _, steps, gated = self.facts
        outputs = []
        for part in op.split(x, steps, axis=1):
            part = op.squeeze(part, axis=1)
            if gated:
                h = self.gru(part, h)
            else:
                h, c = self.lstm(part, h, c)
            outputs.append(op.unsqueeze(h, 1))
        return op.concat(outputs, dim=1), h, c


def recurrent(random, target):
    inputs, hidden, steps, dtype = random.choice([4, 12]), random.choice([8, 16]), random.choice([2, 3]), random.choice(FLOATS)
    network = Recurrent(inputs, hidden, steps, random.random() < 0.5)
    network.to(dtype)
    batch = random.choice([1, 3, "b"])
    state = spec.Tensor([batch, hidden], dtype)
    return exported(network, {"forward": {"x": spec.Tensor([batch, steps, inputs], dtype), "h": state, "c": state}})


LOOP = """
# from tvm.script import ir as I
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def step(i: R.Tensor((), dtype="int64"), x: R.Tensor(({n}, {size}), dtype="{dtype}"), w: R.Tensor(({size}, {size}), dtype="{dtype}"), h: R.Tensor(({size},), dtype="{dtype}")) -> R.Tensor(({size},), dtype="{dtype}"):
        {declared}
        cls = Module
        more: R.Tensor((), dtype="bool") = R.less(i, R.const({steps}, "int64"))
        if more:
            row: R.Tensor(({size},), dtype="{dtype}") = R.take(x, i, axis=0)
            product: R.Tensor(({size},), dtype="{dtype}") = R.matmul(h, w)
            added = R.add(row, product)
            state = R.{activation}(added)
            following: R.Tensor((), dtype="int64") = R.add(i, R.const(1, "int64"))
            deeper: R.Tensor(({size},), dtype="{dtype}") = cls.step(following, x, w, state)
            result: R.Tensor(({size},), dtype="{dtype}") = deeper
        else:
            result: R.Tensor(({size},), dtype="{dtype}") = h
        return result

    @R.function
    def main(x: R.Tensor(({n}, {size}), dtype="{dtype}"), w: R.Tensor(({size}, {size}), dtype="{dtype}")) -> R.Tensor(({size},), dtype="{dtype}"):
        {declared}
        cls = Module
        start: R.Tensor(({size},), dtype="{dtype}") = R.zeros(R.shape([{size}]), dtype="{dtype}")
        last: R.Tensor(({size},), dtype="{dtype}") = cls.step(R.const(0, "int64"), x, w, start)
        return last
"""


def loop(random, target):
    """Returns a recurrent network as a Relax function that calls itself."""
    n = random.choice(["n", "6"])
    facts = {"n": "\"n\"" if n == "n" else n, "declared": "n = T.int64()" if n == "n" else "", "size": random.choice([4, 8]), "steps": 6}
    facts |= {"dtype": random.choice(["float32", "float16"]), "activation": random.choice(["tanh", "sigmoid", "nn.relu"])}
    header = "# from tvm.script import tirx as T" if n == "n" else ""
    return tvm.script.from_source(header + LOOP.format(**facts))


class Sampler(nn.Module):
    """The sampling stage of a language model: sorting, sums, top k, and random sampling."""

    def forward(self, logits: nn.Tensor, uniform: nn.Tensor):
        probabilities = op.softmax(logits, axis=-1)
        values, indices = op.topk(probabilities, k=4, axis=-1, ret_type="both")
        ordered = op.sort(probabilities, axis=-1, descending=True)
        sums = op.cumsum(ordered, axis=1)
        order = op.argsort(probabilities, axis=-1)
        return values, indices, sums, order, op.where(op.less(sums, uniform), ordered, op.zeros(ordered.shape))


def sampler(random, target):
    batch, size = random.choice(["b", 1, 3]), random.choice([32, 100])
    return exported(Sampler(), {"forward": {"logits": spec.Tensor([batch, size], "float32"), "uniform": spec.Tensor([batch, 1], "float32")}})


class Chain(nn.Module):
    """A random chain of operators over tensors of one shape."""

    UNARY = ["relu", "silu", "gelu", "sigmoid", "tanh", "exp", "negative", "square", "sqrt", "floor", "relu6", "softplus"]
    BINARY = ["add", "subtract", "multiply", "maximum", "minimum", "divide"]

    def __init__(self, random, size):
        self.steps = []
        for _ in range(random.randrange(4, 16)):
            kind = random.choice(["unary", "unary", "binary", "binary", "scalar", "softmax", "sum", "norm", "turn", "pad", "take", "chunk", "where"])
            self.steps.append((kind, random.choice(self.UNARY), random.choice(self.BINARY), random.random(), random.choice([1, 2, 0.5])))
        self.norm = nn.RMSNorm(size, -1)
        self.size = size

    def forward(self, x: nn.Tensor, y: nn.Tensor, index: nn.Tensor):
        values = [x, y]
        for kind, unary, binary, at, number in self.steps:
            a, b = values[-1], values[int(at * len(values))]
            rows = a.shape[0]
            make = {
                "unary": lambda: getattr(op, unary)(a),
                "binary": lambda: getattr(op, binary)(a, b),
                "scalar": lambda: a * number + 1.5,
                "softmax": lambda: op.softmax(a, axis=-1),
                "sum": lambda: a - op.sum(b, axis=[-1], keepdims=True),
                "norm": lambda: self.norm(a),
                "turn": lambda: op.permute_dims(op.reshape(op.permute_dims(a), (self.size, rows)), [1, 0]),
                "pad": lambda: op.sum(op.reshape(op.concat([a, b], dim=0), (2, rows, self.size)), axis=[0]),
                "take": lambda: op.take(a, index, axis=0),
                "chunk": lambda: op.concat(list(reversed(op.chunk(a, 2, dim=1))), dim=1),
                "where": lambda: op.where(op.greater(a, b), a, b),
            }[kind]
            values.append(make())
        return values[-1], values[-2]


def chain(random, target):
    rows, size, dtype = random.choice(["n", "n", 5, 16]), random.choice([6, 16]), random.choice(FLOATS)
    network = Chain(random, size)
    network.to(dtype)
    tensor = spec.Tensor([rows, size], dtype)
    return exported(network, {"forward": {"x": tensor, "y": tensor, "index": spec.Tensor([rows], "int32")}})


NETWORKS = {
    "paged_cache": paged_cache,
    "attention": attention,
    "plain_cache": plain_cache,
    "quantized": quantized,
    "eight_bit": eight_bit,
    "convolutions": convolutions,
    "recurrent": recurrent,
    "loop": loop,
    "sampler": sampler,
    "chain": chain,
}


def onnx_names():
    """Returns the names of the node models in the `onnx` wheel."""
    return sorted(onnx_models())


def onnx_models():
    """Returns the node models by name; the wheel creates them on demand."""
    import warnings

    from onnx.backend.test.case.node import collect_testcases

    if not hasattr(onnx_models, "known"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            onnx_models.known = {case.name: case.model for case in collect_testcases(None) if case.model is not None}
    return onnx_models.known


def onnx_module(name):
    """Returns the module that TVM imports from a node model."""
    from tvm.relax.frontend.onnx import from_onnx

    return from_onnx(onnx_models()[name], keep_params_in_input=True)
