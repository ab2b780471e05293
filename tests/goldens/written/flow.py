@I.ir_module
class Module:
    @R.function(check_well_formed=False)
    def main(x: R.Tensor((2, 3), "float32"), flag: R.Tensor((), "bool"), n: R.Prim("int64")) -> R.Tensor((2, 3), "float32"):
        # A name can get another meaning.
        x = R.add(x, x)
        x = R.multiply(x, x)
        with R.dataflow():
            y = x + x
            y = y + x
            R.output(y)
        if n > 1:
            pass
            x = R.exp(y)
        elif flag:
            x = y
        else:
            x = x + y
        n = n + 1
        z = R.zeros((n,), "float32")

        @R.function
        def inner(x: R.Tensor((2, 3), "float32"), x1: R.Tensor(ndim=1)) -> R.Tensor((2, 3), "float32"):
            x = -x
            return x

        return inner(x, z)
# is read as
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32"), flag: R.Tensor((), dtype="bool"), n: T.int64) -> R.Tensor((2, 3), dtype="float32"):
        x_1: R.Tensor((2, 3), dtype="float32") = R.add(x, x)
        x_2: R.Tensor((2, 3), dtype="float32") = R.multiply(x_1, x_1)
        with R.dataflow():
            y: R.Tensor((2, 3), dtype="float32") = R.add(x_2, x_2)
            y_1: R.Tensor((2, 3), dtype="float32") = R.add(y, x_2)
            R.output(y_1)
        if n > 1:
            x_then: R.Tensor((2, 3), dtype="float32") = R.exp(y_1)
            x_3: R.Tensor((2, 3), dtype="float32") = x_then
        else:
            if flag:
                x_4: R.Tensor((2, 3), dtype="float32") = y_1
            else:
                x_else: R.Tensor((2, 3), dtype="float32") = R.add(x_2, y_1)
                x_4: R.Tensor((2, 3), dtype="float32") = x_else
            x_3: R.Tensor((2, 3), dtype="float32") = x_4
        n_1: T.int64 = n + 1
        z: R.Tensor((n_1,), dtype="float32") = R.zeros(R.shape([n_1]), dtype="float32")
        # from tvm.script import tirx as T
        # from tvm.tirx.layout import Axis
        # from tvm.script import relax as R
        
        @R.function
        def inner(x_5: R.Tensor((2, 3), dtype="float32"), x1: R.Tensor(ndim=1)) -> R.Tensor((2, 3), dtype="float32"):
            x_6: R.Tensor((2, 3), dtype="float32") = R.negative(x_5)
            return x_6

        return inner(x_3, z)
