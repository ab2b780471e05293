"""Writes the kernels of language models that TVM ships, and schedules of common operators, as modules for `cross.py`.

    ../oracle-venv/bin/python tests/oracle/llm_kernels.py > KERNELS.jsonl
    ../oracle-venv/bin/python tests/oracle/cross.py KERNELS.jsonl --lowering > NEW.jsonl
    cargo run --release -p passhost-tests --bin conformance -- passes NEW.jsonl

The kernels belong to paged key-value caches (`tvm.relax.frontend.nn.llm`), with several numbers of heads, head sizes,
data types and page sizes. The schedules come from `tvm.s_tir.dlight`, for a GPU and a CPU.
"""

import inspect
import itertools
import json
import sys

import tvm
from tvm import relax
from tvm.relax.frontend.nn.llm import _decode_kernels, _page_kernels, _prefill_kernels, tree_attn
from tvm.s_tir import dlight
from tvm.target import Target

CUDA = {"kind": "cuda", "max_num_threads": 1024, "max_threads_per_block": 1024, "max_shared_memory_per_block": 49152, "thread_warp_size": 32, "arch": "sm_80"}
CHOICES = {
    "num_kv_heads": [2, 1], "num_qo_heads": [4, 2], "num_key_value_heads": [2, 1], "num_hidden_layers": [3], "h_kv": [2, 1], "h_q": [4, 2],
    "num_heads": [4, 1], "head_dim": [16, 64], "d": [16, 64], "d_qk": [16, 64], "d_v": [16, 64], "d_latent": [64], "d_rope": [16],
    "dtype": ["float16", "float32"], "qkv_dtype": ["float16", "float32"], "v_dtype": ["float16", "float32"],
    "sliding_window": [False, True], "sliding_window_size": [-1, 8], "mask_mode": ["padded", "causal_padded_left"], "rope_scaling": [{}], "page_size": [16, 4], "causal": [0, 1], "sm_scale": [0.5],
}  # fmt: skip


def kernels():
    """Yields each kernel with a few of its parameters."""
    for module in (_decode_kernels, _page_kernels, _prefill_kernels, tree_attn):
        for name, make in inspect.getmembers(module, inspect.isfunction):
            if make.__module__ != module.__name__ or name in ("_check_tree_order",):
                continue
            parameters = inspect.signature(make).parameters
            values = [[Target(CUDA)] if one == "target" else [None] if one == "global_symbol" else CHOICES.get(one) for one in parameters]
            if None in values:
                print(f"{name}: unknown parameters {[one for one in parameters if one not in CHOICES]}", file=sys.stderr)
                continue
            for at, chosen in enumerate(zip(*(itertools.islice(itertools.cycle(of), 2) for of in values))):
                try:
                    func = make(**dict(zip(parameters, chosen)))
                except Exception as error:  # pylint: disable=broad-except
                    print(f"{name}: {str(error).splitlines()[-1] if str(error) else type(error)}", file=sys.stderr)
                    continue
                yield f"{name}.{at}", tvm.IRModule({"main": func.with_attr("global_symbol", "main")})


def operators():
    """Yields operators as PrimFuncs, and dlight's schedules of them."""
    n = tvm.tirx.Var("n", "int64")
    cases = {
        "matmul": lambda x: relax.op.matmul(x((n, 64)), x((64, 128))),
        "gemv": lambda x: relax.op.matmul(x((1, 256)), x((256, 128))),
        "gemv_t": lambda x: relax.op.matmul(x((1, 256)), relax.op.permute_dims(x((128, 256)))),
        "softmax": lambda x: relax.op.nn.softmax(x((4, n))),
        "layer_norm": lambda x: relax.op.nn.layer_norm(x((n, 64)), x((64,)), x((64,)), axes=[-1]),
        "rms_norm": lambda x: relax.op.nn.rms_norm(x((n, 64)), x((64,)), axes=[-1]),
        "sum": lambda x: relax.op.sum(x((n, 64)), axis=[1]),
        "transpose": lambda x: relax.op.permute_dims(x((n, 64))),
        "add": lambda x: relax.op.add(x((n, 64)), x((64,))),
        "silu": lambda x: relax.op.nn.silu(x((n, 64))),
        "conv": lambda x: relax.op.nn.conv2d(x((1, 8, 16, 16)), x((8, 8, 3, 3)), padding=1),
        "concat": lambda x: relax.op.concat([x((n, 8)), x((n, 8))], axis=1),
        "take": lambda x: relax.op.take(x((64, 32)), relax.Var(f"i{len(variables)}", relax.TensorType((n,), "int32")), axis=0),
        "cumsum": lambda x: relax.op.cumsum(x((4, 64)), axis=1),
    }
    for name, case in cases.items():
        for dtype in ("float32", "float16"):
            variables = []

            def tensor(shape):
                variables.append(relax.Var(f"x{len(variables)}", relax.TensorType(shape, dtype)))  # noqa: B023
                return variables[-1]  # noqa: B023

            try:
                call = case(tensor)
                found = relax.analysis.free_vars(call)
                builder = relax.BlockBuilder()
                with builder.function("main", list(found)):
                    builder.emit_func_output(builder.emit(call))
                module = relax.transform.LegalizeOps()(builder.get())
            except Exception as error:  # pylint: disable=broad-except
                print(f"{name}: {str(error).splitlines()[-1]}", file=sys.stderr)
                continue
            prims = tvm.IRModule({var: f for var, f in module.functions_items() if isinstance(f, tvm.tirx.PrimFunc)})
            yield f"{name}.{dtype}", prims
            rules = [dlight.gpu.Matmul(), dlight.gpu.GEMV(), dlight.gpu.Reduction(), dlight.gpu.GeneralReduction(), dlight.gpu.Fallback()]
            for kind, target, schedule in (("gpu", Target(CUDA), rules), ("cpu", Target("llvm"), [dlight.cpu.GEMV(), dlight.cpu.Reduction()])):
                try:
                    with target:
                        yield f"{name}.{dtype}.{kind}", dlight.ApplyDefaultSchedule(*schedule)(prims)
                except Exception as error:  # pylint: disable=broad-except
                    print(f"{name}.{kind}: {str(error).splitlines()[-1] if str(error) else type(error)}", file=sys.stderr)


def main():
    for name, module in itertools.chain(kernels(), operators()):
        print(json.dumps({"id": name, "text": module.script(show_meta=True)}), flush=True)


if __name__ == "__main__":
    main()
