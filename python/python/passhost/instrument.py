"""Instruments: they observe every pass of a run and may veto it, but cannot change modules.

>>> import passhost
>>> from passhost.instrument import pass_instrument
>>> @pass_instrument
... class Names:
...     def run_before_pass(self, mod, info):
...         print("before", info.name)
>>> mod = passhost.script.from_source('''
... @I.ir_module
... class Module:
...     @R.function
...     def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
...         return R.add(x, x)
... ''')
>>> with passhost.transform.PassContext(instruments=[Names()]):
...     mod = passhost.passes.relax.Normalize()(mod)
before relax.Normalize
"""

from __future__ import annotations

import functools
import inspect
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from passhost import _passhost
from passhost._pass_info import PassInfo, shown_info
from passhost.error import PassFailedError
from passhost.ir.module import IRModule

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "DumpIR",
    "PassInstrument",
    "PassPrintingInstrument",
    "PassTimingInstrument",
    "PrintAfterAll",
    "PrintBeforeAll",
    "pass_instrument",
]


class PassInstrument:
    """An instrument. Subclasses override the hooks that they need; only overridden hooks are called."""

    @property
    def name(self) -> str:
        """The name used in error messages."""
        return type(self).__name__

    def enter_pass_ctx(self) -> None:
        """Called when the context is entered."""

    def exit_pass_ctx(self) -> None:
        """Called when the context is left."""

    def should_run(self, mod: IRModule, info: PassInfo) -> bool:
        """Returns true if a pass may run; all instruments must agree."""
        return True

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Called before a pass runs."""

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Called after a pass ran, with its result `mod`."""


class Watcher(NamedTuple):
    """The hooks that an instrument defines, in the form that the host calls."""

    name: str
    should_run: Any
    run_before_pass: Any
    run_after_pass: Any


def _hook(instrument: PassInstrument, name: str) -> Callable[[_passhost.Module, Any], Any] | None:
    """Returns a hook in the form that the host calls, or None if the class does not override it."""
    if getattr(type(instrument), name) is getattr(PassInstrument, name):
        return None
    own = getattr(instrument, name)

    def call(handle: _passhost.Module, facts: tuple[str, int, list[str], str, int]) -> Any:
        try:
            return own(IRModule._of(handle), shown_info(*facts))
        except SystemExit as exit:
            raise PassFailedError(f"instrument {instrument.name} called sys.exit({exit.code!r})") from exit

    return call


def watcher(instrument: PassInstrument) -> Watcher:
    """Returns the hooks of an instrument."""
    hooks = (_hook(instrument, name) for name in ("should_run", "run_before_pass", "run_after_pass"))
    return Watcher(instrument.name, *hooks)


def pass_instrument(pi_cls: type[Any] | None = None) -> Any:
    """Turns a class with any of the hooks into an instrument class, whose objects are `PassInstrument`s."""

    def create(cls: type[Any]) -> type[PassInstrument]:
        if not inspect.isclass(cls):
            raise TypeError("pi_cls must be a class")

        made: type[PassInstrument] = type(cls.__name__, (cls, PassInstrument), {"__doc__": cls.__doc__})
        made.__module__, made.__qualname__ = cls.__module__, cls.__qualname__
        functools.update_wrapper(made.__init__, cls.__init__) if "__init__" in vars(made) else None
        return made

    return create if pi_cls is None else create(pi_cls)


class PassTimingInstrument(PassInstrument):
    """Measures passes. `render()` returns the times as text; `profiles` contains them as data.

    A nested pass is indented below the pass that runs it.
    """

    def __init__(self) -> None:
        """Starts without measurements."""
        self.profiles: list[tuple[int, str, float]] = []
        """The depth, name and seconds of each pass, in the order in which they started."""
        self._open: list[tuple[int, float]] = []

    def enter_pass_ctx(self) -> None:
        """Discards earlier measurements."""
        self.profiles.clear()
        self._open.clear()

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Starts the clock of a pass."""
        self.profiles.append((len(self._open), info.name, 0.0))
        self._open.append((len(self.profiles) - 1, time.perf_counter()))

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Stops the clock of a pass."""
        at, start = self._open.pop()
        depth, name, _ = self.profiles[at]
        self.profiles[at] = (depth, name, time.perf_counter() - start)

    def render(self) -> str:
        """Returns one line per pass: its name, microseconds, and share of the total."""
        total = sum(seconds for depth, _, seconds in self.profiles if depth == 0)
        lines = (
            f"{'    ' * depth}{name}: {seconds * 1e6:.0f}us ({seconds / total if total else 0:.2%})"
            for depth, name, seconds in self.profiles
        )
        return "\n".join([*lines, f"Total time: {total * 1e3:.4f}ms", ""])


class PassPrintingInstrument(PassInstrument):
    """Prints the module before and after the named passes."""

    def __init__(self, print_before_pass_names: list[str], print_after_pass_names: list[str]) -> None:
        """Creates an instrument for passes with these names, as in `PassInfo.name`."""
        self.print_before_pass_names = print_before_pass_names
        self.print_after_pass_names = print_after_pass_names

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Prints the module if `print_before_pass_names` contains the name of the pass."""
        if info.name in self.print_before_pass_names:
            _print("Before", mod, info)

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Prints the module if `print_after_pass_names` contains the name of the pass."""
        if info.name in self.print_after_pass_names:
            _print("After", mod, info)


def _print(when: str, mod: IRModule, info: PassInfo) -> None:
    print(f"{when} Running Pass:", info)
    print(mod.script())


class PrintBeforeAll(PassInstrument):
    """Prints the module before each pass."""

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Prints the module."""
        _print("Before", mod, info)


class PrintAfterAll(PassInstrument):
    """Prints the module after each pass."""

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Prints the module."""
        _print("After", mod, info)


class DumpIR(PassInstrument):
    """Writes the module after each pass to a file in a folder: `000_Name.py`, `001_Name.py` and so on."""

    def __init__(self, dump_dir: Path | str, refresh: bool = False) -> None:
        """Creates an instrument that writes to the folder; `refresh` empties it first."""
        from pathlib import Path

        self.dump_dir = Path(dump_dir)
        self.counter = 0
        if refresh and self.dump_dir.is_dir():
            import shutil

            shutil.rmtree(self.dump_dir)

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Writes the module."""
        name = re.sub(r"[^\w.-]", "_", info.name)
        self.dump_dir.mkdir(parents=True, exist_ok=True)
        (self.dump_dir / f"{self.counter:03d}_{name}.py").write_text(mod.script(), encoding="utf-8")
        self.counter += 1
