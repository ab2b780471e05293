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
# is read as
# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis
# from tvm.script import relax as R

k = TypeVar("k")
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def lanes(o: T.Buffer((32,), "int32"), data: T.Buffer((32,), "float16", strides=(1,))):
        words = T.decl_buffer((16,), "int32", data=data.data)
        o[T.Ramp(31, -1, 8)] = T.Broadcast(7, 8)
        first: T.int32 = o[0]
        last: T.int32 = o[31]
        assert first < last, ("ValueError", ["not in order"])
        words[0] = first

    @T.prim_func(s_tir=True)
    def rounded(A: T.Buffer((k, 16), "float32"), B: T.Buffer((16,), "int32"), n: T.int32):
        # with T.sblock("root"):
        for i, j in T.grid(k, 16):
            A[i, j] = T.if_then_else(0 < B[j] and B[j] < n, T.float32(-340282346638528859811704183484516925440.0), T.float32("inf"))
        for i in range((n + 4 - 1) // 4):
            left: T.int32 = n - i * 4
            with T.sblock("rest"):
                v = T.axis.spatial(16, i)
                T.reads(left.source[0], B[v])
                T.writes(B[v])
                B[v] = B[v] + left
        T.call_extern("void", "flush", T.tvm_access_ptr(T.type_annotation("float32"), A.data, T.int64(16), k * T.int64(16) - T.int64(16), 3), T.address_of(B[n]), T.int64(9223372036854775807))

    @R.function
    def main(x: R.Tensor((4, 6), dtype="float32")) -> R.Tensor((4, 6), dtype="float32"):
        return x
