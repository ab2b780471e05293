@T.prim_func
def named_operands(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "float32x4"), f: T.handle, n: T.int32):
    with T.launch_thread("blockIdx.x", extent=4):
        T.evaluate(0)
    tx = T.launch_thread(thread="threadIdx.x", extent=16)
    A[tx] = T.max(a=A[tx], b=n) + T.truncmod(b=n, a=A[tx])
    A[tx] = T.bitwise_and(A[tx], y=n) + T.shift_left(x=n, y=1) + T.ceildiv(lhs=n, rhs=2)
    A[tx] = T.Select(A[tx] < n, true_value=T.Add(A[tx], b=n), false_value=T.Cast(dtype="int32", value=T.float32(1.5)))
    B[tx] = T.Broadcast(T.float32(1.0), lanes=4) + T.broadcast(value=T.float32(2.0), lanes=4)
    T.evaluate(T.tvm_storage_sync("shared", is_load=True))
    T.evaluate(T.anylist_setitem_call_packed(f, 0, func_name="g"))
    T.evaluate(T.ignore_loop_partition(predicate=n > 0))
# is read as
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func
    def named_operands(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "float32x4"), f: T.handle, n: T.int32):
        with T.launch_thread("blockIdx.x", 4) as v:
            T.evaluate(0)
        with T.launch_thread("threadIdx.x", 16) as tx:
            A[tx] = T.max(A[tx], n) + T.truncmod(A[tx], n)
            A[tx] = (A[tx] & n) + (n << 1) + (n + 2 - 1) // 2
            A[tx] = T.Select(A[tx] < n, A[tx] + n, T.Cast("int32", T.float32(1.5)))
            B[tx] = T.Broadcast(T.float32(1.0), 4) + T.Broadcast(T.float32(2.0), 4)
            T.tvm_storage_sync("shared", T.bool(True))
            T.anylist_setitem_call_packed(f, 0, "g")
            T.ignore_loop_partition(n > 0)
