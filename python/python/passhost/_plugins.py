"""The plugins of this process: from passhost and pip-installed packages, or from a manifest."""

from __future__ import annotations

import json
import os
import sys
import threading
import warnings
from importlib import import_module
from typing import TYPE_CHECKING

from passhost import _passhost, _provided

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint
    from pathlib import Path

GROUP = "passhost.plugins"
"""The entry point group of packages with plugins; each package contains a `passes.toml` that lists them."""

_loaded: list[Path] = []
loading = threading.RLock()
"""Held while plugins are loaded, and while a Python pass is registered with the host."""


def standard_manifest() -> Path:
    """Returns the manifest of the bundled plugins: operators, Relax and TIR passes, an example."""
    from pathlib import Path

    return Path(__file__).parent / "_plugins" / "passes.toml"


def ensure_loaded() -> None:
    """Loads the plugins of the process once.

    The plugins come from the manifest in `$PASSHOST_MANIFEST`, or if that is not set, from passhost and from installed
    packages. Broken packages are skipped with a warning.
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
    """Returns the manifest with the plugins of all packages that can be loaded. Packages are checked one at a time."""
    _passhost.load(standard, text)
    for point, part in parts:
        try:
            _passhost.load(standard, text + part)
            text += part
        except Exception as error:
            _warn(point, error)
    return text


def _points() -> list[EntryPoint]:
    """Returns the entry points of all installed packages; packages with damaged metadata are skipped with a warning."""
    from importlib.metadata import distributions

    points: dict[tuple[str, str], EntryPoint] = {}
    for distribution in distributions():
        try:
            for point in distribution.entry_points.select(group=GROUP):
                # If several packages have the same name, the first one on the path takes precedence.
                points.setdefault((distribution.name, point.name), point)
        except Exception as error:
            where = getattr(distribution, "_path", "an unknown place")
            _say(f"the metadata of the installed package at {where} cannot be read: {_described(error)}")
    return sorted(points.values(), key=lambda point: point.name)


def _part(point: EntryPoint) -> str:
    """Returns the manifest entries for the plugins of an installed package; none if the package is broken, with a
    warning.

    Importing a package runs its code, which may raise any exception. Only Ctrl-C is re-raised.
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
        f"which {_described(error)}; an entry point must name a package with a passes.toml that lists its plugins"
    )


def _described(error: BaseException) -> str:
    """Formats an error. Converting it to a string runs code of its class, which may raise any exception."""
    try:
        if type(error) is SystemExit:
            return f"called sys.exit({error.code!r})"
        return f"raised {type(error).__name__}: {error}"
    except KeyboardInterrupt:
        raise
    except BaseException:
        return f"raised {type(error).__name__}, which cannot be shown"


def _say(text: str) -> None:
    """Warns. Even if warnings are errors, a broken package does not prevent other packages from loading."""
    try:
        warnings.warn(text, RuntimeWarning, stacklevel=4)
    except RuntimeWarning:
        sys.stderr.write(f"RuntimeWarning: {text}\n")


def load(manifest: str | os.PathLike[str]) -> None:
    """Replaces the plugins of the process with the plugins in a manifest.

    Python passes remain, but a Python pass cannot run if a plugin has a pass of the same name. Raises `ManifestError`
    if the manifest is invalid, and `PluginError` if a plugin is refused.
    """
    from pathlib import Path

    path = Path(manifest)
    with loading:
        _passhost.load(path)
        _loaded[:] = [path]
        _provided.after_loading()
