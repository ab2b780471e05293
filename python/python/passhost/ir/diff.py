"""Differences between two modules.

>>> import passhost
>>> mod = passhost.script.from_source('''
... @I.ir_module
... class Module:
...     @R.function
...     def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
...         y = R.add(x, x)
...         z = R.multiply(x, x)
...         return y
... ''')
>>> changed = diff(mod, passhost.passes.relax.DeadCodeElimination()(mod))
>>> [(function.name, function.change) for function in changed]
[('main', 'changed')]
>>> [line for line in str(changed).splitlines() if line.startswith("-    ")]
['-        z: R.Tensor((2,), dtype="float32") = R.multiply(x, x)']
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from passhost import _html, _passhost, _plugins
from passhost.ir.module import IRModule

__all__ = ["FunctionDiff", "ModuleDiff", "diff"]


@dataclass(frozen=True)
class FunctionDiff:
    """A function that was `added`, `removed` or `changed`. `text` contains the differences as a unified diff."""

    name: str
    change: str
    text: str

    def __str__(self) -> str:
        """Returns the name of the function, the kind of change, and the lines."""
        return f"{self.name}: {self.change}\n{self.text}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _html.folded(f"{self.name}: {self.change}", _html.diff(self.text), True)


@dataclass(frozen=True)
class ModuleDiff:
    """The functions that differ between two modules; false if there are none."""

    functions: tuple[FunctionDiff, ...]

    def __iter__(self) -> Iterator[FunctionDiff]:
        """Iterates over the functions by name."""
        return iter(self.functions)

    def __len__(self) -> int:
        """Returns the number of functions that differ."""
        return len(self.functions)

    def __getitem__(self, name: str) -> FunctionDiff:
        """Returns the difference of a function; raises `KeyError` if there is none."""
        for function in self.functions:
            if function.name == name:
                return function
        raise KeyError(f"no function {name!r} differs")

    def __str__(self) -> str:
        """Returns all differences as text."""
        return "\n".join(map(str, self.functions)) or "no function differs"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        folded = [
            _html.folded(f"{each.name}: {each.change}", _html.diff(each.text), len(self.functions) == 1)
            for each in self.functions
        ]
        return f"<div>{''.join(folded)}</div>" if folded else _html.preformatted("no function differs")


def diff(before: IRModule, after: IRModule) -> ModuleDiff:
    """Returns the functions that were added, removed, or are not structurally equal to their namesakes."""
    for mod in (before, after):
        if not isinstance(mod, IRModule):
            raise TypeError(f"only modules can be compared, not {type(mod).__name__}")
    _plugins.ensure_loaded()
    old, new = dict(before._handle().functions()), dict(after._handle().functions())
    differing = []
    for name in sorted(old.keys() | new.keys()):
        was, now = old.get(name), new.get(name)
        if was is None or now is None or not (was == now or was.structural_equal(now)):
            change = "added" if was is None else "removed" if now is None else "changed"
            texts = ["" if body is None else _passhost.print_function(name, body, False) for body in (was, now)]
            text = _passhost.unified(*texts) or "only the data of large constants differs"
            differing.append(FunctionDiff(name, change, text))
    return ModuleDiff(tuple(differing))
