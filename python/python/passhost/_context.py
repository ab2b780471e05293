"""Pass contexts, and the context that is current on each thread."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import Any, NamedTuple

from passhost import _given, _passhost, _plugins
from passhost._pass_info import Compat, Step
from passhost.error import Diagnostic
from passhost.instrument import PassInstrument, Watcher, watcher

_entered: ContextVar[tuple[PassContext, ...]] = ContextVar("passhost_contexts", default=())


class _Default(threading.local):
    """The default context of a thread, which is current until the thread enters another context."""

    context: PassContext | None = None


_default = _Default()


class Settings(NamedTuple):
    """The settings of a context, in the form that the host reads."""

    opt_level: int
    required: Sequence[str]
    disabled: Sequence[str]
    config: Sequence[tuple[str, Any]]
    target: str | None
    tvm_compat: bool
    jobs: int | None
    missed: bool
    plugin_instruments: Sequence[str]
    watchers: Sequence[Watcher]


def _flat(config: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Flattens config values to full keys; a nested dictionary is a record of fields."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{before}{key}."))
        else:
            flat[f"{before}{key}"] = _given.plain(f"config {before}{key}", value)
    return flat


class PassContext:
    """The settings under which passes run: opt_level, required and disabled passes, config options, instruments.

    >>> with PassContext(opt_level=3, disabled_pass=["relax.FuseOps"]) as context:
    ...     PassContext.current() is context
    True

    `tvm_compat=True` follows the rules of TVM 0.27: a pass that is called directly runs at any opt_level, and without
    the passes that it requires. `jobs` is the number of threads for passes over functions. With `missed=True`,
    `diagnostics` also contains missed optimizations. `instruments` may contain instrument objects and names of plugin
    instruments.
    """

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Iterable[str] | None = None,
        disabled_pass: Iterable[str] | None = None,
        instruments: Iterable[PassInstrument | str] | None = None,
        config: Mapping[str, Any] | None = None,
        *,
        target: str | None = None,
        tvm_compat: bool | None = None,
        jobs: int | None = None,
        missed: bool = False,
    ) -> None:
        """Checks the names and types of config values. Names of passes are checked at each run."""
        self.opt_level = _given.level("opt_level", opt_level)
        self.required_pass = _given.names("required_pass", required_pass)
        self.disabled_pass = _given.names("disabled_pass", disabled_pass)
        self.instruments = self._checked(instruments)
        if config is not None and not isinstance(config, Mapping):
            raise TypeError(f"config must be a dict that maps keys to values, not {config!r}")
        self.config: dict[str, Any] = dict(config or {})
        self.target = None if target is None else _given.text("target", target)
        self.tvm_compat = Compat.tvm if tvm_compat is None else _given.flag("tvm_compat", tvm_compat)
        self.jobs = None if jobs is None else _given.amount("jobs", jobs)
        self.missed = _given.flag("missed", missed)
        self.diagnostics: list[Diagnostic] = []
        """The last 10,000 diagnostics that passes reported in this context."""
        self._steps: list[Step] | tuple[Any, ...] = []
        """The steps of the last run, or a function that creates them on demand, with its arguments."""
        self._flat = _flat(self.config)
        self._depth = 0
        self._calling = False
        """True while a pass is called directly. The host must then be notified of the passes that this pass runs."""
        if self._flat:
            _plugins.ensure_loaded()
            for key, value in self._flat.items():
                _passhost.check_config(key, value)

    @staticmethod
    def _checked(instruments: Iterable[PassInstrument | str] | None) -> list[PassInstrument | str]:
        if instruments is not None and (isinstance(instruments, str) or not isinstance(instruments, Iterable)):
            raise TypeError(f"instruments must be a list of instruments, not {instruments!r}; write [{instruments!r}]")
        given = list(instruments or ())
        for instrument in given:
            if not isinstance(instrument, PassInstrument | str):
                raise TypeError(
                    f"an instrument must be a PassInstrument or the name of a plugin's instrument, not {instrument!r}; "
                    "decorate its class with @pass_instrument"
                )
        return given

    @property
    def steps(self) -> list[Step]:
        """Returns the steps of the last run in this context, with their times."""
        steps = self._steps
        if isinstance(steps, tuple):
            steps = self._steps = steps[0](*steps[1:])
        return steps

    @staticmethod
    def current() -> PassContext:
        """Returns the innermost entered context, or this thread's default context."""
        entered = _entered.get()
        if entered:
            return entered[-1]
        context: PassContext | None = _default.context
        if context is None:
            context = _default.context = PassContext()
        return context

    def _only_calls(self) -> bool:
        """Returns true if a pass without requirements can be called directly, because the context has neither
        instruments nor disabled passes."""
        return not (
            self.instruments
            or self._calling
            or self.disabled_pass
            or self.required_pass
            or self._flat
            or self.target is not None
        )

    @staticmethod
    def list_configs() -> dict[str, dict[str, Any]]:
        """Returns all config options by key, with `type`, `default` and `doc`."""
        _plugins.ensure_loaded()
        return {option.pop("name"): option for option in _passhost.config_options()}

    def __enter__(self) -> PassContext:
        """Enters the instruments in order. If one fails, exits the earlier ones; the context is then not entered."""
        if self._depth == 0:
            self._enter_instruments()
            self._calling = PassContext.current()._calling
        self._depth += 1
        _entered.set((*_entered.get(), self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Exits the instruments in order."""
        entered = _entered.get()
        if not entered or entered[-1] is not self:
            raise RuntimeError("this PassContext is not the innermost one; use it in a `with` statement")
        _entered.set(entered[:-1])
        self._depth -= 1
        if self._depth == 0:
            self._exit_instruments()

    def _enter_instruments(self) -> None:
        done: list[PassInstrument] = []
        try:
            for instrument in self.instruments:
                if isinstance(instrument, PassInstrument):
                    instrument.enter_pass_ctx()
                    done.append(instrument)
        except BaseException:
            self.instruments = []
            for instrument in reversed(done):
                instrument.exit_pass_ctx()
            raise

    def _exit_instruments(self) -> None:
        try:
            for instrument in self.instruments:
                if isinstance(instrument, PassInstrument):
                    instrument.exit_pass_ctx()
        except BaseException:
            self.instruments = []
            raise

    def override_instruments(self, instruments: Iterable[PassInstrument | str] | None) -> None:
        """Exits the instruments of this context and enters the given instruments instead."""
        new = self._checked(instruments)
        if self._depth:
            self._exit_instruments()
        self.instruments = new
        if self._depth:
            self._enter_instruments()

    def _settings(self) -> Settings:
        """Returns the settings for a run."""
        plugins = [instrument for instrument in self.instruments if isinstance(instrument, str)]
        watchers = [watcher(instrument) for instrument in self.instruments if not isinstance(instrument, str)]
        return Settings(
            self.opt_level,
            self.required_pass,
            self.disabled_pass,
            list(self._flat.items()),
            self.target,
            self.tvm_compat,
            self.jobs,
            self.missed,
            plugins,
            watchers,
        )

    def _heard(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics.extend(diagnostics)
        del self.diagnostics[:-10_000]

    def __repr__(self) -> str:
        """Returns the constructor call."""
        parts = [f"opt_level={self.opt_level}"]
        for name in ("required_pass", "disabled_pass", "instruments"):
            if getattr(self, name):
                parts.append(f"{name}={list(getattr(self, name))!r}")
        if self.config:
            parts.append(f"config={self.config!r}")
        return f"PassContext({', '.join(parts)})"
