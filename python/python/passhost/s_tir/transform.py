"""Passes over schedulable blocks of TIR, by TVM's names.

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
    """A pass of a plugin."""
    return _PASSES.find(name)


def __dir__() -> list[str]:
    """Names of the passes."""
    return sorted(_PASSES.names())
