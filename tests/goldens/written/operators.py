@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32"), n: R.Prim("int64")):
        a = x + y * R.const(2.0, "float32") - x / y
        b = (a // x) % (y**x)
        c = -b
        d = c.astype("float16")
        e = (c <= x, c < x, c >= x, c > x)
        f = R.where(x > y, x, -y)
        # Of scalars they are scalars.
        g = n * 2 + 1
        with R.dataflow():
            h = (x + y).astype(dtype="int32")
            i = e[0], -h
            R.output(i)
        return (d, [f, g], i)
# is read as
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32"), y: R.Tensor((2, 3), dtype="float32"), n: T.int64) -> R.Tuple(R.Tensor((2, 3), dtype="float16"), R.Tuple(R.Tensor((2, 3), dtype="float32"), R.Prim("int64")), R.Tuple(R.Tensor((2, 3), dtype="bool"), R.Tensor((2, 3), dtype="int32"))):
        a: R.Tensor((2, 3), dtype="float32") = R.subtract(R.add(x, R.multiply(y, R.const(2.0, "float32"))), R.divide(x, y))
        b: R.Tensor((2, 3), dtype="float32") = R.mod(R.floor_divide(a, x), R.power(y, x))
        c: R.Tensor((2, 3), dtype="float32") = R.negative(b)
        d: R.Tensor((2, 3), dtype="float16") = R.astype(c, dtype="float16")
        e: R.Tuple(R.Tensor((2, 3), dtype="bool"), R.Tensor((2, 3), dtype="bool"), R.Tensor((2, 3), dtype="bool"), R.Tensor((2, 3), dtype="bool")) = R.less_equal(c, x), R.less(c, x), R.greater_equal(c, x), R.greater(c, x)
        f: R.Tensor((2, 3), dtype="float32") = R.where(R.greater(x, y), x, R.negative(y))
        g: T.int64 = n * 2 + 1
        with R.dataflow():
            h: R.Tensor((2, 3), dtype="int32") = R.astype(R.add(x, y), dtype="int32")
            i: R.Tuple(R.Tensor((2, 3), dtype="bool"), R.Tensor((2, 3), dtype="int32")) = e[0], R.negative(h)
            R.output(i)
        return (d, (f, g), i)
