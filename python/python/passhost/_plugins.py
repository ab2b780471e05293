"""Which plugins this process has: those of the package and those that pip installed, or those of a manifest."""

from __future__ import annotations

import json
import os
import threading
from importlib import import_module
from typing import TYPE_CHECKING

from passhost import _passhost
from passhost.error import PasshostError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint
    from pathlib import Path

GROUP = "passhost.plugins"
"""Entry points of this group name packages that have a `passes.toml` with their plugins."""

_loaded: list[Path] = []
loading = threading.RLock()
"""Held while plugins are loaded, and while a pass that Python made is told to the host."""


def standard_manifest() -> Path:
    """The manifest of the plugins that come with the package: operators, passes of Relax and TIR, an example."""
    from pathlib import Path

    return Path(__file__).parent / "_plugins" / "passes.toml"


def ensure_loaded() -> None:
    """Loads the plugins of the process, unless that was done.

    They are those of the manifest that `$PASSHOST_MANIFEST` names; without it, the standard ones and those of installed
    packages.
    """
    if _loaded:
        return
    with loading:
        if _loaded:
            return
        named = os.environ.get("PASSHOST_MANIFEST")
        if named:
            load(named)
            return
        from importlib.metadata import entry_points

        standard = standard_manifest()
        text = standard.read_text(encoding="utf-8")
        for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
            text += "".join(f"\n[[plugin]]\npath = {json.dumps(path)}\n" for path in _libraries(point))
        _passhost.load(standard, text)
        _loaded[:] = [standard]


def _libraries(point: EntryPoint) -> list[str]:
    """The plugins of an installed package, by their absolute paths."""
    from pathlib import Path

    manifest = Path(str(import_module(point.value).__file__)).parent / "passes.toml"
    try:
        return [os.fspath(library) for library in _passhost.libraries(manifest)]
    except PasshostError as error:
        error.add_note(
            f"the entry point {point.name!r} of {GROUP} must name a package that has a passes.toml with its plugins"
        )
        raise


def load(manifest: str | os.PathLike[str]) -> None:
    """Makes the plugins of a manifest those of the process, instead of those before.

    Passes that Python made stay, unless a plugin has a pass of the same name: that of Python then cannot run. Raises
    `ManifestError` if the manifest is wrong, and `PluginError` if a plugin is refused.
    """
    from pathlib import Path

    from passhost._passes import tell_again

    path = Path(manifest)
    with loading:
        _passhost.load(path)
        _loaded[:] = [path]
        tell_again()
