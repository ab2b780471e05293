@I.ir_module
class NamedArguments:
    @R.function(pure=False)
    def main(x: R.Tensor((4, 6), "float32"), y: R.Tensor((2, 6), "float32"), storage: R.Object):
        a = R.sort(x=x, descending=True)
        b = R.memory.view(data=a)
        c = R.memory.ensure_zero_offset(data=b)
        d = R.builtin.stop_lift_params(x=R.stop_lift_params(c))
        e = R.slice_scatter(input_tensor=d, src=y, start=0, end=2, step=1, axis=0)
        n = R.prim_value(value=3)
        shape = R.shape(value=[4, 6])
        name = R.str(value="name")
        dtype = R.dtype(value="float32")
        R.memory.kill_tensor(tensor=d)
        R.memory.kill_storage(storage=storage)
        R.vm.kill_object(obj=storage)
        return (e, n, shape, name, dtype)
# is read as
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Tensor((4, 6), dtype="float32"), y: R.Tensor((2, 6), dtype="float32"), storage: R.Any) -> R.Tuple(R.Tensor((4, 6), dtype="float32"), R.Prim("int64"), R.Shape([4, 6]), R.Any, R.Any):
        a: R.Tensor((4, 6), dtype="float32") = R.sort(x, axis=-1, descending=True)
        b: R.Tensor((4, 6), dtype="float32") = R.memory.view(a, R.tuple(), R.null_value(), R.tuple())
        c: R.Tensor((4, 6), dtype="float32") = R.memory.ensure_zero_offset(b)
        d: R.Tensor((4, 6), dtype="float32") = R.builtin.stop_lift_params(R.builtin.stop_lift_params(c))
        e: R.Tensor((4, 6), dtype="float32") = R.slice_scatter(d, y, 0, 2, 1, axis=0)
        n: T.int64 = 3
        shape: R.Shape([4, 6]) = R.shape([4, 6])
        name: I.StringType() = R.str("name")
        dtype: R.Any = R.dtype("float32")
        R.memory.kill_tensor(d)
        R.memory.kill_storage(storage)
        R.vm.kill_object(storage)
        return (e, n, shape, name, dtype)
