"""Passes: plugin passes, passes made from Python functions, and Sequentials."""

from __future__ import annotations

import functools
import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple, TypeVar, cast

from passhost import _html, _passhost, _plugins, _provided
from passhost._context import PassContext
from passhost._pass_info import Compat, PassInfo, Step, made_passes, shown_name
from passhost.error import Diagnostic, NameNotFoundError, PassFailedError
from passhost.ir.function import BaseFunc
from passhost.ir.module import IRModule

T = TypeVar("T")


def _steps_of(rows: Iterable[tuple[Any, ...]]) -> list[Step]:
    """Converts the rows of a run's summary to steps."""
    return [Step(*row) for row in rows]


@dataclass(frozen=True)
class PlannedStep:
    """A step of a plan: the requirements that lead to it, its nesting depth, the pass, its plugin, and the reason."""

    depth: int
    nesting: int
    name: str
    plugin: str | None
    reason: str


@dataclass(frozen=True)
class Plan:
    """The planned steps, with reasons. It prints as a table."""

    steps: tuple[PlannedStep, ...]
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        """Returns one line per step."""
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
    """A pass with options, in the form that the host reads."""

    name: str
    options: Sequence[tuple[str, Any]]


class AskedSequential(NamedTuple):
    """A Sequential, in the form that the host reads."""

    title: str
    opt_level: int
    required: Sequence[str]
    members: Sequence[AskedPass | AskedSequential]


def _tell_again() -> None:
    """Registers the live Python passes with the host again, after plugins were loaded."""
    for made in list(made_passes.values()):
        made._tell_again()


class Pass(ABC):
    """A pass. Call it with a module; the current `PassContext` decides what runs."""

    @property
    @abstractmethod
    def info(self) -> PassInfo:
        """The description of the pass."""

    @abstractmethod
    def _asked(self) -> AskedPass | AskedSequential:
        """Returns the pass in the form that the host reads."""

    def __call__(self, mod: IRModule) -> IRModule:
        """Runs the pass, and the passes it requires, on a module; returns the new module. The old module is unchanged.

        Raises `PassFailedError` if a pass fails. Exceptions raised by Python passes propagate unchanged, with a note
        that names the step.
        """
        if not isinstance(mod, IRModule):
            mod = _as_module(mod, self.info.name)
        return self._ended(mod, _passhost.run(mod._handle(), self._asked(), PassContext.current()._settings()))

    @staticmethod
    def _ended(mod: IRModule, ran: _passhost._Ran) -> IRModule:
        """Records the results of a run in the current context, and returns the module."""
        context, (handle, diagnostics, warnings, rows, _) = PassContext.current(), ran
        context._heard(map(Diagnostic.of_json, diagnostics))
        context._heard(Diagnostic("warning", warning) for warning in warnings)
        context._steps = (_steps_of, rows)
        return IRModule._of(handle, mod)

    def plan(self) -> Plan:
        """Returns the steps that would run in the current context, with reasons, without running them.

        Raises `PlanError` if no plan exists.
        """
        steps, warnings = _passhost.plan(self._asked(), PassContext.current()._settings())
        return Plan(tuple(PlannedStep(*step) for step in steps), tuple(warnings))


def _as_module(mod: object, name: str) -> IRModule:
    found = type(mod).__name__
    raise TypeError(f"pass {name} takes an IRModule, not {found}; IRModule.from_expr makes a module from a function")


class PluginPass(Pass):
    """A pass of a plugin, with options."""

    def __init__(self, name: str, options: dict[str, Any] | None = None) -> None:
        """Finds the pass by its full name, or by its short name if that is unique."""
        _plugins.ensure_loaded()
        self._name = _passhost.find_pass(name)
        self._options = dict(options or {})

    @property
    def info(self) -> PassInfo:
        """The description of the pass, from the plugin's metadata."""
        facts = _passhost.pass_facts(self._name)
        return PassInfo(facts["opt_level"], shown_name(self._name), facts["required"], facts["traceable"])

    def _asked(self) -> AskedPass:
        return AskedPass(self._name, list(self._options.items()))

    def __repr__(self) -> str:
        """Returns the pass as written in a pipeline."""
        options = ", ".join(f"{name}={value!r}" for name, value in self._options.items())
        return f"{self._name}({options})"


def _unchanged(name: str, seconds: float, bindings: int) -> list[Step]:
    """Returns the steps of a run in which one pass ran and changed nothing, as the host would report them."""
    return [Step(0, name, "unchanged", "asked", seconds, 0.0, (bindings, bindings))]


def _host_name(name: str) -> str:
    """Returns the name used in the host: characters that the host does not accept become `_`.

    TVM accepts any name. Under passhost's rules, raises `ValueError` if the name is not a valid pass name.
    """
    words = re.sub(r"[^\w.]", "_", name, flags=re.ASCII if Compat.tvm else 0).split(".")
    if Compat.tvm:
        return ".".join(word if re.match(r"[^\W\d]", word) else f"_{word}" for word in words)
    if all(re.fullmatch(r"[^\W\d]\w*", word, re.ASCII) for word in words):
        return name
    raise ValueError(
        f"{name!r} is not a valid pass name: it must consist of words separated by dots, and each word of ASCII "
        "letters, digits and _, without a digit at its start; pass a valid name as name="
    )


class MadePass(Pass):
    """A pass implemented by a Python function and registered with the host under its own name."""

    def __init__(self, info: PassInfo, function: Callable[..., Any]) -> None:
        """Registers the pass in the process.

        The function takes the object to transform (such as a Relax function), the module unless that is the object, and
        the context; it returns the replacement.
        """
        _plugins.ensure_loaded()
        self._info, self._function = info, function
        self._taken = False
        """True if a plugin that was loaded later has a pass with this name."""
        self._replaced = False
        """True if a Python pass that was created later has this name."""
        name = _host_name(info.name)
        with _plugins.loading:
            self._name = self._tell(name, not Compat.tvm)
            earlier = made_passes.get(self._name)
            if earlier is not None:
                earlier._replaced = True
            made_passes[self._name] = self

    def _tell(self, name: str, strict: bool) -> str:
        """Registers the pass with the host, and returns the name under which the host knows it."""
        info, doc = self._info, inspect.getdoc(self._function) or self._info.name
        return _passhost.register(name, info.opt_level, list(info.required), doc, self._run, strict)

    def _tell_again(self) -> None:
        """Registers the pass again under the same name, after plugins were loaded. If a plugin has a pass with that
        name, this pass cannot run."""
        try:
            self._tell(self._name, strict=True)
            self._taken = False
        except NameNotFoundError:
            self._taken = True

    def __call__(self, mod: IRModule) -> IRModule:
        """Runs the pass like any other pass. If nothing else would run, the function is called directly.

        The host then treats its result as the result of a run. If the result is the module itself, nothing is verified.
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
        """The facts given by the author."""
        return self._info

    def _asked(self) -> AskedPass:
        if self._replaced:
            # Register the pass under a new name.
            with _plugins.loading:
                self._name = self._tell(self._name, strict=False)
                self._replaced = False
                made_passes[self._name] = self
        if self._taken:
            raise NameNotFoundError(
                f"the Python pass {self._name} cannot run, because passhost.load loaded a plugin with a pass of that "
                "name; create the Python pass again under a different name"
            )
        return AskedPass(self._name, ())

    def _run(self, handle: _passhost.Module) -> _passhost.Module:
        """Runs the pass; called by the host."""
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
        """Applies the pass to a module."""

    def _checked(self, result: object, expected: type[T], what: str) -> T:
        """Returns the function's result. Raises `TypeError` if it is not of the expected class."""
        if not isinstance(result, expected):
            raise TypeError(f"pass {self._info.name} returned {type(result).__name__}; it must return {what}")
        return result

    def __repr__(self) -> str:
        """Returns the class and name."""
        return f"{type(self).__name__}({self._info.name})"


def with_functions(mod: IRModule, change: Callable[[BaseFunc], BaseFunc | None]) -> IRModule:
    """Applies `change` to all functions of a module; None removes a function. Returns the same module if nothing
    changed."""
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
    """A module pass implemented by a Python function; see `module_pass`."""

    def _transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        return self._function(mod, ctx)  # type: ignore[no-any-return]


def _other_than_pass(value: object) -> str:
    """Describes a value that is not a pass, and how to correct it."""
    if isinstance(value, str):
        return f"the string {value!r}; passhost.passes contains passes, such as passhost.passes.relax.Normalize()"
    if isinstance(value, Pass):
        return "one pass; put it into a list"
    name = getattr(value, "_name", None) or getattr(value, "__name__", None)
    if callable(value) and name is not None:
        if (getattr(value, "__module__", None) or "passhost").startswith("passhost"):
            return f"{name}, which creates a pass when called; write {name}()"
        return f"the function {name}; module_pass turns it into a pass"
    return f"an object of {type(value).__name__}"


class Sequential(Pass):
    """A pass that runs other passes in sequence.

    Under passhost's rules, the passes that a member requires run before it unless their effects still hold, so no pass
    runs twice unnecessarily.
    """

    def __init__(
        self,
        passes: Iterable[Pass] | None = None,
        opt_level: int = 0,
        name: str = "sequential",
        required: Iterable[str] | None = None,
        traceable: bool = False,
    ) -> None:
        """Creates a Sequential of the passes, in order."""
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
        """The description of the Sequential."""
        return self._info

    @property
    def passes(self) -> list[Pass]:
        """The passes, in order."""
        return list(self._passes)

    def _asked(self) -> AskedSequential:
        info, members = self._info, [member._asked() for member in self._passes]
        return AskedSequential(info.name, info.opt_level, info.required, members)

    def __repr__(self) -> str:
        """Returns the passes."""
        return f"Sequential([{', '.join(map(repr, self._passes))}])"


def made_by(kind: Callable[[PassInfo, Callable[..., Any]], MadePass], method: str) -> Callable[..., Any]:
    """Returns a decorator that turns functions, and classes with this method, into passes."""

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
    """Returns a class of passes that call the method of an object of `cls`."""
    if not hasattr(cls, method):
        raise TypeError(f"class {cls.__name__} lacks the method {method}, which such a pass needs")

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
"""Turns a function `(mod, ctx) -> mod`, or a class with a method `transform_module`, into a module pass."""


def PrintIR(header: str = "") -> Pass:
    """Returns a pass that prints the module below a line with `header`."""

    def print_ir(mod: IRModule, _ctx: PassContext) -> IRModule:
        print(f"PrintIR({header}):\n{mod.script()}")
        return mod

    return ModulePass(PassInfo(0, "PrintIR"), print_ir)


_provided.after_loading = _tell_again
