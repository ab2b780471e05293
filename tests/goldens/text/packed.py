# from tvm.script import ir as I
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Tensor((4,), dtype="float32")) -> R.Tuple(R.Callable, R.Callable, R.Tensor((4,), dtype="float32")):
        f: R.Callable = R.ExternFunc("dummy")
        g: R.Callable((R.Tensor((4,), dtype="float32"),), R.Tensor((4,), dtype="float32"), True) = R.ExternFunc("other", R.Callable((R.Tensor((4,), dtype="float32"),), R.Tensor((4,), dtype="float32"), True))
        y: R.Any = f(x)
        z: R.Tensor((4,), dtype="float32") = g(x)
        w: R.Any = R.call_packed("array_stack", x, y, attrs_type_key="ir.DictAttrs", a_flag=True, test_attr=1, ty_args=(R.Any,))
        return (f, R.ExternFunc("bar"), z)
