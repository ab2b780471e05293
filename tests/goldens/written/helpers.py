@I.ir_module
class Helpers:
    """What people write in PrimFuncs with Python and with functions that help."""

    @T.prim_func(s_tir=True)
    def rounded[k](A: T.buffer((k, 16), "float32"), B: T.Buffer((16,), "int32"), n: T.int32):
        T.func_attr({"global_symbol": "rounded"})
        """Each row, and what is left of it."""
        for i, j in T.grid(*A.shape):
            A[i, j] = T.min_value("float32") if 0 < B[j] < n else T.infinity("float32")
        for i in T.serial(0, stop=T.ceildiv(n, 4)):
            left = n - i * 4
            with T.sblock("rest"):
                v = T.axis.spatial(16, i)
                T.reads(left.source[0], B[v])
                T.writes(B[v])
                B[v] = B[v] + left
        T.call_extern("void", "flush", A.access_ptr("rw", offset=16), B.ptr_to([n]), T.max_value("int64"))

    @T.prim_func(private=True, s_tir=True)
    def lanes(o: T.Buffer((32,), "int32"), data: T.Buffer((32,), "float16", strides=(1,), scope="global")):
        words = T.decl_buffer((16,), "int32", data.data, None, 0)
        both = words
        o[T.ramp(31, -1, 8)] = T.broadcast(7, 8)
        [first, last] = [o[0], o[31]]
        assert first < last, ("ValueError", "not in order")
        both[0] = first if 1 < 2 else last

    @R.function
    def main(x: R.Tensor((4, 6), "float32")):
        return x
