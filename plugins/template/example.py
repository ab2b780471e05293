# from tvm.script import ir as I
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32")) -> R.Tensor((2, 3), dtype="float32"):
        with R.dataflow():
            a = R.nn.relu(R.nn.relu(x))
            b = R.exp(a)
            c = R.exp(a)
            d = R.add(b, c)
            R.output(d)
        return d
