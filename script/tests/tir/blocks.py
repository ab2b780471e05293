# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

m = TypeVar("m")
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def matmul(A: T.Buffer((m, T.int64(128)), "float32"), B: T.Buffer((T.int64(128), T.int64(64)), "float32"), C: T.Buffer((m, T.int64(64)), "float32")):
        T.func_attr({"op_pattern": 4, "tirx.noalias": True})
        # with T.sblock("root"):
        D = T.sblock_alloc_buffer((m, T.int64(64)), scope="shared")
        for i, j, k in T.grid(m, T.int64(64), T.int64(128)):
            with T.sblock("matmul"):
                v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                T.reads(A[v_i, v_k], B[v_k, v_j])
                T.writes(D[v_i, v_j])
                T.sblock_attr({"axis": 0, "layout_free_placeholders": [B], "name": "text"})
                with T.init():
                    D[v_i, v_j] = T.float32(0.0)
                D[v_i, v_j] = D[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
        for i_0, j, i_1 in T.grid(m // T.int64(4), T.int64(64), T.int64(4)):
            with T.sblock("scale"):
                v_i = T.axis.spatial(m, i_0 * T.int64(4) + i_1)
                v_j = T.axis.opaque(T.int64(64), j)
                T.where(i_0 * T.int64(4) + i_1 < m)
                T.reads(D[v_i, v_j:v_j + T.int64(4)])
                T.writes(C[v_i, T.int64(0):T.int64(64)])
                C[v_i, v_j] = D[v_i, v_j] * T.float32(2.0)

    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16,), "float16")):
        # with T.sblock("root"):
        for i in range(4):
            with T.sblock("rows"):
                v_i = T.axis.spatial(4, i)
                T.reads()
                T.writes(A[v_i * 4:v_i * 4 + 4, 0:16])
                row = T.match_buffer(A[v_i * 4:v_i * 4 + 4, 0:16], (4, 16), strides=("s0", "s1"), offset_factor=16)
                T.evaluate(row.elem_offset + row.strides[0])
                row[0, 0] = T.float32(1.0)
        for i in range(16):
            with T.sblock("last"):
                v_i = T.axis.scan(16, i)
                T.reads(B[v_i])
                T.writes(B[v_i])
                B[v_i] = B[v_i] + T.float16(1.0)
