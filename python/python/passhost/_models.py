"""Loads models from files, in the formats that plugins read."""

from __future__ import annotations

import os
import warnings
from typing import Any

from passhost import _passhost, _plugins
from passhost.error import Diagnostic
from passhost.ir.module import IRModule


def load_model(
    path: str | os.PathLike[str], *, format: str | None = None, strict: bool = False, **options: Any
) -> IRModule:
    """Reads a module from a file: TVMScript, or a format that a plugin reads.

    `format` names the format; by default, the file extension or else the first bytes of the file determine it.
    `options` are the reader's options, which `passhost explain FORMAT` lists. Raises `ScriptError` if the file is
    invalid, and `PluginError` if the reader fails.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path must be a file name, not an object of {type(path).__module__}.{type(path).__qualname__}")
    _plugins.ensure_loaded()
    return _module(*_passhost.load_model(os.fspath(path), format, strict, list(options.items())))


def load_bytes(origin: str, data: bytes | bytearray | memoryview, format: str, **options: Any) -> IRModule:
    """Reads a module from bytes in a format that a plugin reads. Messages refer to the bytes as `origin`."""
    _plugins.ensure_loaded()
    return _module(*_passhost.load_bytes(origin, bytes(data), format, list(options.items())))


def _module(handle: _passhost.Module, said: list[str]) -> IRModule:
    for line in said:
        warnings.warn(str(Diagnostic.of_json(line)), stacklevel=3)
    return IRModule._of(handle)
