@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def f(A: T.Buffer((8,), "float32")):
        for i in range(1):
            A[i * 2] = A[i + 1] + T.Cast("float32", i)
# after
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def f(A: T.Buffer((8,), "float32")):
        A[T.Mul(0, 2)] = A[T.Add(0, 1)] + T.Cast("float32", 0)
