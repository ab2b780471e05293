"""Which plugins this process has: those of the package and those that pip installed, or those of a manifest."""

from __future__ import annotations

import json
import os
import sys
import threading
import warnings
from importlib import import_module
from typing import TYPE_CHECKING

from passhost import _passhost

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
    packages. A package that is broken is left out with a warning.
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
        standard = standard_manifest()
        text = standard.read_text(encoding="utf-8")
        parts = [(point, part) for point in _points() if (part := _part(point))]
        if parts:
            try:
                _passhost.load(standard, text + "".join(part for _, part in parts))
            except Exception:
                _passhost.load(standard, _those_that_load(standard, text, parts))
        else:
            _passhost.load(standard, text)
        _loaded[:] = [standard]


def _those_that_load(standard: Path, text: str, parts: list[tuple[EntryPoint, str]]) -> str:
    """The manifest with the plugins of those packages that can be loaded, one after the other."""
    _passhost.load(standard, text)
    for point, part in parts:
        try:
            _passhost.load(standard, text + part)
            text += part
        except Exception as error:
            _warn(point, error)
    return text


def _points() -> list[EntryPoint]:
    """The entry points of all installed packages; a package with damaged metadata is left out with a warning."""
    from importlib.metadata import distributions

    points: dict[tuple[str, str], EntryPoint] = {}
    for distribution in distributions():
        try:
            for point in distribution.entry_points.select(group=GROUP):
                # The first package of a name on the path counts.
                points.setdefault((distribution.name, point.name), point)
        except Exception as error:
            where = getattr(distribution, "_path", "an unknown place")
            _say(f"the metadata of the installed package at {where} cannot be read: {_described(error)}")
    return sorted(points.values(), key=lambda point: point.name)


def _part(point: EntryPoint) -> str:
    """The plugins of an installed package as part of a manifest; nothing of one that is broken, with a warning.

    To import a package runs its code, which may raise anything. Only Ctrl-C is raised on.
    """
    from pathlib import Path

    try:
        file = import_module(point.value).__file__
        if file is None:
            raise ImportError(f"{point.value} has no __init__.py")
        libraries = [os.fspath(library) for library in _passhost.libraries(Path(file).parent / "passes.toml")]
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        _warn(point, error)
        return ""
    return "".join(f"\n[[plugin]]\npath = {json.dumps(path)}\n" for path in libraries)


def _warn(point: EntryPoint, error: BaseException) -> None:
    package = f"the package {point.dist.name} {point.dist.version}" if point.dist else "an installed package"
    _say(
        f"the plugins of {package} are not loaded: its entry point {point.name!r} of {GROUP} names {point.value}, "
        f"which {_described(error)}; an entry point names a package that has a passes.toml with its plugins"
    )


def _described(error: BaseException) -> str:
    """What an error says. To turn it into text runs code of its class, which may raise anything."""
    try:
        if type(error) is SystemExit:
            return f"called sys.exit({error.code!r})"
        return f"raised {type(error).__name__}: {error}"
    except KeyboardInterrupt:
        raise
    except BaseException:
        return f"raised {type(error).__name__}, which cannot be shown"


def _say(text: str) -> None:
    """Warns. Where warnings are errors, a package that is broken does not keep the others from being loaded."""
    try:
        warnings.warn(text, RuntimeWarning, stacklevel=4)
    except RuntimeWarning:
        sys.stderr.write(f"RuntimeWarning: {text}\n")


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
