# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

k = TypeVar("k")
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def plain(A: T.Buffer((4,), "float32"), n: T.int32):
        total: T.int32 = n + 1
        x = T.int32()
        A[0] = T.Let(T.Cast("float32", x * 2), where={x: total})
        total = total + 2
        with T.attr({"compute_scope": "name"}):
            for i in range(n):
                tag: T.let[T.int32] = i * total
                T.evaluate(tag)

    @T.prim_func(private=True, s_tir=True)
    def shapes(A: T.Buffer(("n", "m"), "float32"), B: T.Buffer((n, 4), "int8"), C: T.Buffer((k, "k * T.int64(2) + T.int64(1)"), "float32", strides=(k, 1), scope="shared"), rows: T.int64, D: T.Buffer((rows,), "float16", align=8)):
        n, m = T.int32(), T.int32()
        T.func_attr({"tirx.noalias": True})
        tx = T.launch_thread("threadIdx.x", 32)
        T.attr(T.comm_reducer(lambda x, y: x + y, [T.float32(0.0)]), "reduce_scope", 0)
        F = T.alloc_buffer((n * m,), "bool")
        if tx < n:
            E = T.Buffer((n, rows), scope="local")
            F[0] = E[0, 0] < T.float32(1.0)
        for i in range(m):
            A[0, i] = T.float32(-1.5) * A[1, i]
