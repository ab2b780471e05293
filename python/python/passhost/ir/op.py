"""Operators declared by plugins."""

from __future__ import annotations

import functools
from typing import Any

from passhost import _passhost, _plugins
from passhost.error import NameNotFoundError


@functools.cache
def declared() -> dict[str, dict[str, Any]]:
    """Returns the operators of all plugins by name, with arguments and attributes."""
    _plugins.ensure_loaded()
    return {facts["name"]: facts for facts in _passhost.operators()}


def check_operator(name: str) -> None:
    """Raises `NameNotFoundError` for a Relax operator that no plugin declares."""
    if name.startswith("relax.") and name not in declared():
        import difflib

        near = difflib.get_close_matches(name, declared(), 3)
        hint = f"; did you mean {', '.join(f'`{one}`' for one in near)}?" if near else ""
        raise NameNotFoundError(f"Operator {name} is not registered{hint}")
