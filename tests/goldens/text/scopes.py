# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis
# from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n,), dtype="float32")) -> R.Tuple(R.Tensor((n,), dtype="float32"), R.Tensor(dtype="float32", ndim=1), R.Tensor((n,), dtype="float32")):
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
            k_1 = T.int64()
            y2: R.Tensor((k_1,), dtype="float32") = R.match_cast(y, R.Tensor((k_1,), dtype="float32"))
            z: R.Tensor((k_1,), dtype="float32") = R.exp(y2)
            return z

        # from tvm.script import ir as I
        # from tvm.script import tirx as T
        # from tvm.tirx.layout import Axis
        # from tvm.script import relax as R
        
        @R.function
        def of_the_outer(y: R.Tensor((n,), dtype="float32")) -> R.Tensor((n,), dtype="float32"):
            z: R.Tensor((n,), dtype="float32") = R.zeros(R.shape([n]), dtype="float32")
            return z

        a: R.Tensor((n,), dtype="float32") = by_parameter(x)
        b: R.Tensor(dtype="float32", ndim=1) = by_cast(a)
        c: R.Tensor((n,), dtype="float32") = of_the_outer(a)
        return (a, b, c)
