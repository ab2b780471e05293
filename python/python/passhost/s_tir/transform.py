"""Passes over TIR with schedulable blocks, under TVM's names.

>>> from passhost import s_tir
>>> s_tir.transform.LowerOpaqueBlock()
s_tir.LowerOpaqueBlock()
"""

from __future__ import annotations

from typing import Any

from passhost.passes import TvmNames

__all__: list[str] = []

_PASSES = TvmNames("s_tir")


def __getattr__(name: str) -> Any:
    """Returns a plugin pass."""
    return _PASSES.find(name)


def __dir__() -> list[str]:
    """Lists the passes."""
    return sorted(_PASSES.names())
