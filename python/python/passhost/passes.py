"""Plugin passes by name: `passhost.passes.acme.GroupConvolutions(through=["relax.nn.relu"])`.

Signatures and documentation come from the plugins' metadata, without running their code:

>>> import passhost, inspect
>>> inspect.signature(passhost.passes.relax.FuseOps)
<Signature (*, fuse_opt_level: int = -1) -> passhost._passes.PluginPass>
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from passhost import _given, _passhost, _plugins
from passhost._numpy import is_scalar
from passhost._passes import PluginPass
from passhost.error import NameNotFoundError

_TYPES: dict[str, Any] = {
    "bool": bool,
    "int": int,
    "float": float,
    "string": str,
    "list of bool": list[bool],
    "list of int": list[int],
    "list of float": list[float],
    "list of string": list[str],
}


class PassMaker:
    """Creates passes of one name; options are keyword arguments."""

    def __init__(self, name: str) -> None:
        """Creates an object that creates passes with this full name."""
        facts = _passhost.pass_facts(name)
        self.__name__ = self.__qualname__ = name.rpartition(".")[2]
        self.__doc__ = _documentation(facts)
        self._name = name
        self.__signature__ = _signature(facts)

    def __call__(self, *args: Any, **options: Any) -> PluginPass:
        """Returns the pass with these options."""
        try:
            given = self.__signature__.bind(*args, **options).arguments
        except TypeError as error:
            raise TypeError(f"{self._name}{self.__signature__}: {error}") from None
        types = self.__signature__.parameters
        checked = {name: _checked(self._name, name, types[name].annotation, value) for name, value in given.items()}
        return PluginPass(self._name, checked)

    def __repr__(self) -> str:
        """Returns the name."""
        return f"<pass {self._name}>"


def _checked(of: str, name: str, expected: Any, value: Any) -> Any:
    """Converts the value of an option to the host's form. Raises `TypeError` or `ValueError` if it is invalid."""
    items = getattr(expected, "__args__", None)
    if items:
        if not isinstance(value, list | tuple):
            raise TypeError(f"{of}: {name} must be of type {expected}, not {value!r}")
        return [_checked(of, f"an element of {name}", items[0], item) for item in value]
    taken = value.item() if is_scalar(value) else value
    fits = isinstance(taken, (int, float) if expected is float else expected)
    if not fits or (isinstance(taken, bool) and expected is not bool):
        raise TypeError(f"{of}: {name} must be of type {expected.__name__}, not {value!r}")
    return _given.plain(f"{of}: {name}", taken)


def _signature(facts: dict[str, Any]) -> inspect.Signature:
    parameters = [
        inspect.Parameter(
            option["name"],
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if option["required"] else option["default"],
            annotation=_TYPES[option["type"]],
        )
        for option in facts["options"]
    ]
    return inspect.Signature(parameters, return_annotation=PluginPass)


def _documentation(facts: dict[str, Any]) -> str:
    lines = [facts["doc"].strip()]
    if facts["options"]:
        lines += ["", "Options:"]
        for option in facts["options"]:
            lines.append(f"    {option['name']}: {' '.join(option['doc'].split())}")
    lines += ["", f"Plugin {facts['plugin']}, opt_level {facts['opt_level']}, works on: {facts['granularity']}."]
    if facts["required"]:
        lines.append(f"Requires {', '.join(facts['required'])}.")
    return "\n".join(lines)


class Namespace:
    """The passes with a common prefix."""

    def __init__(self, prefix: str = "") -> None:
        """Creates a namespace from the prefix, which ends with a dot unless it is empty."""
        self._prefix = prefix

    def _names(self) -> list[str]:
        _plugins.ensure_loaded()
        return [name for name in _passhost.pass_names() if name.startswith(self._prefix)]

    def __getattr__(self, word: str) -> Any:
        """Returns the pass or namespace with this name."""
        if word.startswith("__"):
            raise AttributeError(word)
        names, full = self._names(), self._prefix + word
        if full in names:
            return PassMaker(full)
        if any(name.startswith(f"{full}.") for name in names):
            return Namespace(f"{full}.")
        _passhost.find_pass(full)
        raise NameNotFoundError(f"unknown pass `{full}`")

    def __getitem__(self, name: str) -> PassMaker:
        """Returns a pass by its full name, or by its short name if that is unique."""
        _given.text("the name of a pass", name)
        _plugins.ensure_loaded()
        return PassMaker(_passhost.find_pass(self._prefix + name))

    def __dir__(self) -> list[str]:
        """Lists the names in the namespace."""
        return sorted({name[len(self._prefix) :].split(".")[0] for name in self._names()})

    def __repr__(self) -> str:
        """Returns the prefix."""
        return f"<passes {self._prefix}*>"


class TvmNames:
    """The passes of one namespace in TVM's form: functions that also accept options by position."""

    def __init__(self, namespace: str) -> None:
        """Creates the names of a namespace, given without the dot."""
        self._prefix = f"{namespace}."

    def find(self, name: str) -> Callable[..., PluginPass]:
        """Returns the function that creates passes named `name`. Raises `AttributeError` if there is no such pass."""
        if name.startswith("_"):
            raise AttributeError(name)
        _plugins.ensure_loaded()
        try:
            facts = _passhost.pass_facts(self._prefix + name)
        except NameNotFoundError:
            raise AttributeError(f"no pass {self._prefix}{name}") from None
        return _in_order(name, facts)

    def names(self) -> list[str]:
        """Returns the names of the passes."""
        _plugins.ensure_loaded()
        names = _passhost.pass_names()
        return [name.removeprefix(self._prefix) for name in names if name.startswith(self._prefix)]


def _in_order(name: str, facts: dict[str, Any]) -> Callable[..., PluginPass]:
    """Returns a function that creates a plugin pass, with options by position or by name."""
    types = {option["name"]: _TYPES[option["type"]] for option in facts["options"]}
    names = list(types)

    def make(*args: Any, **kwargs: Any) -> PluginPass:
        if len(args) > len(names):
            raise TypeError(f"{name}() takes {len(names)} arguments, found {len(args)}")
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        unknown = [key for key in given if key not in names]
        if unknown:
            raise TypeError(f"{name}() has no option {unknown[0]!r}; there are: {', '.join(names) or 'none'}")
        # None means that the option is omitted.
        given = {key: value for key, value in given.items() if value is not None}
        return PluginPass(facts["name"], {key: _checked(name, key, types[key], value) for key, value in given.items()})

    make.__name__ = make.__qualname__ = name
    make.__doc__ = facts["doc"]
    return make


passes = Namespace()
"""All passes of the process."""
