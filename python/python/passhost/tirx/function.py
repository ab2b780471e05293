"""TIR functions."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from passhost import _passhost, _plugins, _provided
from passhost.error import IllFormedError, ScriptError
from passhost.ir.attrs import DictAttrs
from passhost.ir.expr import Var
from passhost.ir.function import BaseFunc
from passhost.ir.type import MISSING, PrimType, Type
from passhost.tirx.stmt import Stmt


class PrimFunc(BaseFunc):
    """A TIR function.

    A function from the host is a handle; parameters and body are created on first access.
    """

    __slots__ = ("__weakref__", "_changed", "_handle", "_parts", "_returns")
    _handle: _passhost.Body | None
    _changed: bool
    _parts: tuple[tuple[Var, ...], Stmt] | None
    _returns: PrimType | None

    def __init__(
        self,
        params: Sequence[Var],
        body: Stmt,
        ret_type: PrimType | str | None = None,
        attrs: Mapping[str, Any] | None = None,
        span: Any = None,
    ) -> None:
        """Creates a function from parameters, statements, the result type if there is a result, and attributes.

        The host parses the function's text when it first needs the function, and then raises `IllFormedError` if the
        function is ill-formed.
        """
        if not isinstance(body, Stmt):
            raise TypeError(f"the body of a PrimFunc must be a statement, not {type(body).__name__}")
        self._handle, self._changed, self._ty, self._attrs = None, True, MISSING, DictAttrs(attrs)
        self._parts = (tuple(params), body)
        self._returns = PrimType(ret_type) if ret_type is not None else None

    @staticmethod
    def _of(handle: _passhost.Body, name: str) -> PrimFunc:
        """Wraps a function of the host, under its name in a module."""
        found = _FUNCTIONS.get((handle, name))
        if found is None:
            found = PrimFunc.__new__(PrimFunc)
            found._handle, found._changed, found._ty, found._parts = handle, False, MISSING, None
            found._returns = None
            found._attrs = DictAttrs(_passhost.function_attrs(handle, name))
            _FUNCTIONS[(handle, name)] = found
        return found

    @property
    def params(self) -> tuple[Var, ...]:
        """The parameters: scalars, handles, and buffers in place of their handles."""
        return self._expanded()[0]

    @property
    def body(self) -> Stmt:
        """The statements. Blocks are inside a block `root`."""
        return self._expanded()[1]

    def _expanded(self) -> tuple[tuple[Var, ...], Stmt]:
        parts = self._parts
        if parts is None:
            parts = self._parts = _passhost.expand_prim_func(self._made())
        return parts

    @property
    def ty(self) -> Type:  # type: ignore[override]
        """The type, as Relax functions see it."""
        if self._ty is MISSING:
            self._ty = _passhost.prim_func_type(self._made())
        return self._ty

    def _with_attrs(self, attrs: DictAttrs) -> PrimFunc:
        made = PrimFunc.__new__(PrimFunc)
        made._handle, made._changed, made._attrs, made._ty = self._handle, True, attrs, MISSING
        made._parts, made._returns = self._parts, self._returns
        return made

    def _seal(self, name: str | None = None, globals: Mapping[str, Any] | None = None) -> _passhost.Body:
        """Converts the function to the host's form."""
        handle = self._made()
        if not self._changed:
            return handle
        return _passhost.with_function_attrs(handle, dict(self._attrs), name)

    def _made(self) -> _passhost.Body:
        """Converts the function to the host's form, possibly with other attributes."""
        if self._handle is None:
            # Imported here, because few programs create functions from statements.
            from passhost.tirx.text import function_text

            params, body = self._expanded()
            s_tir, private = bool(self.attrs.get("s_tir")), "global_symbol" not in self.attrs
            text = function_text(params, body, self._returns, s_tir, private)
            _plugins.ensure_loaded()
            try:
                module, _ = _passhost.read_module("<PrimFunc>", text)
            except ScriptError as error:
                raise IllFormedError(f"the PrimFunc is ill-formed: {error}") from error
            [(_, self._handle)] = module.functions()
        return self._handle

    def script(self, *, show_meta: bool = False, **_options: Any) -> str:
        """Returns the function as TVMScript.

        If its constants take 64 KiB or more in total, their data is omitted unless `show_meta` is true. A text without
        the data cannot be read.
        """
        name = str(self.attrs.get("global_symbol", "main"))
        return _passhost.print_function(name, self._seal(name), show_meta)


_FUNCTIONS: weakref.WeakValueDictionary[tuple[_passhost.Body, str], PrimFunc] = weakref.WeakValueDictionary()


def _of_host(body: _passhost.Body, name: str, _before: BaseFunc | None) -> PrimFunc:
    return PrimFunc._of(body, name)


def _text_of(node: Any) -> str:
    # Imported here, because few programs print parts of functions.
    from passhost.tirx.text import node_text

    return node_text(node)


_provided.text_of = _text_of
_provided.functions_of_kind["tir"] = _of_host
