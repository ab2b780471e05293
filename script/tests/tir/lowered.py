# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(private=True)
    def host(args: T.handle, data: T.handle("float32", "global"), n: T.int32) -> T.int32:
        T.func_attr({"calling_conv": 1})
        assert n == 2, ("TypeError", ["Expected ", "2"])
        assert not T.isnullptr(args), ("TypeError", ["args is NULL"])
        kind: T.let[T.int32] = T.tvm_struct_get(args, 0, 13, "int32")
        p: T.let[T.handle("int64", "global")] = T.reinterpret(T.handle("int64", "global").ty, T.tvm_struct_get(args, 0, 15, T.handle().ty))
        A = T.decl_buffer((16,), data=data)
        S = T.alloc_shared((16,), "int32", annotations={"tirx.volatile": T.bool(True)})
        L = T.alloc_local((4,))
        if kind == 0:
            S[0] = 1
            L[0] = A[0]
        T.call_packed("name", A.data, S[0])
        T.evaluate(L[0])
        return 0

    @T.prim_func(private=True, s_tir=True)
    def kernel(A: T.Buffer((16, 16), "float32"), B: T.Buffer((256,), "float32")):
        with T.launch_thread("blockIdx.x", 16) as bx:
            A_1 = A.view(256)
            B_1 = T.decl_buffer((256,), data=B.data)
            with T.launch_thread("threadIdx.x", 16) as tx:
                T.attr(A_1, "storage_alignment", 64)
                B_1[bx * 16 + tx] = A_1[bx * 16 + tx]
        B[0:4] = T.Broadcast(T.float32(1.0), 4)
        B[0:8:2] = B[T.Ramp(0, 1, 4)] + T.Shuffle([B[0], B[1], B[2], B[3]], [3, 2, 1, 0])
