# The weight has 4 input channels, and the image has 3. The README shows the error that passhost reports.
from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Module:
    @R.function
    def main(image: R.Tensor((1, 3, 224, 224), "float32"), weight: R.Tensor((64, 4, 3, 3), "float32")):
        conv = R.nn.conv2d(image, weight)
        return conv
