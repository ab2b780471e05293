"""Interoperation with TVM: passhost in place of TVM, or together with it.

`install()` makes `import tvm` import passhost, in a process without TVM. `from_tvm`, `to_tvm` and `tvm_pass` convert
modules and passes in a process that has imported TVM.
"""

from __future__ import annotations

from passhost.tvm._beside import from_tvm, to_tvm, tvm_pass
from passhost.tvm._install import NotInPasshostError, install

__all__ = ["NotInPasshostError", "from_tvm", "install", "to_tvm", "tvm_pass"]
