@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("m", "k"), "float32"), pair: R.Tuple(R.Tensor((2, 3), "float32"), R.Tuple(R.Tensor((3,), "int32"), R.Shape([4])))):
        m, k = T.int64(), T.int64()
        a, (b, c) = pair
        (d, e) = R.add(x, x), x
        # The old ones: all names change at once.
        d, e = e, d
        [f] = R.tuple(R.exp(e))
        one, half = 1, 0.5
        g: R.Tensor((m, k), "float32") = f
        size, cast = pair[1][1], R.match_cast(a, R.Tensor((2, 3), "float32"))
        both = R.split(x, 2, axis=0)
        first, _ = both
        inner, other = pair[1]
        return (g, cast, size, first, inner, one, half, b, c, d, other)
# is read as
# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import relax as R

k = TypeVar("k")
m = TypeVar("m")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((m, k), dtype="float32"), pair: R.Tuple(R.Tensor((2, 3), dtype="float32"), R.Tuple(R.Tensor((3,), dtype="int32"), R.Shape([4])))) -> R.Tuple(R.Tensor((m, k), dtype="float32"), R.Tensor((2, 3), dtype="float32"), R.Shape([4]), R.Tensor(("(m + 1) // 2", k), dtype="float32"), R.Tensor((3,), dtype="int32"), R.Tensor((), dtype="int32"), R.Tensor((), dtype="float32"), R.Tensor((3,), dtype="int32"), R.Shape([4]), R.Tensor((m, k), dtype="float32"), R.Shape([4])):
        a: R.Tensor((2, 3), dtype="float32") = pair[0]
        gv: R.Tuple(R.Tensor((3,), dtype="int32"), R.Shape([4])) = pair[1]
        b: R.Tensor((3,), dtype="int32") = gv[0]
        c: R.Shape([4]) = gv[1]
        d: R.Tensor((m, k), dtype="float32") = R.add(x, x)
        e: R.Tensor((m, k), dtype="float32") = x
        d_1: R.Tensor((m, k), dtype="float32") = e
        e_1: R.Tensor((m, k), dtype="float32") = d
        f: R.Tensor((m, k), dtype="float32") = R.exp(e_1)
        one: R.Tensor((), dtype="int32") = R.const(1, "int32")
        half: R.Tensor((), dtype="float32") = R.const(0.5, "float32")
        g: R.Tensor((m, k), dtype="float32") = f
        size: R.Shape([4]) = pair[1][1]
        cast: R.Tensor((2, 3), dtype="float32") = R.match_cast(a, R.Tensor((2, 3), dtype="float32"))
        both: R.Tuple(R.Tensor(((m + 1) // 2, k), dtype="float32"), R.Tensor((m - (m + 1) // 2, k), dtype="float32")) = R.split(x, indices_or_sections=2, axis=0)
        first: R.Tensor(((m + 1) // 2, k), dtype="float32") = both[0]
        _: R.Tensor((m - (m + 1) // 2, k), dtype="float32") = both[1]
        gv_1: R.Tuple(R.Tensor((3,), dtype="int32"), R.Shape([4])) = pair[1]
        inner: R.Tensor((3,), dtype="int32") = gv_1[0]
        other: R.Shape([4]) = gv_1[1]
        return (g, cast, size, first, inner, one, half, b, c, d_1, other)
