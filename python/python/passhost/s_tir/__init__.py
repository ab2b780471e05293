"""TIR of schedulable blocks: statements, and passes over them."""

from __future__ import annotations

from passhost.s_tir import transform
from passhost.tirx.stmt import MatchBufferRegion, SBlock, SBlockRealize

__all__ = ["MatchBufferRegion", "SBlock", "SBlockRealize", "transform"]
