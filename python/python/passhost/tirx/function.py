"""Functions of TIR."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

from passhost import _passhost
from passhost.ir.attrs import DictAttrs
from passhost.ir.expr import Var
from passhost.ir.function import BaseFunc
from passhost.ir.type import MISSING, Type
from passhost.tirx.stmt import Stmt


class PrimFunc(BaseFunc):
    """A function of TIR.

    What comes from the host is a handle; parameters and body are made when they are looked at first.
    """

    __slots__ = ("__weakref__", "_changed", "_handle", "_parts")
    _handle: _passhost.Body
    _changed: bool
    _parts: tuple[tuple[Var, ...], Stmt] | None

    @staticmethod
    def _of(handle: _passhost.Body, name: str) -> PrimFunc:
        """A function of the host, under its name in a module."""
        found = _FUNCTIONS.get((handle, name))
        if found is None:
            found = PrimFunc.__new__(PrimFunc)
            found._handle, found._changed, found._ty, found._parts = handle, False, MISSING, None
            found._attrs = DictAttrs(_passhost.function_attrs(handle, name))
            _FUNCTIONS[(handle, name)] = found
        return found

    @property
    def params(self) -> tuple[Var, ...]:
        """Its parameters: scalars, handles, and buffers in the place of handles that are matched with them."""
        return self._expanded()[0]

    @property
    def body(self) -> Stmt:
        """Its statements. Blocks are in a block `root`."""
        return self._expanded()[1]

    def _expanded(self) -> tuple[tuple[Var, ...], Stmt]:
        parts = self._parts
        if parts is None:
            parts = self._parts = _passhost.expand_prim_func(self._handle)
        return parts

    @property
    def ty(self) -> Type:  # type: ignore[override]
        """Its type, as functions of Relax see it."""
        if self._ty is MISSING:
            self._ty = _passhost.prim_func_type(self._handle)
        return self._ty

    def _with_attrs(self, attrs: DictAttrs) -> PrimFunc:
        made = PrimFunc.__new__(PrimFunc)
        made._handle, made._changed, made._attrs, made._ty = self._handle, True, attrs, MISSING
        made._parts = self._parts
        return made

    def _seal(self, name: str | None = None, globals: Mapping[str, Any] | None = None) -> _passhost.Body:
        """As the host knows it."""
        if not self._changed:
            return self._handle
        return _passhost.with_function_attrs(self._handle, dict(self._attrs), name)

    def script(self, **_options: Any) -> str:
        """As TVMScript."""
        name = str(self.attrs.get("global_symbol", "main"))
        return _passhost.print_function(name, self._seal(name))


_FUNCTIONS: weakref.WeakValueDictionary[tuple[_passhost.Body, str], PrimFunc] = weakref.WeakValueDictionary()
