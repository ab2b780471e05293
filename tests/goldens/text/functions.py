# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis
# from tvm.script import relax as R

m = TypeVar("m")
n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def apply(f: R.Callable((R.Tensor((n, m), dtype="float32"),), R.Tensor((n,), dtype="float32"), True), x: R.Tensor((n, m), dtype="float32")) -> R.Tensor((n,), dtype="float32"):
        y: R.Tensor((n,), dtype="float32") = f(x)
        return y

    @R.function(pure=False)
    def effects(f: R.Callable, g: R.Callable(ret=R.Tensor(ndim=2)), h: R.Callable(purity=True), x: R.Tensor((2, 3), dtype="float32")) -> R.Tuple:
        a: R.Any = f(x)
        b: R.Tensor(ndim=2) = g(x)
        c: R.Any = h(x)
        e: R.Tensor((2,), dtype="float32") = R.call_pure_packed("one", a, b, c, ty_args=(R.Tensor((2,), dtype="float32"),))
        R.call_packed("effect", x, R.str("text"), 5, R.dtype("float16"), R.shape([2, 3]), ty_args=(R.Tuple,))
        _: R.Tensor((2,), dtype="float32") = R.call_packed("two", e, ty_args=(R.Tensor((2,), dtype="float32"),))
        R.print(e, format=R.str("{}"))
        R.tuple()
        return R.tuple()

    @R.function
    def nested(x: R.Tensor((4,), dtype="float32")) -> R.Tuple(R.Tensor((4,), dtype="float32"), R.Tensor(dtype="float32", ndim=1)):
        # from typing import TypeVar
        # from tvm.script import ir as I
        # from tvm.script import tirx as T
        # from tvm.tirx.layout import Axis
        # from tvm.script import relax as R
        
        k = TypeVar("k")
        @R.function
        def by_parameter(y: R.Tensor((k,), dtype="float32")) -> R.Tensor((k,), dtype="float32"):
            z: R.Tensor((k,), dtype="float32") = R.ones(R.shape([k]), dtype="float32")
            return z

        # from tvm.script import ir as I
        # from tvm.script import tirx as T
        # from tvm.tirx.layout import Axis
        # from tvm.script import relax as R
        
        @R.function
        def by_cast(y: R.Tensor(dtype="float32", ndim=1)) -> R.Tensor(dtype="float32", ndim=1):
            j = T.int64()
            y2: R.Tensor((j,), dtype="float32") = R.match_cast(y, R.Tensor((j,), dtype="float32"))
            z: R.Tensor((j,), dtype="float32") = R.exp(y2)
            return z

        # from tvm.script import ir as I
        # from tvm.script import tirx as T
        # from tvm.tirx.layout import Axis
        # from tvm.script import relax as R
        
        @R.function
        def again(y: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
            z: R.Tensor((4,), dtype="float32") = again(y)
            return z

        a: R.Tensor((4,), dtype="float32") = by_parameter(x)
        b: R.Tensor(dtype="float32", ndim=1) = by_cast(a)
        d: R.Tensor((4,), dtype="float32") = again(x)
        return (d, b)

    @R.function
    def size(c: R.Tensor((), dtype="bool")) -> T.int64:
        if c:
            out: T.int64 = 5
        else:
            out: T.int64 = 10
        return out
