"""Functions of modules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from passhost import _html, _passhost, _provided
from passhost.ir.attrs import DictAttrs
from passhost.ir.expr import ExprWithOp, _Callable
from passhost.ir.type import Type

if TYPE_CHECKING:
    import numpy.typing as npt


class BaseFunc(_Callable, ExprWithOp):
    """A function of a module."""

    __slots__ = ("attrs",)
    attrs: DictAttrs
    _attrs: DictAttrs
    _ty: Type

    def _with_attrs(self, attrs: DictAttrs) -> Self:
        """Returns a copy with these attributes."""
        raise TypeError(f"{type(self).__name__} does not have attributes")

    def _seal(self, name: str | None = None, globals: Mapping[str, Any] | None = None) -> _passhost.Body:
        """Converts the function to the host's form, with its name in a module and the module's other functions."""
        raise TypeError(f"{type(self).__name__} is not a function of a module")

    def _as_global(self, name: str) -> _passhost.Body | Type:
        """Returns the part of the function that callers depend on: its host form, or its type."""
        return self._seal(name)

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickles the function as the JSON of `passhost.ir.save_json`."""
        return _provided.pickled(self)

    def table(self, name: str = "nodes") -> npt.NDArray[Any]:
        """Returns records of the function as a read-only NumPy array, without a copy; `passhost.ir.table` documents
        tables and columns.

        Raises `ValueError` if there is no such table.
        """
        # Imported here, because creating its enumerations takes 2 % of the time of `import passhost`.
        from passhost.ir.table import table

        return table(self, name)

    def _repr_html_(self) -> str:
        return _html.script(self.script())

    def with_attr(self, attr_key_or_dict: str | Mapping[str, Any], attr_value: Any = None) -> Self:
        """Returns a copy with one more attribute, or with the attributes in a dict."""
        more = {attr_key_or_dict: attr_value} if isinstance(attr_key_or_dict, str) else attr_key_or_dict
        return self.with_attrs(more)

    def with_attrs(self, attr_map: Mapping[str, Any] | None) -> Self:
        """Returns a copy with more attributes."""
        return self._with_attrs(DictAttrs({**self.attrs, **(attr_map or {})}))

    def without_attr(self, attr_key: str) -> Self:
        """Returns a copy without an attribute."""
        return self._with_attrs(DictAttrs({key: value for key, value in self.attrs.items() if key != attr_key}))
