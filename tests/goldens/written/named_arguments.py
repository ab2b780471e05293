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
