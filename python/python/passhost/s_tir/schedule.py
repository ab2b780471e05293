"""Schedules, which transform the loops and blocks of a function; each step is checked.

>>> import passhost
>>> from passhost import s_tir
>>> mod = passhost.script.from_source('''
... @I.ir_module
... class Module:
...     @T.prim_func(s_tir=True)
...     def main(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32")):
...         for i, j in T.grid(64, 64):
...             with T.sblock("B"):
...                 vi, vj = T.axis.remap("SS", [i, j])
...                 B[vi, vj] = A[vi, vj] * T.float32(2)
... ''')
>>> sch = s_tir.Schedule(mod)
>>> i, j = sch.get_loops(sch.get_sblock("B"))
>>> j_0, j_1 = sch.split(j, [None, 16])
>>> sch.vectorize(j_1)
>>> sch.parallel(i)
>>> [line.strip() for line in sch.mod.script().splitlines() if " for " in line]
['for i in T.parallel(64):', 'for j_0 in range(4):', 'for j_1 in T.vectorized(16):']
>>> sch.split(i, [None, 8])
Traceback (most recent call last):
    ...
passhost.error.ScheduleError: `split`: loop `i` is already parallel; apply this primitive first
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from passhost import _given, _html, _passhost
from passhost.error import ScheduleError
from passhost.ir.expr import GlobalVar, Var
from passhost.ir.module import IRModule
from passhost.ir.prim import IntImm
from passhost.tirx.function import PrimFunc

__all__ = ["LoopRV", "SBlockRV", "Schedule", "ScheduleError", "Trace"]


@dataclass(frozen=True)
class SBlockRV:
    """A block of a schedule. It is valid as long as the block exists."""

    _function: str
    _ref: _passhost.ScheduleBlock

    def __repr__(self) -> str:
        """Formats the block with its function."""
        return f"SBlockRV({self._function})"


@dataclass(frozen=True)
class LoopRV:
    """A loop of a schedule. It is valid until the loop is split, fused, or moved with its block."""

    _function: str
    _ref: _passhost.ScheduleLoop

    def __repr__(self) -> str:
        """Formats the loop with its function."""
        return f"LoopRV({self._function})"


@dataclass(frozen=True)
class Trace:
    """The history of a schedule, one primitive per line. `str` returns the text."""

    _texts: Mapping[str, str]

    def apply_to_schedule(self, sch: Schedule, remove_postproc: bool = False) -> None:
        """Applies the same primitives to another schedule, whose module is the same or has functions with the same
        blocks and loops."""
        if not isinstance(sch, Schedule):
            raise TypeError(f"a trace is applied to a Schedule, not to {sch!r}")
        changed = {}
        for name, text in self._texts.items():
            changed[name] = sch._of(name).copy()
            changed[name].apply(text)
        sch._took(changed)

    def show(self, style: str | None = None, black_format: bool = False) -> None:
        """Prints the trace."""
        print(self)

    def __str__(self) -> str:
        """Returns the lines. If several functions were scheduled, the lines are grouped by function."""
        texts = {name: text for name, text in self._texts.items() if text}
        heads = len(texts) > 1
        return "\n".join((f"# {name}\n" if heads else "") + text.rstrip("\n") for name, text in texts.items())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _html.preformatted(str(self))


class Schedule:
    """The TIR functions of a module while they are being scheduled.

    The primitives have the names and parameters of TVM's `s_tir.Schedule`. A primitive that would change the results
    of a function raises `ScheduleError`, which names the primitive, the loop or block, and the reason; the schedule
    is unchanged. Some primitives that TVM accepts are refused, because checks rely only on a block's stores and
    loads, not on its annotations.
    """

    def __init__(
        self,
        mod: PrimFunc | IRModule,
        *,
        seed: int | None = None,
        debug_mask: str | int = "none",
        error_render_level: str = "detail",
        enable_check: bool = True,
    ) -> None:
        """Creates a schedule of a module, or of one function, which becomes `main`.

        The options have no effect: nothing is random, every step is checked, and errors have one form.
        """
        if isinstance(mod, PrimFunc):
            mod = IRModule({"main": mod})
        if not isinstance(mod, IRModule):
            raise TypeError(f"a Schedule takes an IRModule or a PrimFunc, not {mod!r}")
        self._mod = mod
        self._schedules: dict[str, _passhost.Schedule] = {}
        self._changed: set[str] = set()
        self._working_on: str | None = None

    # The module.

    @property
    def mod(self) -> IRModule:
        """The current module."""
        if self._changed:
            bodies = [(name, self._schedules[name].finish()) for name in sorted(self._changed)]
            self._mod = IRModule._of(self._mod._handle().updated(bodies))
            self._changed.clear()
        return self._mod

    @property
    def trace(self) -> Trace:
        """The primitives applied so far."""
        return Trace({name: schedule.trace() for name, schedule in self._schedules.items()})

    @property
    def func_working_on(self) -> GlobalVar | None:
        """The function in which blocks are found: the function set by `work_on`, otherwise `main`, otherwise the only
        TIR function."""
        name = self._working_on or self._entry()
        return None if name is None else GlobalVar(name)

    def work_on(self, func_name: str) -> None:
        """Sets the function in which blocks are found."""
        self._of(_given.text("func_name", func_name))
        self._working_on = func_name

    def copy(self) -> Schedule:
        """Returns an independent copy, in which the same blocks and loops are valid."""
        made = Schedule(self.mod)
        made._schedules = {name: schedule.copy() for name, schedule in self._schedules.items()}
        made._working_on = self._working_on
        return made

    def show(self, *_arguments: Any, **_options: Any) -> None:
        """Prints the module and the trace."""
        self.mod.show()
        self.trace.show()

    def _entry(self) -> str | None:
        names = [name for name, body in self._mod._handle().functions() if body.kind == "tir"]
        return "main" if "main" in names else names[0] if len(names) == 1 else None

    def _of(self, name: str) -> _passhost.Schedule:
        """Returns the schedule of a function."""
        if name not in self._schedules:
            function = self._mod[name]
            if not isinstance(function, PrimFunc):
                raise TypeError(f"{name!r} is not a TIR function")
            body = self._mod._handle().get(name)
            assert body is not None
            self._schedules[name] = _passhost.Schedule(body)
        return self._schedules[name]

    def _took(self, changed: Mapping[str, _passhost.Schedule]) -> None:
        self._schedules.update(changed)
        self._changed.update(changed)

    # Blocks and loops.

    def get_sblock(self, name: str, func_name: str | None = None) -> SBlockRV:
        """Returns a block by name, in the given function or in `func_working_on`. Ambiguous names are an error."""
        _given.text("name", name)
        if func_name is None:
            function = self.func_working_on
            if function is None:
                raise ValueError("the module has several TIR functions; choose one with work_on or func_name")
            func_name = function.name_hint
        return SBlockRV(func_name, self._of(_given.text("func_name", func_name)).get_block(name))

    get_block = get_sblock
    """The name of `get_sblock` in earlier versions of TVM."""

    def get_loops(self, block: SBlockRV | str) -> list[LoopRV]:
        """Returns the loops around a block, outermost first."""
        name, ref = self._block("get_loops", block)
        return [LoopRV(name, of) for of in self._of(name).get_loops(ref)]

    def get_child_blocks(self, block_or_loop: LoopRV) -> list[SBlockRV]:
        """Returns the blocks in a loop."""
        name, ref = self._loop("get_child_blocks", block_or_loop)
        return [SBlockRV(name, block) for block in self._of(name).get_child_blocks(ref)]

    def get_producers(self, block: SBlockRV | str) -> list[SBlockRV]:
        """Returns the blocks that write the inputs of a block."""
        name, ref = self._block("get_producers", block)
        return [SBlockRV(name, other) for other in self._of(name).get_producers(ref)]

    def get_consumers(self, block: SBlockRV | str) -> list[SBlockRV]:
        """Returns the blocks that read the outputs of a block."""
        name, ref = self._block("get_consumers", block)
        return [SBlockRV(name, other) for other in self._of(name).get_consumers(ref)]

    def _block(self, primitive: str, block: object) -> tuple[str, _passhost.ScheduleBlock]:
        """Returns the function and the handle of a block, which may be given by name."""
        if isinstance(block, str):
            block = self.get_sblock(block)
        if not isinstance(block, SBlockRV):
            raise TypeError(f"{primitive} takes a block from get_sblock, or its name, not {block!r}")
        return block._function, block._ref

    def _loop(self, primitive: str, loop: object) -> tuple[str, _passhost.ScheduleLoop]:
        if not isinstance(loop, LoopRV):
            raise TypeError(f"{primitive} takes a loop from get_loops, not {loop!r}")
        return loop._function, loop._ref

    def _loops(self, primitive: str, loops: Sequence[object]) -> tuple[str, list[_passhost.ScheduleLoop]]:
        found = [self._loop(primitive, loop) for loop in loops]
        if not found:
            raise ValueError(f"{primitive} takes at least one loop")
        name = self._one(primitive, [name for name, _ in found])
        return name, [ref for _, ref in found]

    def _pair(
        self, primitive: str, block: object, loop: object
    ) -> tuple[str, _passhost.ScheduleBlock, _passhost.ScheduleLoop]:
        (name, ref), (other, of) = self._block(primitive, block), self._loop(primitive, loop)
        return self._one(primitive, [name, other]), ref, of

    def _one(self, primitive: str, functions: list[str]) -> str:
        if len(set(functions)) > 1:
            raise ScheduleError(f"`{primitive}`: the blocks and loops are in several functions: {', '.join(functions)}")
        return functions[0]

    def _changing(self, name: str) -> _passhost.Schedule:
        """Returns the schedule of a function before it changes."""
        self._changed.add(name)
        return self._of(name)

    # Primitives on loops.

    def split(
        self,
        loop: LoopRV,
        factors: Sequence[int | IntImm | None],
        preserve_unit_iters: bool = True,
        disable_predication: bool = False,
    ) -> list[LoopRV]:
        """Splits a loop into loops of these extents, outermost first. One extent may be None, and is then inferred.

        A loop with one iteration never becomes part of an index, regardless of `preserve_unit_iters`.
        """
        name, ref = self._loop("split", loop)
        _only("split", "disable_predication", disable_predication, False)
        if not isinstance(factors, Sequence) or isinstance(factors, str):
            raise TypeError(f"factors must be a list of integers or None, not {factors!r}")
        made = self._changing(name).split(ref, [_factor(factor) for factor in factors])
        return [LoopRV(name, of) for of in made]

    def fuse(self, *loops: LoopRV, preserve_unit_iters: bool = True) -> LoopRV:
        """Fuses directly nested loops, outermost first, into one loop."""
        name, refs = self._loops("fuse", loops)
        return LoopRV(name, self._changing(name).fuse(refs))

    def reorder(self, *ordered_loops: LoopRV) -> None:
        """Reorders directly nested loops, outermost first. Loops between them stay in place."""
        if ordered_loops:
            name, refs = self._loops("reorder", ordered_loops)
            self._changing(name).reorder(refs)

    def parallel(self, loop: LoopRV) -> None:
        """Runs the iterations of a loop on several threads."""
        name, ref = self._loop("parallel", loop)
        self._changing(name).parallel(ref)

    def vectorize(self, loop: LoopRV) -> None:
        """Turns a loop into vector operations."""
        name, ref = self._loop("vectorize", loop)
        self._changing(name).vectorize(ref)

    def unroll(self, loop: LoopRV) -> None:
        """Unrolls a loop."""
        name, ref = self._loop("unroll", loop)
        self._changing(name).unroll(ref)

    # Primitives on blocks.

    def compute_at(
        self, block: SBlockRV | str, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1
    ) -> None:
        """Moves the computation of a block into a loop of its consumers. Each iteration computes the part that it
        reads."""
        name, ref, of = self._pair("compute_at", block, loop)
        _only("compute_at", "preserve_unit_loops", preserve_unit_loops, False)
        _only("compute_at", "index", index, -1)
        self._changing(name).compute_at(ref, of)

    def reverse_compute_at(
        self, block: SBlockRV | str, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1
    ) -> None:
        """Moves the computation of a block to the end of each iteration of the loop that computes its input."""
        name, ref, of = self._pair("reverse_compute_at", block, loop)
        _only("reverse_compute_at", "preserve_unit_loops", preserve_unit_loops, False)
        _only("reverse_compute_at", "index", index, -1)
        self._changing(name).reverse_compute_at(ref, of)

    def compute_inline(self, block: SBlockRV | str) -> None:
        """Inlines a block where its output is read, and removes the block and its buffer."""
        name, ref = self._block("compute_inline", block)
        self._changing(name).compute_inline(ref)

    def reverse_compute_inline(self, block: SBlockRV | str) -> None:
        """Merges a block into its producer, and removes the block and the producer's buffer."""
        name, ref = self._block("reverse_compute_inline", block)
        self._changing(name).reverse_compute_inline(ref)

    def cache_read(
        self,
        block: SBlockRV | str,
        read_buffer_index: int | str | Var,
        storage_scope: str,
        consumer_blocks: Sequence[SBlockRV | str] | None = None,
    ) -> SBlockRV:
        """Copies a buffer that a block reads into a new buffer, which all blocks then read instead. Returns the block
        that copies. The buffer is given by its position among the block's reads, or by its name.
        """
        name, ref = self._block("cache_read", block)
        _only("cache_read", "consumer_blocks", consumer_blocks or None, None)
        at = self._buffer("cache_read", name, ref, read_buffer_index, write=False)
        return SBlockRV(name, self._changing(name).cache_read(ref, at, _given.text("storage_scope", storage_scope)))

    def cache_write(
        self,
        block: SBlockRV | str,
        write_buffer_index: int | str | Var,
        storage_scope: str,
        consumer_blocks: Sequence[SBlockRV | str] | None = None,
    ) -> SBlockRV:
        """Makes a block write to a new buffer, which another block then copies to the original destination. Returns the
        block that copies. The buffer is given by its position among the block's writes, or by its name.
        """
        name, ref = self._block("cache_write", block)
        _only("cache_write", "consumer_blocks", consumer_blocks or None, None)
        at = self._buffer("cache_write", name, ref, write_buffer_index, write=True)
        return SBlockRV(name, self._changing(name).cache_write(ref, at, _given.text("storage_scope", storage_scope)))

    def transform_layout(
        self,
        block: SBlockRV | str,
        buffer: tuple[str, int] | str | Var,
        index_map: Callable[..., Sequence[object]],
        pad_value: object = None,
        *,
        assume_injective_transform: bool = False,
    ) -> None:
        """Permutes the dimensions of a buffer that the function allocates, for all blocks that use it.

        `buffer` is a buffer of the block: `("read", 0)`, `("write", 0)`, or its name. `index_map` returns the permuted
        indices, as in `lambda i, j: (j, i)`; other maps are not supported.
        """
        name, ref = self._block("transform_layout", block)
        _only("transform_layout", "pad_value", pad_value, None)
        if isinstance(buffer, tuple):
            if len(buffer) != 2 or buffer[0] not in ("read", "write"):
                raise TypeError(f'transform_layout takes ("read", n), ("write", n) or a name, not {buffer!r}')
            write, at = buffer[0] == "write", _given.amount("the position of a buffer", buffer[1])
        else:
            wanted = buffer.name if isinstance(buffer, Var) else _given.text("the name of a buffer", buffer)
            write = wanted in self._of(name).buffers(ref)[True]
            at = self._buffer("transform_layout", name, ref, wanted, write=write)
        self._changing(name).transform_layout(ref, write, at, _order(index_map))

    def decompose_reduction(self, block: SBlockRV | str, loop: LoopRV) -> SBlockRV:
        """Moves the initialization of a reduction into its own block before a loop. Returns that block."""
        name, ref, of = self._pair("decompose_reduction", block, loop)
        return SBlockRV(name, self._changing(name).decompose_reduction(ref, of))

    def _buffer(self, primitive: str, name: str, block: _passhost.ScheduleBlock, buffer: object, *, write: bool) -> int:
        """Returns the position of a buffer among a block's reads or writes."""
        if isinstance(buffer, Var):
            buffer = buffer.name
        if not isinstance(buffer, str):
            return _given.amount("the position of a buffer", buffer)
        names = self._of(name).buffers(block)[write]
        if names.count(buffer) != 1:
            raise ScheduleError(
                f"`{primitive}`: {names.count(buffer)} of the buffers {', '.join(names)} have the name `{buffer}`"
            )
        return names.index(buffer)

    def _repr_html_(self) -> str:
        return _html.script(self.mod.script())


def _order(index_map: object) -> list[int]:
    """Returns the permutation of an index map."""
    if not callable(index_map):
        raise TypeError(f"index_map must be a function such as `lambda i, j: (j, i)`, not {index_map!r}")
    parameters = inspect.signature(index_map).parameters.values()
    if any(
        parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD) for parameter in parameters
    ):
        raise ScheduleError("`transform_layout`: index_map must have a parameter for each index, and no others")
    indices = [object() for _ in parameters]
    try:
        given = list(index_map(*indices))
        return [next(at for at, index in enumerate(indices) if index is one) for one in given]
    except (TypeError, StopIteration):
        raise ScheduleError(
            "`transform_layout`: index_map may only permute the indices; other maps are not supported"
        ) from None


def _only(primitive: str, parameter: str, value: object, known: object) -> None:
    """Rejects a value of a TVM parameter that would change the result and is not supported."""
    if value != known:
        raise ScheduleError(f"`{primitive}`: {parameter}={value!r} is not supported; only {known!r} is")


def _factor(factor: object) -> int | None:
    if isinstance(factor, IntImm):
        factor = factor.value
    return None if factor is None else _given.integer("a factor", factor)
