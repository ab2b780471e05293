@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            B[i] = A[i] + A[7 - i]
# after
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        copy = T.alloc_shared((8,))
        for i in range(8):
            copy[i] = A[i]
        for i in range(8):
            B[i] = copy[i] + copy[7 - i]
