@I.ir_module
class Defaults:
    @R.function
    def main[n](x: R.Tensor((1, 2, 4, 6), "float32"), y: R.Tensor((n, 4), "float32"), s: R.Shape(ndim=2), z: R.Tensor("float32")):
        a = R.arange(5)
        b = R.arange(1, n)
        c = R.arange(0.0, 1.0, 0.25)
        d = R.arange(8, dtype="int32")
        e = R.image.resize2d(x, (8, 12), layout="NCHW", method="linear", coordinate_transformation_mode="half_pixel")
        f = R.shape([T.Cast("int64", T.float32(40.0)), T.ceildiv(n, 4)])
        g = R.prim_value(0 < n < 4)
        h = R.match_cast(z, R.Tensor(s, "float32"))
        i = R.builtin.alloc_tensor(R.shape([4]), R.dtype("float32"), 0, R.str("global"), ty_args=(R.Tensor((4,), "float32"),))
        return (a, b, c, d, e, f, g, h, i)
# is read as
# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis
# from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 2, 4, 6), dtype="float32"), y: R.Tensor((n, 4), dtype="float32"), s: R.Shape(ndim=2), z: R.Tensor(dtype="float32")) -> R.Tuple(R.Tensor((5,), dtype="int64"), R.Tensor(("T.max(n, 1) - 1",), dtype="int64"), R.Tensor((4,), dtype="float32"), R.Tensor((8,), dtype="int32"), R.Tensor((1, 2, 8, 12), dtype="float32"), R.Shape([T.Cast("int64", T.float32(40.0)), "(n + 4 - 1) // 4"]), R.Prim("bool"), R.Tensor(dtype="float32", ndim=2), R.Tensor((4,), dtype="float32")):
        s_0 = T.int64()
        s_1 = T.int64()
        a: R.Tensor((5,), dtype="int64") = R.arange(0, 5, 1, dtype="int64")
        b: R.Tensor((T.max(n, 1) - 1,), dtype="int64") = R.arange(1, n, 1, dtype="int64")
        c: R.Tensor((4,), dtype="float32") = R.arange(T.float64(0.0), T.float64(1.0), T.float64(0.25), dtype="float32")
        d: R.Tensor((8,), dtype="int32") = R.arange(0, 8, 1, dtype="int32")
        e: R.Tensor((1, 2, 8, 12), dtype="float32") = R.image.resize2d(x, R.shape([8, 12]), roi=[T.float32(0.0), T.float32(0.0), T.float32(0.0), T.float32(0.0)], layout="NCHW", method="linear", coordinate_transformation_mode="half_pixel", rounding_method="round", cubic_alpha=-0.75, cubic_exclude=0, extrapolation_value=0.0, out_dtype=None)
        f: R.Shape([T.Cast("int64", T.float32(40.0)), (n + 4 - 1) // 4]) = R.shape([T.Cast("int64", T.float32(40.0)), (n + 4 - 1) // 4])
        g: T.bool = 0 < n and n < 4
        s_2: R.Shape([s_0, s_1]) = R.match_cast(s, R.Shape([s_0, s_1]))
        h: R.Tensor((s_0, s_1), dtype="float32") = R.match_cast(z, R.Tensor((s_0, s_1), dtype="float32"))
        i: R.Tensor((4,), dtype="float32") = R.builtin.alloc_tensor(R.shape([4]), R.dtype("float32"), 0, R.str("global"))
        return (a, b, c, d, e, f, g, h, i)
