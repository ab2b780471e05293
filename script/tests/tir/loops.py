# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def loops(A: T.Buffer((64,), "float32"), n: T.int32):
        for i in range(4, 8):
            A[i] = T.float32(0.0)
        for i in range(n, n + 4):
            A[i] = T.float32(0.0)
        for i in T.parallel(8):
            for j in T.vectorized(4):
                A[i * 4 + j] = T.float32(1.0)
        for i in T.unroll(2):
            for j in T.serial(4, annotations={"pragma_hint": 1, "text": "value"}):
                A[i * 4 + j] = T.float32(2.0)
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            A[tx] = T.float32(3.0)
        for i in range(1, 64, 5):
            A[i] = T.float32(4.0)
        for i, j in T.grid(4, n):
            for k in range(j):
                A[i] = A[i] + A[j * 4 + k]
        while A[0] < T.float32(5.0):
            A[0] = A[0] + T.float32(1.0)
            if n == 0:
                T.break_loop()
            else:
                T.continue_loop()
        for i in range(16):
            if i < n:
                A[i] = T.float32(0.0)
            else:
                if i == 3:
                    A[i] = T.float32(1.0)
