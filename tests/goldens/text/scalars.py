# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def dims(n: T.int64, x: R.Tensor((n, n + 1), dtype="float32"), shape: R.Shape([n])) -> R.Tensor((n, n + 1), dtype="float32"):
        y: R.Tensor((n * 2,), dtype="float32") = R.zeros(R.shape([n * 2]), dtype="float32")
        return x

    @R.function
    def expressions(n: T.int64, i: T.int32, b: T.bool, f: T.float32) -> T.int64:
        a: T.int64 = n + 1
        c: T.bool = n > 3 and b
        d: T.int64 = T.max(n, 4) // 2
        e: T.int64 = T.Cast("int64", i)
        g: T.float32 = f * T.float32(2.0)
        h: T.int64 = T.if_then_else(b, n, n + 1)
        k: T.int64 = T.truncmod(n, 3)
        return k

    @R.function
    def flow(x: R.Tensor((4,), dtype="float32")) -> R.Tensor(dtype="float32", ndim=1):
        with R.dataflow():
            lv: T.int64 = 4
            m: T.int64 = lv + 1
            R.output(m)
        y: R.Tensor((m,), dtype="float32") = R.zeros(R.shape([m]), dtype="float32")
        return y

    @R.function
    def inner(n: T.int64, x: R.Tensor((n,), dtype="float32")) -> R.Tensor((n,), dtype="float32"):
        @R.function
        def recurse(current: T.int64, value: R.Tensor((current,), dtype="float32")) -> R.Tensor((current,), dtype="float32"):
            gv: R.Tensor((current,), dtype="float32") = recurse(current, value)
            return gv

        gv: R.Tensor((n,), dtype="float32") = recurse(n, x)
        return gv

    @R.function
    def numbers() -> T.int8:
        a: T.int64 = -7
        b: T.int32 = 2
        c: T.int8 = 3
        d: T.float32 = T.float32(2.5)
        e: T.bool = True
        f: R.Tensor((), dtype="int32") = R.const(3, "int32")
        return c
