"""Makes `import tvm` import passhost."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from passhost._pass_info import Compat

_OTHERS = {
    "tvm": ("passhost.tvm._root", "passhost.runtime", "passhost"),
    "tvm.error": ("passhost.tvm._error", "passhost.error"),
    "tvm.ir.base": ("passhost.ir",),
    "tvm.ir.expr": ("passhost.ir",),
    "tvm.ir.instrument": ("passhost.instrument",),
    "tvm.ir.module": ("passhost.ir",),
    "tvm.ir.op": ("passhost.ir",),
    "tvm.ir.transform": ("passhost.transform",),
    "tvm.ir.type": ("passhost.ir",),
    "tvm.relax": ("passhost.relax", "passhost.runtime"),
    "tvm.relax.expr": ("passhost.relax", "passhost.relax.expr"),
    "tvm.relax.type": ("passhost.relax",),
    "tvm.relax.block_builder": ("passhost.relax",),
    "tvm.script.parser": ("passhost.script",),
    "tvm.script.parser.ir": ("passhost.script.ir",),
    "tvm.script.parser.relax": ("passhost.script.relax",),
    "tvm.script.parser.tirx": ("passhost.script.tirx",),
    "tvm.testing": ("passhost.tvm._testing",),
    "tvm.testing.env": ("passhost.tvm._testing.env",),
    "tvm.relax.testing.nn": ("passhost.tvm._testing.nn",),
    "tvm.relax.testing.vm": ("passhost.tvm._testing.vm",),
    "tvm.support.utils": ("passhost.tvm._support",),
    "tvm.target": ("passhost.tvm._target",),
    "tvm.relax.transform.transform": ("passhost.relax.transform",),
    "tvm.tirx.expr": ("passhost.tirx",),
    "tvm.tirx.function": ("passhost.tirx",),
    "tvm_ffi": ("passhost.tvm._ffi", "passhost.runtime"),
}
"""TVM modules whose names are in a passhost module with a different name, or in several passhost modules."""


_LIST = "docs/tvm-compatibility.md lists TVM's names in passhost"


_ABSENT = (
    "tvm.contrib",
    "tvm.driver",
    "tvm.exec",
    "tvm.relax.backend",
    "tvm.relax.distributed",
    "tvm.relax.frontend.stablehlo",
    "tvm.relax.frontend.tflite",
    "tvm.relax.testing",
    "tvm.relax.training",
    "tvm.rpc",
    "tvm.s_tir.dlight",
    "tvm.s_tir.meta_schedule",
    "tvm.support",
)
"""TVM packages that passhost lacks. They can be imported, because programs import more than they use; using one of
their names is an error."""


class NotInPasshostError(AttributeError):
    """A TVM name that passhost lacks."""


class _Alias(ModuleType):
    """A TVM module with the names of passhost modules."""

    def __init__(self, name: str, sources: Sequence[ModuleType]) -> None:
        super().__init__(name, f"passhost's version of {name}.")
        self.__path__: list[str] = []
        # Python prints this in the error message for `from tvm import Name`.
        self.__file__ = f"passhost, which has no such name; {_LIST}"
        self._sources = tuple(sources)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        for source in self._sources:
            if hasattr(source, name) and not isinstance(getattr(source, name), ModuleType):
                return getattr(source, name)
        full = f"{self.__name__}.{name}"
        if full in sys.modules or _sources_of(full) or full in _ABSENT:
            return importlib.import_module(full)
        raise NotInPasshostError(f"passhost has no {full}; {_LIST}")

    def __dir__(self) -> list[str]:
        return sorted({name for source in self._sources for name in dir(source) if not name.startswith("_")})


def _is_absent(name: str) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in _ABSENT)


def _sources_of(name: str) -> list[str]:
    """Returns the passhost modules that provide the contents of a TVM module."""
    if name in _OTHERS:
        return list(_OTHERS[name])
    if _is_absent(name):
        return []
    same = "passhost" + name.removeprefix("tvm")
    try:
        found = importlib.util.find_spec(same)
    except ModuleNotFoundError:
        found = None
    return [same] if found else []


class _Finder(MetaPathFinder, Loader):
    """Finds `tvm` and its submodules."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.partition(".")[0] not in ("tvm", "tvm_ffi"):
            return None
        if not _sources_of(name) and not _is_absent(name):
            raise ModuleNotFoundError(f"passhost has no {name}; {_LIST}", name=name)
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Alias(spec.name, [importlib.import_module(source) for source in _sources_of(spec.name)])

    def exec_module(self, module: ModuleType) -> None:
        """Does nothing, because the module is complete."""


def install() -> None:
    """Makes `import tvm` import passhost, and makes contexts follow TVM's rules.

    Raises `RuntimeError` if TVM itself was imported before. Calling it twice has no further effect.
    """
    loaded = sys.modules.get("tvm")
    if isinstance(loaded, _Alias):
        return
    if loaded is not None:
        raise RuntimeError(
            "TVM is already imported in this process; call passhost.tvm.install() before the first `import tvm`, "
            "or use passhost.tvm.from_tvm and to_tvm beside it"
        )
    sys.meta_path.insert(0, _Finder())
    Compat.tvm = True
