@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def f(A: T.Buffer((16, 8), "float32"), B: T.Buffer((16, 8), "float32"), n: T.int32):
        for i in range(16):
            for j in range(8):
                with T.sblock("B"):
                    vi = T.axis.spatial(16, i)
                    vj = T.axis.spatial(8, j)
                    T.reads(A[vi, vj])
                    T.writes(B[vi, vj])
                    B[vi, vj] = A[vi, vj] * T.float32(2.0)
        for k in range(n):
            for i in range(T.int64(32)):
                if i * T.int64(2) < i + T.int64(7):
                    T.evaluate(i)
# after
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def f(A: T.Buffer((16, 8), "float32"), B: T.Buffer((16, 8), "float32"), n: T.int32):
        # with T.sblock("root"):
        for i_0, i_1, i_0_1, i_1_1 in T.grid(4, 4, 2, 4):
            with T.sblock("B"):
                vi = T.axis.spatial(16, i_0 * 4 + i_1)
                vj = T.axis.spatial(8, i_0_1 * 4 + i_1_1)
                T.reads(A[vi, vj])
                T.writes(B[vi, vj])
                B[vi, vj] = A[vi, vj] * T.float32(2.0)
        for k, i_0, i_1 in T.grid(n, T.int64(8), T.int64(4)):
            if (i_0 * T.int64(4) + i_1) * T.int64(2) < i_0 * T.int64(4) + i_1 + T.int64(7):
                T.evaluate(i_0 * T.int64(4) + i_1)
