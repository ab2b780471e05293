@R.function(private=False)
def main(x: R.Tensor("float32"), f: R.Callable(R.Tensor, R.Tensor), nothing: None) -> None:
    y = f(x)
    return R.tuple()
# is read as
# from tvm.script import ir as I
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(dtype="float32"), f: R.Callable((R.Tensor,), R.Tensor, True), nothing: R.Tuple) -> R.Tuple:
        y: R.Tensor = f(x)
        return R.tuple()
