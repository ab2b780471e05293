"""The default memory limit of executions."""

from __future__ import annotations

import os


def usual_memory() -> int:
    """Returns half of the machine's memory, in bytes."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, ValueError, OSError):
        return 8 << 30
