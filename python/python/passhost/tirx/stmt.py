"""TIR statements. They are immutable; a changed statement is a new object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, ClassVar

from passhost.ir import prim
from passhost.ir._node import Comparison, Node
from passhost.ir.expr import Call, Expr, ExprWithOp, Op, Range, StringImm, Var, _Callable, checked_expr
from passhost.ir.type import MISSING, Type
from passhost.tirx.buffer import BufferType

__all__ = [
    "AllocBuffer",
    "AssertStmt",
    "AttrStmt",
    "Bind",
    "BufferLoad",
    "BufferRegion",
    "BufferStore",
    "DeclBuffer",
    "Evaluate",
    "For",
    "ForKind",
    "IfThenElse",
    "IterVar",
    "MatchBufferRegion",
    "Return",
    "SBlock",
    "SBlockRealize",
    "SeqStmt",
    "Stmt",
    "TensorLoad",
    "TensorRegion",
    "While",
    "is_buffer_var",
    "stmt_list",
]


class ForKind(IntEnum):
    """Kinds of loops."""

    SERIAL = 0
    PARALLEL = 1
    VECTORIZED = 2
    UNROLLED = 3
    THREAD_BINDING = 4


_KINDS = {
    "": ForKind.SERIAL,
    "serial": ForKind.SERIAL,
    "parallel": ForKind.PARALLEL,
    "vectorized": ForKind.VECTORIZED,
    "unroll": ForKind.UNROLLED,
    "thread_binding": ForKind.THREAD_BINDING,
}


def is_buffer_var(value: object) -> bool:
    """Returns true if a value is a buffer variable."""
    return isinstance(value, Var) and isinstance(value.ty, BufferType)


def _buffer(value: object) -> Var:
    if not isinstance(value, Var) or not is_buffer_var(value):
        raise TypeError(f"a buffer must be a Var whose type is a BufferType, not {value!r}")
    return value


def _var(value: object) -> Var:
    if not isinstance(value, Var):
        raise TypeError(f"a variable must be a Var, not {type(value).__name__}")
    return value


def _stmt(value: object) -> Stmt:
    if not isinstance(value, Stmt):
        raise TypeError(f"expected a statement, not {type(value).__name__}")
    return value


def _exprs(values: Any, what: str) -> tuple[Expr, ...]:
    items = values if isinstance(values, Sequence | tuple) and not isinstance(values, str) else [values]
    return tuple(_scalar(item, what) for item in items)


def _scalar(value: Any, what: str) -> Expr:
    """Converts to a scalar expression; an int becomes int32, as everywhere in TIR."""
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return prim.scalar(value) if plain else checked_expr(value, what)


class Stmt(Node):
    """A statement."""

    __slots__ = ()


class TensorLoad(_Callable, ExprWithOp):
    """An element of a buffer."""

    __slots__ = ("indices", "predicate", "source")
    source: Var
    indices: tuple[Expr, ...]
    predicate: Expr | None

    @property
    def buffer(self) -> Var:
        """The buffer."""
        return self.source


def BufferLoad(buffer: Var, indices: Any, span: Any = None) -> TensorLoad:
    """Returns the element of a buffer at these indices."""
    dtype = _buffer(buffer).ty.dtype  # type: ignore[attr-defined]
    return load(buffer, _exprs(indices, "an index"), None, dtype)


class TensorRegion(Node):
    """A region of a buffer: a range for each dimension."""

    __slots__ = ("region", "source")
    source: Var
    region: tuple[Range, ...]

    def __init__(self, source: Var, region: Iterable[Range], ty: Any = None, span: Any = None) -> None:
        """Creates a region from the buffer and the ranges."""
        self._source, self._region = _buffer(source), tuple(region)

    def _same(self, other: object, by: Comparison, defines: bool) -> bool:
        """Compares a region that a block reads or writes. As in TVM, undefined buffers may correspond."""
        if type(self) is not type(other):
            return False
        return by.used(self.source, other.source) and by.same(self.region, other.region)

    @property
    def buffer(self) -> Var:
        """The buffer."""
        return self.source


def BufferRegion(buffer: Var, region: Iterable[Range]) -> TensorRegion:
    """Returns a region of a buffer."""
    return TensorRegion(buffer, region)


class MatchBufferRegion(Node):
    """A buffer that is a region of another buffer."""

    __slots__ = ("buffer", "source")
    _defines: ClassVar[tuple[str, ...]] = ("buffer",)
    source: TensorRegion
    buffer: Var

    def __init__(self, buffer: Var, source: TensorRegion) -> None:
        """Creates a match from the buffer and the region."""
        self._buffer, self._source = _buffer(buffer), source


class IterVar(Node):
    """A block iterator or thread variable: its range, kind, and thread tag."""

    __slots__ = ("dom", "iter_type", "thread_tag", "var")
    _defines: ClassVar[tuple[str, ...]] = ("var",)
    DataPar, ThreadIndex, CommReduce, Ordered, Opaque = range(5)
    dom: Range | None
    var: Var
    iter_type: int
    thread_tag: str

    def __init__(self, dom: Any, var: Var | str, iter_type: int, thread_tag: str = "", span: Any = None) -> None:
        """Creates an iterator from a range or a pair of begin and end, the variable, and the kind."""
        self._dom = dom if dom is None or isinstance(dom, Range) else Range(*dom)
        self._var = Var(var, "int32") if isinstance(var, str) else _var(var)
        self._iter_type, self._thread_tag = int(iter_type), thread_tag


class Evaluate(Stmt):
    """An expression evaluated for its effect."""

    __slots__ = ("value",)
    value: Expr

    def __init__(self, value: Any, span: Any = None) -> None:
        """Creates a statement from the expression."""
        self._value = _scalar(value, "the evaluated value")


class SeqStmt(Stmt):
    """Statements in order."""

    __slots__ = ("seq",)
    seq: tuple[Stmt, ...]

    def __init__(self, seq: Iterable[Stmt], span: Any = None) -> None:
        """Creates a sequence from the statements."""
        self._seq = tuple(_stmt(one) for one in seq)

    def __getitem__(self, at: int) -> Stmt:
        """Returns a statement."""
        return self.seq[at]

    def __len__(self) -> int:
        """Returns the number of statements."""
        return len(self.seq)


class BufferStore(Stmt):
    """A store of a value to a buffer."""

    __slots__ = ("buffer", "indices", "predicate", "value")
    buffer: Var
    value: Expr
    indices: tuple[Expr, ...]
    predicate: Expr | None

    def __init__(self, buffer: Var, value: Any, indices: Any, predicate: Any = None, span: Any = None) -> None:
        """Creates a store from the buffer, the value and the indices."""
        self._buffer, self._indices = _buffer(buffer), _exprs(indices, "an index")
        dtype = buffer.ty.dtype  # type: ignore[attr-defined]
        self._value = value if isinstance(value, Expr) else prim.scalar(value, str(dtype))
        self._predicate = predicate


class For(Stmt):
    """A loop."""

    __slots__ = ("annotations", "body", "extent", "kind", "loop_var", "min", "step", "thread_binding")
    _defines: ClassVar[tuple[str, ...]] = ("loop_var",)
    min: Expr
    extent: Expr
    step: Expr | None
    kind: ForKind
    thread_binding: IterVar | None
    annotations: Mapping[str, Any]
    loop_var: Var
    body: Stmt

    def __init__(
        self,
        loop_var: Var,
        min: Any,
        extent: Any,
        kind: int,
        body: Stmt,
        thread_binding: IterVar | None = None,
        annotations: Mapping[str, Any] | None = None,
        step: Any = None,
        span: Any = None,
    ) -> None:
        """Creates a loop from the variable, its start, its extent, the kind, and the body."""
        self._loop_var, dtype = _var(loop_var), str(loop_var.ty)
        self._min, self._extent = (x if isinstance(x, Expr) else prim.scalar(x, dtype) for x in (min, extent))
        self._step = step if step is None or isinstance(step, Expr) else prim.scalar(step, dtype)
        self._kind, self._body = ForKind(kind), _stmt(body)
        self._thread_binding, self._annotations = thread_binding, dict(annotations or {})


class While(Stmt):
    """A loop that repeats while a condition holds."""

    __slots__ = ("body", "condition")
    condition: Expr
    body: Stmt

    def __init__(self, condition: Any, body: Stmt, span: Any = None) -> None:
        """Creates a loop from the condition and the body."""
        self._condition, self._body = checked_expr(condition, "a condition"), _stmt(body)


class IfThenElse(Stmt):
    """A conditional statement; the second branch is optional."""

    __slots__ = ("condition", "else_case", "then_case")
    condition: Expr
    then_case: Stmt
    else_case: Stmt | None

    def __init__(self, condition: Any, then_case: Stmt, else_case: Stmt | None = None, span: Any = None) -> None:
        """Creates a statement from the condition and the branches."""
        self._condition, self._then_case = checked_expr(condition, "a condition"), _stmt(then_case)
        self._else_case = None if else_case is None else _stmt(else_case)


class AttrStmt(Stmt):
    """A statement with an attribute of an object."""

    __slots__ = ("attr_key", "body", "node", "value")
    _defines: ClassVar[tuple[str, ...]] = ("node",)
    attr_key: str
    value: Expr
    node: Any
    body: Stmt

    def __init__(self, node: Any, attr_key: str, value: Any, body: Stmt, span: Any = None) -> None:
        """Creates a statement from the object, the attribute's name and value, and the body."""
        self._node, self._attr_key = node, attr_key
        self._value, self._body = _scalar(value, "the value of an attribute"), _stmt(body)


class AssertStmt(Stmt):
    """An assertion: if the condition is false, it raises an error of the given kind with a message."""

    __slots__ = ("condition", "kind", "message_parts")
    kind: Expr
    condition: Expr
    message_parts: tuple[Expr, ...]

    def __init__(self, kind: Any, condition: Any, message_parts: Any = (), span: Any = None) -> None:
        """Creates an assertion from the kind of error, the condition, and the parts of the message."""
        self._kind, self._condition = checked_expr(kind, "a kind"), checked_expr(condition, "a condition")
        self._message_parts = tuple(StringImm(part) if isinstance(part, str) else part for part in message_parts or ())


class Bind(Stmt):
    """A binding of a variable to a value, for the statements after it."""

    __slots__ = ("value", "var")
    _defines: ClassVar[tuple[str, ...]] = ("var",)
    value: Expr
    var: Var

    def __init__(self, var: Var, value: Any, span: Any = None) -> None:
        """Creates a binding from the variable and the value."""
        self._var, self._value = _var(var), _scalar(value, "a value")


class AllocBuffer(Stmt):
    """An allocation of a buffer, for the statements after it."""

    __slots__ = ("annotations", "buffer")
    _defines: ClassVar[tuple[str, ...]] = ("buffer",)
    buffer: Var
    annotations: Mapping[str, Any]

    def __init__(self, buffer: Var, annotations: Mapping[str, Any] | None = None, span: Any = None) -> None:
        """Creates an allocation of the buffer."""
        self._buffer, self._annotations = _buffer(buffer), dict(annotations or {})


class DeclBuffer(Stmt):
    """A declaration of a buffer over existing data, for the statements after it."""

    __slots__ = ("buffer", "data")
    _defines: ClassVar[tuple[str, ...]] = ("buffer",)
    data: Expr | None
    buffer: Var

    def __init__(self, buffer: Var, data: Expr | None = None, span: Any = None) -> None:
        """Creates a declaration of the buffer over its data."""
        self._buffer, self._data = _buffer(buffer), data


class Return(Stmt):
    """The end of the function, with an optional result."""

    __slots__ = ("value",)
    value: Expr | None

    def __init__(self, value: Any = None, span: Any = None) -> None:
        """Creates a return of the result."""
        self._value = None if value is None else _scalar(value, "a value")


class SBlock(Stmt):
    """A schedulable block: its iterators, the regions that it reads and writes, and its body."""

    __slots__ = (
        "_said",
        "alloc_buffers",
        "annotations",
        "body",
        "init",
        "iter_vars",
        "match_buffers",
        "name_hint",
        "reads",
        "writes",
    )
    _defines: ClassVar[tuple[str, ...]] = ("alloc_buffers",)
    iter_vars: tuple[IterVar, ...]
    name_hint: str
    alloc_buffers: tuple[Var, ...]
    match_buffers: tuple[MatchBufferRegion, ...]
    reads: tuple[TensorRegion, ...]
    writes: tuple[TensorRegion, ...]
    annotations: Mapping[str, Any]
    init: Stmt | None
    body: Stmt
    _said: tuple[bool, bool]
    """Two flags: one if the text declares the reads, and one if it declares the writes."""

    def __init__(
        self,
        iter_vars: Iterable[IterVar],
        reads: Iterable[TensorRegion],
        writes: Iterable[TensorRegion],
        name_hint: str,
        body: Stmt,
        init: Stmt | None = None,
        alloc_buffers: Iterable[Var] | None = None,
        match_buffers: Iterable[MatchBufferRegion] | None = None,
        annotations: Mapping[str, Any] | None = None,
        span: Any = None,
    ) -> None:
        """Creates a block from its parts."""
        self._iter_vars, self._reads, self._writes = tuple(iter_vars), tuple(reads), tuple(writes)
        self._name_hint, self._body = name_hint, _stmt(body)
        self._init = None if init is None else _stmt(init)
        self._alloc_buffers = tuple(_buffer(buffer) for buffer in alloc_buffers or ())
        self._match_buffers, self._annotations = tuple(match_buffers or ()), dict(annotations or {})
        self._said = (True, True)


class SBlockRealize(Stmt):
    """A block with the values of its iterators, and the condition under which it executes."""

    __slots__ = ("block", "iter_values", "predicate")
    iter_values: tuple[Expr, ...]
    predicate: Expr
    block: SBlock

    def __init__(self, iter_values: Any, predicate: Any, block: SBlock, span: Any = None) -> None:
        """Creates a block realization from the values, the condition and the block."""
        self._iter_values, self._block = _exprs(iter_values, "a value"), block
        self._predicate = checked_expr(predicate, "a condition")


def stmt_list(stmt: Stmt) -> list[Stmt]:
    """Returns the statements of a sequence, or a list with the statement itself."""
    return [part for one in stmt.seq for part in stmt_list(one)] if isinstance(stmt, SeqStmt) else [stmt]


# Functions that the host calls.


def load(source: Any, indices: Any, predicate: Any, ty: Any) -> TensorLoad:
    """Returns an element of a buffer."""
    made = TensorLoad.__new__(TensorLoad)
    made._source, made._indices, made._predicate = source, indices, predicate
    made._ty = ty
    return made


def range_of(begin: Any, extent: Any) -> Range:
    """Returns a range."""
    return Range.from_min_extent(begin, extent)


def sequence(statements: list[Stmt]) -> Stmt:
    """Joins statements into one."""
    if not statements:
        return Evaluate(0)
    return statements[0] if len(statements) == 1 else SeqStmt(statements)


def root_of(statements: list[Stmt], allocated: list[Var], has_blocks: bool) -> Stmt:
    """Returns the body of a function. Blocks are wrapped in a root block without iterators, unless the body already is
    a root block."""
    body = sequence(statements)
    plain = isinstance(body, SBlockRealize) and not body.block.iter_vars
    if allocated or (has_blocks and not plain):
        block = SBlock((), (), (), "root", body, None, allocated)
        return SBlockRealize((), prim.scalar(True), block)
    return body


def loop(var: Any, begin: Any, extent: Any, kind: str, body: Any, thread: str, annotations: Any, step: Any) -> For:
    """Returns a loop, whose kind is given by name."""
    binding = IterVar(None, Var("", str(var.ty)), IterVar.ThreadIndex, thread) if thread else None
    return For(var, begin, extent, _KINDS[kind], body, binding, annotations, step)


def launch(var: Any, extent: Any, thread: str, body: Any) -> AttrStmt:
    """Returns statements that threads execute."""
    zero = prim.scalar(0, str(var.ty))
    about = IterVar(Range.from_min_extent(zero, extent), var, IterVar.ThreadIndex, thread)
    return AttrStmt(about, "thread_extent", extent, body)


def jump(leaves: bool) -> Evaluate:
    """Returns a `break` or a `continue`."""
    name = "tirx.break_loop" if leaves else "tirx.continue_loop"
    return Evaluate(Call(Op._of(name), (), ret_ty="int32"))


def made(cls: type[Any], fields: tuple[Any, ...]) -> Any:
    """Returns an object of a class with these fields."""
    return cls(*fields)


def ramp(parts: Any, _number: int, ty: Type) -> Expr:
    """Returns a vector of equally spaced numbers."""
    return _typed(prim.Ramp(*parts), ty)


def broadcast(parts: Any, _number: int, ty: Type) -> Expr:
    """Returns a vector of equal numbers."""
    return _typed(prim.Broadcast(*parts), ty)


def shuffle(parts: Any, number: int, ty: Type) -> Expr:
    """Returns a vector of elements selected from vectors."""
    return _typed(prim.Shuffle(list(parts[:number]), list(parts[number:])), ty)


def let(parts: Any, _number: int, ty: Type) -> Expr:
    """Returns an expression with a local variable."""
    return _typed(prim.Let(*parts), ty)


def buffer_part(parts: Any, number: int, ty: Type) -> Expr:
    """Returns the data of a buffer, the offset of its first element, or one of its strides."""
    if number == 0:
        return _typed(Call(Op._of("tirx.buffer_data"), parts), ty)
    name = "tirx.buffer_elem_offset" if number == 1 else "tirx.buffer_stride"
    return _typed(Call(Op._of(name), [*parts, *([] if number == 1 else [prim.scalar(number - 2)])]), ty)


def _typed(expr: Expr, ty: Type) -> Expr:
    if ty is not MISSING:
        expr._ty = ty
    return expr
