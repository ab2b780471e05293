@tvm.script.ir_module(check_well_formed=False)
class Calls:
    @T.prim_func(private=True, s_tir=True, check_well_formed=False)
    def fill(A: T.Buffer((2, 3), "float32"), B: T.Buffer((2, 3), "float32")):
        for i, j in T.grid(2, 3):
            with T.sblock("fill"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]

    @R.function(pure=False)
    def main(x: R.Tensor((2, 3), "float32"), closure: R.Object):
        mod = Calls
        a = R.call_tir(mod.fill, x, R.Tensor((2, 3), "float32"))
        b = R.call_tir(Calls.fill, a + x, [R.Tensor((2, 3), "float32")])
        c = R.call_tir_inplace(mod.fill, (a, b), 1, R.Tensor((2, 3), "float32"))
        d = R.call_tir_inplace(mod.fill, [a, b], out_ty=R.Tensor((2, 3), "float32"), inplace_indices=[1])
        e = R.call_tir_with_grad(mod.fill, x, R.Tensor((2, 3), "float32"), "grad", {"k": 1})
        f = R.call_dps_packed("my.kernel", x, R.Tensor((2, 3), "float32"))
        g = R.call_dps_packed("my.kernel", [x, f], [R.Tensor((3,)), R.Tensor((1,), "int8")])
        h = R.call_packed("my.function", x, 1, ty_args=R.Tensor)
        i = R.call_pure_packed("my.function", [x, x], ty_args=[R.Tensor, R.Shape])
        j = R.invoke_closure(closure, x, R.Tensor((2, 3), "float32"))
        k = R.call_builtin_with_ctx("my.builtin", x, ty_args=(R.Tensor("int8"),))
        l = R.call_inplace_packed("my.function", x, inplace_indices=[0], ty_args=R.Tensor((2, 3), "float32"))
        return (c, d, e, g, h, i, j, k, l)
# is read as
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis
# from tvm.script import relax as R

@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def fill(A: T.Buffer((2, 3), "float32"), B: T.Buffer((2, 3), "float32")):
        # with T.sblock("root"):
        for i, j in T.grid(2, 3):
            with T.sblock("fill"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(A[vi, vj])
                T.writes(B[vi, vj])
                B[vi, vj] = A[vi, vj]

    @R.function(pure=False)
    def main(x: R.Tensor((2, 3), dtype="float32"), closure: R.Any) -> R.Tuple(R.Tensor((2, 3), dtype="float32"), R.Tensor((2, 3), dtype="float32"), R.Tensor((2, 3), dtype="float32"), R.Tuple(R.Tensor((3,)), R.Tensor((1,), dtype="int8")), R.Tensor, R.Tuple(R.Tensor, R.Shape(ndim=-1)), R.Tensor((2, 3), dtype="float32"), R.Tensor(dtype="int8"), R.Tensor((2, 3), dtype="float32")):
        cls = Module
        a = R.call_tir(cls.fill, (x,), out_ty=R.Tensor((2, 3), dtype="float32"))
        b = R.call_tir(cls.fill, (R.add(a, x),), out_ty=R.Tensor((2, 3), dtype="float32"))
        c: R.Tensor((2, 3), dtype="float32") = R.call_tir_inplace(cls.fill, (a, b), out_ty=R.Tensor((2, 3), dtype="float32"), inplace_indices=[1])
        d: R.Tensor((2, 3), dtype="float32") = R.call_tir_inplace(cls.fill, (a, b), out_ty=R.Tensor((2, 3), dtype="float32"), inplace_indices=[1])
        e: R.Tensor((2, 3), dtype="float32") = R.call_tir_with_grad(cls.fill, (x,), out_ty=R.Tensor((2, 3), dtype="float32"), te_grad_name="grad", te_grad_kwargs={"k": 1})
        f = R.call_dps_packed("my.kernel", (x,), out_ty=R.Tensor((2, 3), dtype="float32"))
        g = R.call_dps_packed("my.kernel", (x, f), out_ty=[R.Tensor((3,)), R.Tensor((1,), dtype="int8")])
        h: R.Tensor = R.call_packed("my.function", x, 1, ty_args=(R.Tensor,))
        i: R.Tuple(R.Tensor, R.Shape(ndim=-1)) = R.call_pure_packed("my.function", (x, x), ty_args=(R.Tensor, R.Shape(ndim=-1)))
        j: R.Tensor((2, 3), dtype="float32") = R.invoke_closure(closure, (x,), ty_args=(R.Tensor((2, 3), dtype="float32"),))
        k: R.Tensor(dtype="int8") = R.call_builtin_with_ctx("my.builtin", (x,), ty_args=(R.Tensor(dtype="int8"),))
        l: R.Tensor((2, 3), dtype="float32") = R.call_inplace_packed("my.function", x, inplace_indices=[0], ty_args=(R.Tensor((2, 3), dtype="float32"),))
        return (c, d, e, g, h, i, j, k, l)
