# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Tensor((2, 3), dtype="float32")) -> R.Tensor((3,), dtype="float32"):
        a: R.Tensor((2, 6), dtype="float32") = R.acme.widen(x, (x, x), R.shape([2]), mode="fast", axes=[0, 1], factor=2)
        b: R.Tensor((3,), dtype="float32") = T.acme.narrow(a)
        return b
