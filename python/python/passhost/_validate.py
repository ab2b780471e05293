"""Validation: executes a module before and after each pass, and compares the values."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from passhost import _given, _html, _passhost
from passhost._context import PassContext
from passhost._memory import usual_memory
from passhost._numpy import is_real
from passhost._passes import Pass, Sequential
from passhost.ir.module import IRModule
from passhost.runtime import tensor

__all__ = ["Validation", "Verdict", "validate"]


@dataclass(frozen=True)
class Verdict:
    """The result of validating a pass.

    `verdict` is `same`, `unchanged` (nothing that affects a value changed), `different`, `not_validated`, or
    `checker_failed`; `what` is a readable line. `facts` contains the details by name: the executed functions and
    inputs, and the largest error; for a difference, also the function, the input, the output and the first binding
    that differs.
    """

    step: int
    name: str
    plugin: str
    tolerance: str
    verdict: str
    what: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """Returns the pass, the verdict and the details."""
        return f"{self.name}: {self.verdict}" + (f" ({self.what})" if self.what else "")


@dataclass(frozen=True)
class Validation:
    """The module after the passes, and a verdict for each pass that ran."""

    mod: IRModule
    verdicts: tuple[Verdict, ...]

    @property
    def is_same(self) -> bool:
        """True if all passes were compared, and none changed the module's results."""
        return all(verdict.verdict in ("same", "unchanged") for verdict in self.verdicts)

    @property
    def different(self) -> tuple[Verdict, ...]:
        """The passes that changed the module's results."""
        return tuple(verdict for verdict in self.verdicts if verdict.verdict == "different")

    def __str__(self) -> str:
        """Returns one line per pass."""
        return "\n".join(map(str, self.verdicts)) or "no pass ran"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [(one.step, one.name, one.verdict.replace("_", " "), one.what) for one in self.verdicts]
        return _html.table(("step", "pass", "verdict", "what"), rows)


class _How(NamedTuple):
    """The validation settings, in the form that the host reads."""

    seed: int
    dims: dict[str, int]
    function: str | None
    memory: int
    work: int | None
    backend: str
    inputs: dict[str, Any]
    ranges: list[tuple[str | None, float, float]]
    inputs_per_size: int


def _between(what: str, value: object) -> tuple[float, float]:
    if not isinstance(value, tuple | list) or len(value) != 2 or not all(map(is_real, value)):
        raise TypeError(f"{what} must be a pair of numbers, the lowest and the highest, not {value!r}")
    low, high = map(float, value)
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise ValueError(f"{what} must be a pair of numbers, the lowest and the highest, not {value!r}")
    return low, high


def _ranges(value: object) -> list[tuple[str | None, float, float]]:
    if value is None:
        return []
    if not isinstance(value, Mapping):
        return [(None, *_between("ranges", value))]
    return [
        (_given.text("a name in ranges", name), *_between(f"ranges[{name!r}]", pair)) for name, pair in value.items()
    ]


def _arrays(inputs: object) -> dict[str, Any]:
    if inputs is None:
        return {}
    if not isinstance(inputs, Mapping):
        raise TypeError(f"inputs must be a dict that maps parameter names to arrays, not {inputs!r}")
    return {_given.text("a name in inputs", name): tensor(array)._handle() for name, array in inputs.items()}


def validate(
    mod: IRModule,
    passes: Pass | Iterable[Pass],
    *,
    seed: int = 1,
    dims: Mapping[str, int] | None = None,
    function: str | None = None,
    limit_memory: int | None = None,
    limit_work: int | None = None,
    backend: str = "auto",
    inputs: Mapping[str, Any] | None = None,
    ranges: tuple[float, float] | Mapping[str, tuple[float, float]] | None = None,
    inputs_per_size: int = 1,
) -> Validation:
    """Runs passes in the current context, and checks that each preserves the module's results.

    The changed functions are executed before and after each pass, with random inputs, and compared within the pass's
    declared tolerance. `dims` sets the extents of symbolic dimensions; by default, several are tried. `function` names
    the function to execute; by default, every public function that a change affects is executed. Limits are as for
    `passhost validate`, and `backend` is as for `passhost.exec`.

    `inputs` maps parameter names to arrays, which are an additional input of each function with these parameters.
    `ranges` contains the lowest and highest random value, either for all parameters, as in `(0, 1)`, or for some, as
    in `{"x": (-5, 5)}`. Each size of the symbolic dimensions is tested with `inputs_per_size` inputs. `seed`
    determines the random values.

    >>> import passhost
    >>> mod = passhost.script.from_source('''
    ... @I.ir_module
    ... class Module:
    ...     @R.function
    ...     def main(x: R.Tensor(("n", 4), "float32")) -> R.Tensor(("n", 4), "float32"):
    ...         return R.nn.softmax(x)
    ... ''')
    >>> checked = validate(mod, passhost.passes.relax.LegalizeOps())
    >>> checked.is_same, [verdict.verdict for verdict in checked.verdicts]
    (True, ['same'])
    """
    if not isinstance(mod, IRModule):
        raise TypeError(f"only an IRModule can be validated, not {type(mod).__name__}")
    asked = passes if isinstance(passes, Pass) else Sequential(passes, name="validated")
    if dims is not None and not isinstance(dims, Mapping):
        raise TypeError(f"dims must be a dict that maps dimension names to extents, not {dims!r}")
    how = _How(
        seed=_given.amount("seed", seed),
        dims={
            _given.text("a name in dims", name): _given.integer(f"dims[{name!r}]", at)
            for name, at in (dims or {}).items()
        },
        function=None if function is None else _given.text("function", function),
        memory=usual_memory() if limit_memory is None else _given.amount("limit_memory", limit_memory),
        work=None if limit_work is None else _given.amount("limit_work", limit_work),
        backend=_given.backend(backend),
        inputs=_arrays(inputs),
        ranges=_ranges(ranges),
        inputs_per_size=_given.integer("inputs_per_size", inputs_per_size, 1, 1000),
    )
    context = PassContext.current()
    ran, checked = _passhost.validate(mod._handle(), asked._asked(), context._settings(), how)
    return Validation(asked._ended(mod, ran), tuple(_verdict(line, what) for line, what in checked))


def _verdict(line: str, what: str) -> Verdict:
    facts: dict[str, Any] = json.loads(line)
    step, name, plugin, tolerance, verdict = (
        facts.pop(key) for key in ("step", "pass", "plugin", "tolerance", "verdict")
    )
    return Verdict(step, name, plugin, tolerance, verdict, what, facts)
