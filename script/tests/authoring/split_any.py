@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def f(A: T.Buffer((16,), "float32"), n: T.int32):
        for i in range(n):
            A[i] = A[15 - i] + T.float32(1.0)
# after
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def f(A: T.Buffer((16,), "float32"), n: T.int32):
        for i_0 in range((n + 3) // 4):
            for i_1 in T.vectorized(4):
                if i_0 * 4 + i_1 < n:
                    A[i_0 * 4 + i_1] = A[15 - (i_0 * 4 + i_1)] + T.float32(1.0)
