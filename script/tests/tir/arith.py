# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def exprs(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "float32"), C: T.Buffer((16,), "bool"), n: T.int32):
        for i in range(16):
            A[i] = (i + n) * 2 - n // 3 % 5 - (i - (n - 1))
            A[i] = T.truncmod(i, 3) + T.Div(i, 4) + T.min(i, n) + T.max(n, -7)
            A[i] = T.Add(i * 66, 0) + T.Mul(0, 256)
            A[i] = i << 2 | n >> 1 & (i ^ 3)
            A[i] = T.LShift(1, 4) | T.RShift(256, 0) | T.RShift(i, 0)
            C[i] = i < n and n <= 4 or i == 3 and not n != 5
            C[i] = (i < n or n > 3) and (not i >= 2) == (n < 7)
            B[i] = T.Cast("float32", i) / T.float32(3.0) + T.float32(0.10000000000000001)
            B[i] = T.Select(i < 4, B[i], T.float32("inf")) + T.if_then_else(n == 0, T.float32(1.0), B[n])
            B[i] = T.exp(B[i]) * T.sqrt(B[i]) - T.pow(B[i], T.float32(2.0))
            A[i] = T.Cast("int32", T.int64(4) * T.Cast("int64", n)) + T.Cast("int32", T.uint8(7))
            A[i] = T.call_extern("int32", "name", i, "text \"quoted\"")
            C[i] = T.And(C[i], T.bool(True))
