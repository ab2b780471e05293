"""Passes: those of plugins, those made of Python functions, and Sequentials."""

from __future__ import annotations

import functools
import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple, TypeVar, cast
from weakref import WeakValueDictionary

from passhost import _given, _html, _passhost, _plugins
from passhost._context import Compat, PassContext
from passhost.error import Diagnostic, NameNotFoundError, PassFailedError
from passhost.ir.function import BaseFunc
from passhost.ir.module import IRModule

T = TypeVar("T")


@dataclass(frozen=True)
class PassInfo:
    """Facts of a pass: its name, the lowest opt_level at which it runs unasked, and the passes that it requires."""

    opt_level: int
    name: str
    required: tuple[str, ...] = ()
    traceable: bool = False

    def __init__(
        self, opt_level: int, name: str, required: Iterable[str] | None = None, traceable: bool = False
    ) -> None:
        """In TVM's order."""
        object.__setattr__(self, "name", _given.text("the name of a pass", name))
        object.__setattr__(self, "opt_level", _given.level(f"opt_level of pass {name!r}", opt_level))
        object.__setattr__(self, "required", _given.names(f"required of pass {name!r}", required))
        object.__setattr__(self, "traceable", traceable)

    def __repr__(self) -> str:
        """As it is made."""
        required = ", ".join(f'"{name}"' for name in self.required)
        return f'PassInfo(opt_level={self.opt_level}, name="{self.name}", required=[{required}])'


@dataclass(frozen=True)
class Step:
    """A step of a run: its depth, the pass, what became of it and why, seconds, bindings before and after."""

    depth: int
    name: str
    outcome: str
    reason: str
    seconds: float
    verify_seconds: float
    bindings: tuple[int, int]


def _steps_of(rows: Iterable[tuple[Any, ...]]) -> list[Step]:
    """The steps of a run, from the rows of its summary."""
    return [Step(*row) for row in rows]


@dataclass(frozen=True)
class PlannedStep:
    """A step of a plan: requirements that lead to it, how deep it is nested, the pass, its plugin, and the reason."""

    depth: int
    nesting: int
    name: str
    plugin: str | None
    reason: str


@dataclass(frozen=True)
class Plan:
    """What would run, and why. It prints as a table."""

    steps: tuple[PlannedStep, ...]
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        """A line for each step."""
        names = ["  " * step.nesting + step.name for step in self.steps]
        width = max(map(len, names), default=0)
        lines = (
            f"{at:3}  {name:{width}}  {step.reason}"
            for at, (name, step) in enumerate(zip(names, self.steps, strict=True), 1)
        )
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [(at, "\u2003" * step.nesting + step.name, step.reason) for at, step in enumerate(self.steps, 1)]
        return _html.table(("step", "pass", "why"), rows) + "".join(
            _html.diagnostic("warning", f"warning: {warning}") for warning in self.warnings
        )


class AskedPass(NamedTuple):
    """A pass with options, as the host reads it."""

    name: str
    options: Sequence[tuple[str, Any]]


class AskedSequential(NamedTuple):
    """A Sequential, as the host reads it."""

    title: str
    opt_level: int
    required: Sequence[str]
    members: Sequence[AskedPass | AskedSequential]


def shown_info(name: str, opt_level: int, required: list[str], plugin: str, position: int) -> PassInfo:
    """Facts of a pass that the host tells an instrument, with the name that its author gave."""
    made = _made.get(name)
    return made.info if made is not None and not made._taken else PassInfo(opt_level, shown_name(name), required)


def shown_name(name: str) -> str:
    """As TVM calls a pass of Relax, where its rules hold."""
    return name.removeprefix("relax.") if Compat.tvm else name


_made: WeakValueDictionary[str, MadePass] = WeakValueDictionary()
"""The passes that Python made, by the names under which the host knows them."""


def tell_again() -> None:
    """Tells the host of the passes that Python made and that are still used, after plugins were loaded."""
    for made in list(_made.values()):
        made._tell_again()


class Pass(ABC):
    """A pass. Call it with a module; what runs is decided by the current `PassContext`."""

    @property
    @abstractmethod
    def info(self) -> PassInfo:
        """Its facts."""

    @abstractmethod
    def _asked(self) -> AskedPass | AskedSequential:
        """As the host reads it."""

    def __call__(self, mod: IRModule) -> IRModule:
        """Runs the pass, and what it requires, over a module; gives the new module. The old one stays as it was.

        Raises `PassFailedError` if a pass fails, and what a Python pass raised as it was, with the step as a note.
        """
        if not isinstance(mod, IRModule):
            mod = _as_module(mod, self.info.name)
        return self._ended(mod, _passhost.run(mod._handle(), self._asked(), PassContext.current()._settings()))

    @staticmethod
    def _ended(mod: IRModule, ran: _passhost._Ran) -> IRModule:
        """The module after a run, of which the current context hears."""
        context, (handle, diagnostics, warnings, rows, _) = PassContext.current(), ran
        context._heard(map(Diagnostic.of_json, diagnostics))
        context._heard(Diagnostic("warning", warning) for warning in warnings)
        context._steps = (_steps_of, rows)
        return IRModule._of(handle, mod)

    def plan(self) -> Plan:
        """What would run in the current context, and why; nothing runs.

        Raises `PlanError` if it cannot be planned.
        """
        steps, warnings = _passhost.plan(self._asked(), PassContext.current()._settings())
        return Plan(tuple(PlannedStep(*step) for step in steps), tuple(warnings))


def _as_module(mod: object, name: str) -> IRModule:
    found = type(mod).__name__
    raise TypeError(f"pass {name} takes an IRModule, not {found}; IRModule.from_expr makes one of a function")


class PluginPass(Pass):
    """A pass of a plugin, with options."""

    def __init__(self, name: str, options: dict[str, Any] | None = None) -> None:
        """By its full name, or by its short name where only one pass has it."""
        _plugins.ensure_loaded()
        self._name = _passhost.find_pass(name)
        self._options = dict(options or {})

    @property
    def info(self) -> PassInfo:
        """Its facts, from the metadata of the plugin."""
        facts = _passhost.pass_facts(self._name)
        return PassInfo(facts["opt_level"], shown_name(self._name), facts["required"], facts["traceable"])

    def _asked(self) -> AskedPass:
        return AskedPass(self._name, list(self._options.items()))

    def __repr__(self) -> str:
        """As in a pipeline."""
        options = ", ".join(f"{name}={value!r}" for name, value in self._options.items())
        return f"{self._name}({options})"


def _unchanged(name: str, seconds: float, bindings: int) -> list[Step]:
    """The steps of a run of one pass that left the module as it was, as the host would have them."""
    return [Step(0, name, "unchanged", "asked", seconds, 0.0, (bindings, bindings))]


def _host_name(name: str) -> str:
    """What the host is told of a name: it has a `_` for each character that it does not take.

    TVM takes any name. Raises `ValueError` of one that would not be recognized, in the rules of passhost.
    """
    words = re.sub(r"[^\w.]", "_", name, flags=re.ASCII if Compat.tvm else 0).split(".")
    if Compat.tvm:
        return ".".join(word if re.match(r"[^\W\d]", word) else f"_{word}" for word in words)
    if all(re.fullmatch(r"[^\W\d]\w*", word, re.ASCII) for word in words):
        return name
    raise ValueError(
        f"{name!r} is no name of a pass: that has words of ASCII letters, digits and _ that begin with no digit, "
        "and dots between them; give the pass one by name="
    )


class MadePass(Pass):
    """A pass that is a Python function: it is known to the host by a name of its own."""

    def __init__(self, info: PassInfo, function: Callable[..., Any]) -> None:
        """Adds it to the passes of the process. The function takes what the kind of pass is about, the module unless it
        is that, and the context, and returns what is to be in its place.
        """
        _plugins.ensure_loaded()
        self._info, self._function = info, function
        self._taken = False
        """Whether a plugin that was loaded after it has a pass of its name."""
        self._replaced = False
        """Whether a pass that was made later has its name."""
        name = _host_name(info.name)
        with _plugins.loading:
            self._name = self._tell(name, not Compat.tvm)
            earlier = _made.get(self._name)
            if earlier is not None:
                earlier._replaced = True
            _made[self._name] = self

    def _tell(self, name: str, strict: bool) -> str:
        """Tells the host of it, and gives the name under which the host knows it."""
        info, doc = self._info, inspect.getdoc(self._function) or self._info.name
        return _passhost.register(name, info.opt_level, list(info.required), doc, self._run, strict)

    def _tell_again(self) -> None:
        """The same after plugins were loaded, under the same name. If a plugin has it, the pass cannot run."""
        try:
            self._tell(self._name, strict=True)
            self._taken = False
        except NameNotFoundError:
            self._taken = True

    def __call__(self, mod: IRModule) -> IRModule:
        """As of any pass. Where nothing but this pass would run, it is called at once.

        The host then takes what it made as the result of a run. If that is the module itself, nothing is verified.
        """
        context = PassContext.current()
        info = self._info
        if (
            info.required
            or info.opt_level > context.opt_level
            or not context._only_calls()
            or self._taken
            or not isinstance(mod, IRModule)
        ):
            return super().__call__(mod)
        handle = mod._handle()
        given = IRModule._of(handle)
        outcome: _passhost.Module | BaseException
        context._calling = True
        start = perf_counter()
        try:
            result = self._transform(given, context)
            outcome = handle if result is given and given._is(handle) else self._accepted(result)
        except SystemExit as exit:
            outcome = self._exited(exit)
        except BaseException as error:
            outcome = error
        seconds = perf_counter() - start
        context._calling = False
        if outcome is handle:
            context._steps = (_unchanged, self._name, seconds, handle.n_bindings)
            return mod
        asked, settings = self._asked(), context._settings()
        return self._ended(mod, _passhost.run(handle, asked, settings, (outcome, seconds)))

    @property
    def info(self) -> PassInfo:
        """Its facts, as they were given."""
        return self._info

    def _asked(self) -> AskedPass:
        if self._replaced:
            # The host knows it under a new name from now on.
            with _plugins.loading:
                self._name = self._tell(self._name, strict=False)
                self._replaced = False
                _made[self._name] = self
        if self._taken:
            raise NameNotFoundError(
                f"the pass {self._name} that Python made cannot run: since passhost.load, a plugin has a pass of that "
                "name; make it again under another name"
            )
        return AskedPass(self._name, ())

    def _run(self, handle: _passhost.Module) -> _passhost.Module:
        """Called by the host."""
        try:
            return self._accepted(self._transform(IRModule._of(handle), PassContext.current()))
        except SystemExit as exit:
            raise self._exited(exit) from exit

    def _accepted(self, result: object) -> _passhost.Module:
        return self._checked(result, IRModule, "an IRModule")._handle()

    def _exited(self, exit: SystemExit) -> PassFailedError:
        error = PassFailedError(f"pass {self._info.name} called sys.exit({exit.code!r})")
        error.__cause__ = exit
        return error

    @abstractmethod
    def _transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """What the pass does."""

    def _checked(self, result: object, expected: type[T], what: str) -> T:
        """What the function returned. Raises `TypeError` if it is of another class."""
        if not isinstance(result, expected):
            raise TypeError(f"pass {self._info.name} returned {type(result).__name__}; it must return {what}")
        return result

    def __repr__(self) -> str:
        """Its class and name."""
        return f"{type(self).__name__}({self._info.name})"


def with_functions(mod: IRModule, change: Callable[[BaseFunc], BaseFunc | None]) -> IRModule:
    """The module with what `change` makes of its functions; None removes one. The module itself if nothing changed."""
    made = mod
    for name, function in mod.functions_items():
        result = change(function)
        if result is function:
            continue
        made = mod.clone() if made is mod else made
        if result is None:
            del made[name]
        else:
            made[name] = result
    return made


class ModulePass(MadePass):
    """A pass over modules that is a Python function. `module_pass` makes it."""

    def _transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        return self._function(mod, ctx)  # type: ignore[no-any-return]


def _other_than_pass(value: object) -> str:
    """What is in the place of a pass, and what to do about it."""
    if isinstance(value, str):
        return f"the string {value!r}; passhost.passes has passes by their names, as passhost.passes.relax.Normalize()"
    if isinstance(value, Pass):
        return "one pass; put it into a list"
    name = getattr(value, "_name", None) or getattr(value, "__name__", None)
    if callable(value) and name is not None:
        if (getattr(value, "__module__", None) or "passhost").startswith("passhost"):
            return f"{name}, which makes a pass when it is called; write {name}()"
        return f"the function {name}; module_pass makes a pass of it"
    return f"an object of {type(value).__name__}"


class Sequential(Pass):
    """Passes that run one after the other as one.

    In the rules of passhost, what its members require runs before them unless it still holds, and nothing runs twice
    without need.
    """

    def __init__(
        self,
        passes: Iterable[Pass] | None = None,
        opt_level: int = 0,
        name: str = "sequential",
        required: Iterable[str] | None = None,
        traceable: bool = False,
    ) -> None:
        """Of these passes, in order."""
        self._info = PassInfo(opt_level, name, required, traceable)
        if passes is not None and not isinstance(passes, Iterable):
            raise TypeError(f"Expected passes to be a list of Pass objects, but found {_other_than_pass(passes)}")
        self._passes = list(passes or ())
        for at, member in enumerate(self._passes):
            if not isinstance(member, Pass):
                found = _other_than_pass(member)
                raise TypeError(f"Expected passes to be a list of Pass objects, but item {at} is {found}")

    @property
    def info(self) -> PassInfo:
        """Its facts."""
        return self._info

    @property
    def passes(self) -> list[Pass]:
        """Its members, in order."""
        return list(self._passes)

    def _asked(self) -> AskedSequential:
        info, members = self._info, [member._asked() for member in self._passes]
        return AskedSequential(info.name, info.opt_level, info.required, members)

    def __repr__(self) -> str:
        """Its members."""
        return f"Sequential([{', '.join(map(repr, self._passes))}])"


def made_by(kind: Callable[[PassInfo, Callable[..., Any]], MadePass], method: str) -> Callable[..., Any]:
    """A decorator that makes passes of functions, and of classes that have this method."""

    def decorator(
        pass_func: Callable[..., Any] | None = None,
        opt_level: int | None = None,
        name: str | None = None,
        required: Iterable[str] | None = None,
        traceable: bool = False,
    ) -> Any:
        if opt_level is None:
            raise ValueError("Please provide opt_level for the pass.")
        if required is not None and (isinstance(required, str) or not isinstance(required, Iterable)):
            raise TypeError(f"Required is expected to be the type of list/tuple, but {type(required)} is given")
        level, requires = opt_level, tuple(required or ())

        def create(target: Any) -> Any:
            if not inspect.isclass(target) and not callable(target):
                raise TypeError("pass_func must be a callable for Module pass")
            info = PassInfo(level, name or str(getattr(target, "__name__", "pass")), requires, traceable)
            return _of_class(target, info, kind, method) if inspect.isclass(target) else kind(info, target)

        return create(pass_func) if pass_func is not None else create

    return decorator


def _of_class(
    cls: type[Any], info: PassInfo, kind: Callable[[PassInfo, Callable[..., Any]], MadePass], method: str
) -> type[MadePass]:
    """A class of passes: its objects are passes that call the method of an object of `cls`."""
    if not hasattr(cls, method):
        raise TypeError(f"class {cls.__name__} has no method {method}, by which such a pass works")

    class Made(cast("type[MadePass]", kind)):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self._object = cls(*args, **kwargs)
            super().__init__(info, getattr(self._object, method))

        def __getattr__(self, name: str) -> Any:
            if name == "_object":
                raise AttributeError(name)
            return getattr(self._object, name)

    functools.update_wrapper(Made.__init__, cls.__init__)
    Made.__name__ = cls.__name__
    Made.__qualname__ = cls.__qualname__
    Made.__doc__ = cls.__doc__
    Made.__module__ = cls.__module__
    return Made


module_pass = made_by(ModulePass, "transform_module")
"""Makes a pass over modules of a function `(mod, ctx) -> mod`, or of a class with a method `transform_module`."""


def PrintIR(header: str = "") -> Pass:
    """A pass that prints the module, below a line with `header`."""

    def print_ir(mod: IRModule, _ctx: PassContext) -> IRModule:
        print(f"PrintIR({header}):\n{mod.script()}")
        return mod

    return ModulePass(PassInfo(0, "PrintIR"), print_ir)
