"""TIR with schedulable blocks: statements, passes, and schedules."""

from __future__ import annotations

from passhost.s_tir import transform
from passhost.s_tir.schedule import LoopRV, SBlockRV, Schedule, ScheduleError, Trace
from passhost.tirx.stmt import MatchBufferRegion, SBlock, SBlockRealize

__all__ = [
    "LoopRV",
    "MatchBufferRegion",
    "SBlock",
    "SBlockRV",
    "SBlockRealize",
    "Schedule",
    "ScheduleError",
    "Trace",
    "transform",
]
