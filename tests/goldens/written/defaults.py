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
