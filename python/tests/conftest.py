import pytest

import passhost

SOURCE = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 4), "float32")) -> R.Tensor((2, 4), "float32"):
        y = R.add(x, x)
        unused = R.multiply(x, x)
        z = R.nn.relu(y)
        return z
"""


@pytest.fixture
def mod():
    """Returns a module with one function and a dead binding."""
    return passhost.script.from_source(SOURCE)
