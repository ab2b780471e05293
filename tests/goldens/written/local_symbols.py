# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def first(x: R.Tensor(ndim=1, dtype="float32"), s: R.Shape(ndim=2)):
        k = T.int64()
        n = T.int64()
        k_1 = T.int64()
        own = T.int64()
        y = R.match_cast(x, R.Tensor((k,), "float32"))
        t = R.match_cast(s, R.Shape([k_1, n]))
        z = R.match_cast(x, R.Tensor((own,), "float32"))
        return (y, z, t, R.shape([k + n]))

    @T.prim_func
    def kernel(a: T.handle):
        own = T.int64()
        A = T.match_buffer(a, (own,), "float32")
        A[0] = T.float32(1)

    @R.function
    def second(x: R.Tensor(("n", "k"), "float32")) -> R.Tensor(("n", "k"), "float32"):
        n = T.int64()
        k = T.int64()

        @R.function
        def inner(y: R.Tensor(("m",), "float32")) -> R.Tensor(("m",), "float32"):
            m = T.int64()
            return y

        @R.function
        def other(y: R.Tensor(ndim=1, dtype="float32")) -> R.Tensor(ndim=1, dtype="float32"):
            m = T.int64()
            z = R.match_cast(y, R.Tensor((m,), "float32"))
            return z

        return x
