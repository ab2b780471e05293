# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis
# from tvm.script import relax as R

@I.ir_module
class Module:
    inside = R.ExternFunc("ext_inside")
    scaled = R.ExternFunc("ext_scaled")
    typed = R.ExternFunc("ext_typed", R.Callable((R.Tensor((T.int64(2), T.int64(8)), dtype="float32"),), R.Tensor((T.int64(2),), dtype="float32"), True))
    @R.function(pure=False)
    def main(c: R.Tensor((2, 8), dtype="float32"), d: R.Tensor((2, 8), dtype="float32")) -> R.Any:
        cls = Module
        a: R.Any = cls.inside(c, d)
        b: R.Tensor((2,), dtype="float32") = cls.typed(c)
        e = R.call_tir(cls.scaled, (c, R.shape([2])), out_ty=R.Tensor((2, 8), dtype="float32"))
        f = R.call_tir(cls.scaled, (d,), out_ty=[R.Tensor((2, 8), dtype="float32"), R.Tensor((2,), dtype="int32")])
        h: R.Tuple(R.Tensor((2, 8), dtype="float32"), R.Tensor((2, 8), dtype="float32")) = R.call_tir_inplace(cls.scaled, (c, d), out_ty=[R.Tensor((2, 8), dtype="float32"), R.Tensor((2, 8), dtype="float32")], inplace_indices=[0, -1])
        j: R.Tensor((2, 8), dtype="float32") = R.call_tir_with_grad(cls.scaled, (c,), out_ty=R.Tensor((2, 8), dtype="float32"), te_grad_name="g", te_grad_kwargs={"k": T.float32(2.0)})
        k: R.Tensor((2, 8), dtype="float32") = R.call_tir_with_grad(cls.scaled, (j,), out_ty=R.Tensor((2, 8), dtype="float32"), te_grad_name="g")
        return (a, b, e, f, h, k)
