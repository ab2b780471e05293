"""How much memory executions may take."""

from __future__ import annotations

import os


def usual_memory() -> int:
    """Half of the memory of the machine, in bytes."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, ValueError, OSError):
        return 8 << 30
