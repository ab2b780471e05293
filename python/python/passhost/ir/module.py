"""Modules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

from passhost import _html, _passhost, _plugins, _provided
from passhost.error import NameNotFoundError
from passhost.ir.attrs import DictAttrs
from passhost.ir.expr import GlobalVar
from passhost.ir.function import BaseFunc

_new = object.__new__
_NOTHING: dict[str, BaseFunc] = {}


class IRModule:
    """A module: functions by name. Functions from the host are not converted; added functions are converted when the
    host needs them."""

    __slots__ = ("__weakref__", "_attrs", "_base", "_before", "_changed", "_infos", "_seen")
    _before: dict[str, BaseFunc]
    """Functions visited in the module from which a pass created this module. This module reuses their variables."""
    _base: _passhost.Module
    _changed: dict[str, BaseFunc | None]
    _attrs: DictAttrs | None
    _infos: dict[str, Any] | None

    def __init__(
        self,
        functions: Mapping[GlobalVar | str, BaseFunc] | None = None,
        attrs: Mapping[str, Any] | None = None,
        global_infos: Mapping[str, Any] | None = None,
    ) -> None:
        """Creates a module from functions by name, attributes, and global infos."""
        self._base = _passhost.Module([])
        self._seen: dict[str, BaseFunc] = {}
        self._before = {}
        self._changed = {}
        self._attrs = DictAttrs(attrs) if attrs else None
        self._infos = dict(global_infos) if global_infos else None
        for name, function in (functions or {}).items():
            self[name] = function

    @staticmethod
    def _of(handle: _passhost.Module, before: IRModule | None = None) -> IRModule:
        """Wraps a host module; returns `before` if it wraps the same host module."""
        if before is not None and not before._changed and before._base == handle and before._attrs is None:
            return before
        mod = _new(IRModule)
        mod._base = handle
        mod._attrs = mod._infos = None
        mod._changed, mod._seen = {}, {}
        mod._before = _NOTHING if before is None else {**before._before, **before._seen}
        return mod

    def _is(self, handle: _passhost.Module) -> bool:
        """Returns true if this object wraps the given host module and has not changed since."""
        return self._base is handle and not self._changed and self._attrs is None and self._infos is None

    def _handle(self) -> _passhost.Module:
        """Returns the host's module. Raises `IllFormedError` if an added function is ill-formed."""
        if self._changed:
            self._base = self._base.updated(list(self._sealed().items()))
            self._seen.update((name, function) for name, function in self._changed.items() if function is not None)
            self._changed = {}
        if self._attrs is not None or self._infos is not None:
            attrs = self._attrs if self._attrs is not None else _passhost.module_attrs(self._base)
            self._base = _passhost.with_module_attrs(self._base, dict(attrs), dict(self._infos or {}))
            self._attrs = self._infos = None
        return self._base

    def _sealed(self) -> dict[str, _passhost.Body | None]:
        _plugins.ensure_loaded()
        globals: dict[str, Any] = dict(self._base.functions())
        for name, function in self._changed.items():
            if function is not None:
                globals[name] = function._as_global(name)
        return {
            name: None if function is None else function._seal(name, globals)
            for name, function in self._changed.items()
        }

    def __getitem__(self, var: GlobalVar | str) -> BaseFunc:
        """Returns a function."""
        name = _name(var)
        if name in self._changed:
            found = self._changed[name]
            if found is not None:
                return found
        else:
            body = self._base.get(name)
            if body is not None:
                # As long as the module exists, it returns the same function objects, with the same variables.
                wrap = _provided.functions_of_kind[body.kind]
                made: BaseFunc = wrap(body, name, self._before.pop(name, None))
                self._seen[name] = made
                return made
        raise NameNotFoundError(f"Cannot find global var {name} in the Module; there are: {', '.join(self._names())}")

    def __setitem__(self, var: GlobalVar | str, func: BaseFunc) -> None:
        """Adds or replaces a function."""
        if not isinstance(func, BaseFunc):
            raise TypeError(f"a module contains functions, not {type(func).__name__}")
        self._changed[_name(var)] = func

    def __delitem__(self, var: GlobalVar | str) -> None:
        """Removes a function."""
        self[var]
        self._changed[_name(var)] = None

    def __contains__(self, var: object) -> bool:
        """Returns true if the module has a function with this name."""
        return (var.name_hint if isinstance(var, GlobalVar) else var) in self._names()

    def __len__(self) -> int:
        """Returns the number of functions."""
        return len(self._names())

    def __iter__(self) -> Iterator[GlobalVar]:
        """Iterates over the names of the functions."""
        return iter(self.get_global_vars())

    def _names(self) -> list[str]:
        names = {name for name, _ in self._base.functions()} | self._changed.keys()
        return sorted(name for name in names if self._changed.get(name, self) is not None)

    @property
    def functions(self) -> dict[GlobalVar, BaseFunc]:
        """All functions."""
        return dict(self.functions_items())

    def functions_items(self) -> list[tuple[GlobalVar, BaseFunc]]:
        """Returns all functions with their names, sorted by name."""
        items = []
        for name in self._names():
            function = self[name]
            items.append((GlobalVar(name, function.ty if name in self._changed else None), function))
        return items

    def get_global_vars(self) -> list[GlobalVar]:
        """Returns the names of the functions."""
        return [GlobalVar(name) for name in self._names()]

    def get_global_var(self, name: str) -> GlobalVar:
        """Returns the global variable of the function named `name`."""
        return GlobalVar(name, self[name].ty)

    def update(self, other: IRModule | Mapping[GlobalVar | str, BaseFunc]) -> None:
        """Adds the functions of another module, and replaces functions of the same names."""
        items = other.functions_items() if isinstance(other, IRModule) else list(other.items())
        for var, function in items:
            self[var] = function

    def update_func(self, var: GlobalVar | str, func: BaseFunc) -> None:
        """Replaces a function."""
        self[var] = func

    @property
    def attrs(self) -> DictAttrs:
        """The attributes of the module."""
        return self._attrs if self._attrs is not None else DictAttrs(_passhost.module_attrs(self._base))

    @property
    def global_infos(self) -> dict[str, Any]:
        """The global infos, which types can refer to."""
        return dict(self._infos if self._infos is not None else _passhost.module_infos(self._base))

    def get_attr(self, attr_key: str) -> Any:
        """Returns an attribute, or None."""
        return self.attrs.get(attr_key)

    def with_attr(self, attr_key: str, attr_value: Any) -> IRModule:
        """Returns a copy with one more attribute."""
        return self.with_attrs({attr_key: attr_value})

    def with_attrs(self, attr_map: Mapping[str, Any]) -> IRModule:
        """Returns a copy with more attributes."""
        made = self.clone()
        made._attrs = DictAttrs({**self.attrs, **attr_map})
        return made

    def without_attr(self, attr_key: str) -> IRModule:
        """Returns a copy without an attribute."""
        made = self.clone()
        made._attrs = DictAttrs({key: value for key, value in self.attrs.items() if key != attr_key})
        return made

    def clone(self) -> Self:
        """Returns a copy with the same functions."""
        made = type(self).__new__(type(self))
        made._base, made._changed, made._attrs, made._infos = self._base, dict(self._changed), self._attrs, self._infos
        made._seen, made._before = dict(self._seen), dict(self._before)
        return made

    def __copy__(self) -> Self:
        """Returns a copy with the same functions."""
        return self.clone()

    def __deepcopy__(self, memo: object) -> Self:
        """Returns a copy with the same functions, because they are immutable."""
        return self.clone()

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickles the module as the JSON of `passhost.ir.save_json`."""
        return _provided.pickled(self)

    @staticmethod
    def from_expr(expr: Any, functions: Mapping[GlobalVar | str, BaseFunc] | None = None) -> IRModule:
        """Creates a module from one function, under its global symbol or `main`, and other functions."""
        if not isinstance(expr, BaseFunc):
            expr = _provided.function_of(expr)
        name = str(expr.attrs.get("global_symbol", "main"))
        return IRModule({**(functions or {}), name: expr})

    def script(self, *, show_meta: bool = False, **_options: Any) -> str:
        """Returns the module as TVMScript.

        If its constants take 64 KiB or more in total, their data is omitted unless `show_meta` is true. A text without
        the data cannot be read.
        """
        _plugins.ensure_loaded()
        return _passhost.print_module(self._handle(), show_meta)

    def show(self, *, show_meta: bool = False, **_options: Any) -> None:
        """Prints the module."""
        print(self.script(show_meta=show_meta))

    def same_as(self, other: object) -> bool:
        """Returns true if both are the same object."""
        return self is other

    def __repr__(self) -> str:
        """Returns the module as TVMScript."""
        return self.script()

    def _repr_html_(self) -> str:
        return _html.script(self.script())


def _name(var: object) -> str:
    if isinstance(var, GlobalVar):
        return var.name_hint
    if isinstance(var, str):
        return var
    raise TypeError(f"a function must be looked up by a str or GlobalVar, not {type(var).__name__}")
