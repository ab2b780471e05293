"""Names of `tvm.error`."""

from __future__ import annotations

from passhost.error import PasshostError, ScriptError

__all__ = ["DiagnosticError", "TVMError"]

DiagnosticError = ScriptError
TVMError = PasshostError
