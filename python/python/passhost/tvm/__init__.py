"""passhost where TVM is expected, and beside TVM.

`install()` makes `import tvm` mean passhost, in a process without TVM. `from_tvm`, `to_tvm` and `tvm_pass` are for a
process that has TVM, and carry modules and passes over.
"""

from __future__ import annotations

from passhost.tvm._beside import from_tvm, to_tvm, tvm_pass
from passhost.tvm._install import NotInPasshostError, install

__all__ = ["NotInPasshostError", "from_tvm", "install", "to_tvm", "tvm_pass"]
