"""Prints TIR statements and functions as TVMScript."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from passhost.ir import prim as p
from passhost.ir.attrs import AttrObject
from passhost.ir.expr import Call, Expr, GlobalVar, Op, StringImm, Var
from passhost.ir.printer import SIGNS, WRITERS, text_of
from passhost.ir.type import PointerType, PrimType
from passhost.tirx import stmt as s
from passhost.tirx.buffer import BufferType

_LOOPS = ("serial", "parallel", "vectorized", "unroll", "thread_binding")
_AXES = {0: "spatial", 2: "reduce", 3: "scan", 4: "opaque"}
_FUNCTIONS = {"Min": "T.min", "Max": "T.max", "Div": "T.Div", "Mod": "T.truncmod"}


class Writer:
    """Writes statements. Each variable gets a unique name."""

    def __init__(self) -> None:
        """Starts without names."""
        self.lines: list[str] = []
        self.names: dict[Var, str] = {}
        self.taken = {"T", "R", "I", "cls", "if", "else", "for", "in", "not", "and", "or", "is", "with", "while"}
        self.depth = 0

    def name(self, var: Var) -> str:
        """Returns the name of a variable."""
        found = self.names.get(var)
        if found is None:
            hint = "".join(c if c.isalnum() or c == "_" else "_" for c in var.name) or "v"
            hint = f"v{hint}" if hint[0].isdigit() else hint
            found, number = hint, 0
            while found in self.taken:
                number += 1
                found = f"{hint}_{number}"
            self.taken.add(found)
            self.names[var] = found
        return found

    def line(self, text: str) -> None:
        """Adds a line."""
        self.lines.append("    " * self.depth + text)

    def text(self) -> str:
        """Returns all lines."""
        return "\n".join(self.lines) + "\n"

    # Expressions.

    def expr(self, value: Any) -> str:
        """Formats an expression, in parentheses if it is an operation."""
        if isinstance(value, Var):
            return self.name(value)
        if isinstance(value, p.IntImm):
            dtype = str(value.ty)
            text = str(bool(value.value)) if dtype == "bool" else str(value.value)
            return text if dtype == "int32" else f"T.{dtype}({text})"
        if isinstance(value, p.FloatImm):
            number = repr(value.value)
            return f"T.{value.ty}({number})" if number[-1].isdigit() else f'T.{value.ty}("{number}")'
        if isinstance(value, StringImm):
            return repr(value.value)
        if isinstance(value, s.TensorLoad):
            return self.element(value.source, value.indices, value.predicate)
        if isinstance(value, s.TensorRegion):
            ranges = ", ".join(map(self.range, value.region)) or "()"
            return f"{self.name(value.source)}[{ranges}]"
        if isinstance(value, p.BinaryOpExpr):
            return self.operation(value)
        if isinstance(value, Call):
            return self.call(value)
        return self.other(value)

    def whole(self, value: Expr) -> str:
        """Formats an expression without parentheses."""
        text = self.expr(value)
        return text[1:-1] if isinstance(value, p.BinaryOpExpr) and text.startswith("(") else text

    def range(self, value: Any) -> str:
        """Formats an index such as `i` or `0:4`."""
        if isinstance(value.extent, p.IntImm) and value.extent.value == 1:
            return self.expr(value.min)
        return f"{self.expr(value.min)}:{self.expr(p.binary('Add', value.min, value.extent))}"

    def other(self, value: Any) -> str:
        """Formats the less common expressions."""
        fields: dict[type, tuple[str, ...]] = {
            p.Select: ("condition", "true_value", "false_value"),
            p.Ramp: ("base", "stride", "lanes"),
            p.Broadcast: ("value", "lanes"),
        }
        if type(value) in fields:
            parts = [self.expr(getattr(value, name)) for name in fields[type(value)]]
            return f"T.{type(value).__name__}({', '.join(parts)})"
        if isinstance(value, p.Not):
            return f"(not {self.expr(value.a)})"
        if isinstance(value, p.BitwiseNot):
            return f"T.bitwise_not({self.expr(value.a)})"
        if isinstance(value, p.Cast):
            return f'T.Cast("{value.ty}", {self.expr(value.value)})'
        if isinstance(value, p.Shuffle):
            vectors, indices = (", ".join(map(self.expr, items)) for items in (value.vectors, value.indices))
            return f"T.Shuffle([{vectors}], [{indices}])"
        if isinstance(value, p.Let):
            name = self.name(value.var)
            return f"T.Let({self.expr(value.body)}, where={{{name}: {self.expr(value.value)}}})"
        if isinstance(value, bool | int | float | str):
            return repr(value)
        raise ValueError(f"{type(value).__name__} cannot be written as a TIR expression")

    def operation(self, value: p.BinaryOpExpr) -> str:
        """Formats a binary operation on scalars."""
        name, a, b = type(value).__name__, self.expr(value.a), self.expr(value.b)
        floats = str(value.a.ty).startswith(("float", "bfloat"))
        if name in _FUNCTIONS and not (name == "Div" and floats):
            return f"{_FUNCTIONS[name]}({a}, {b})"
        return f"({a} {SIGNS[name]} {b})"

    def element(self, buffer: Var, indices: Iterable[Expr], predicate: Expr | None) -> str:
        """Formats `A[i, j]`."""
        if predicate is not None:
            raise ValueError("a load or store with a predicate cannot be written yet")
        return f"{self.name(buffer)}[{', '.join(map(self.expr, indices)) or '()'}]"

    def call(self, call: Call) -> str:
        """Formats a call of a TIR operator, or of a function of the module."""
        args = [self.expr(arg) for arg in call.args]
        if isinstance(call.op, GlobalVar):
            return f"cls.{call.op.name_hint}({', '.join(args)})"
        if not isinstance(call.op, Op) or not call.op.name.startswith("tirx."):
            raise ValueError(f"a call of {call.op!r} cannot be written in TIR")
        name = call.op.name.removeprefix("tirx.")
        if name == "buffer_data":
            return f"{args[0]}.data"
        if name in ("call_extern", "call_pure_extern", "call_packed", "call_intrin", "tvm_call_packed"):
            word = {"tvm_call_packed": "call_packed"}.get(name, name)
            typed = word in ("call_extern", "call_pure_extern")
            return f"T.{word}({', '.join([*([repr(str(call.ty))] if typed else []), *args])})"
        known = call.args and call.ty == call.args[0].ty
        dtyped = name in ("reinterpret", "tvm_struct_get", "tvm_access_ptr") or (not known and name in _TYPED)
        return f"T.{name}({', '.join([*args, *([f'dtype={str(call.ty)!r}'] if dtyped else [])])})"

    # Types.

    def dims(self, dims: Iterable[Expr]) -> str:
        """Formats `(n, 4)`."""
        parts = [self.expr(dim) for dim in dims]
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"

    def buffer(self, var: Var) -> str:
        """Formats the arguments that declare a buffer."""
        ty = var.ty
        assert isinstance(ty, BufferType)
        parts = [self.dims(ty.shape), repr(str(ty.dtype))]
        if ty.strides:
            parts.append(f"strides={self.dims(ty.strides)}")
        if ty.elem_offset is not None:
            parts.append(f"elem_offset={self.expr(ty.elem_offset)}")
        if ty.scope_ not in ("", "global"):
            parts.append(f"scope={ty.scope_!r}")
        if ty.data_alignment != 64:
            parts.append(f"align={ty.data_alignment}")
        if ty.offset_factor not in (0, 1):
            parts.append(f"offset_factor={ty.offset_factor}")
        return ", ".join(parts)

    def value_type(self, ty: Any) -> str:
        """Formats a type such as `T.int32`."""
        if isinstance(ty, PrimType):
            return f"T.{ty.dtype}"
        if isinstance(ty, PointerType):
            element = f'"{ty.element_type}", "{ty.storage_scope}"' if isinstance(ty.element_type, PrimType) else ""
            return f"T.handle({element})"
        raise ValueError(f"a variable of type {ty!r} cannot be written in TIR")

    # Statements.

    def block(self, head: str, body: s.Stmt) -> None:
        """Writes a line that ends with `:`, and indented statements below it."""
        self.line(head)
        self.depth += 1
        self.stmt(body)
        self.depth -= 1

    def stmt(self, stmt: Any) -> None:
        """Writes a statement."""
        write = getattr(self, f"_{type(stmt).__name__}", None)
        if write is None:
            raise ValueError(f"{type(stmt).__name__} cannot be written as a TIR statement")
        write(stmt)

    def _SeqStmt(self, stmt: s.SeqStmt) -> None:
        for one in stmt.seq:
            self.stmt(one)

    def _Evaluate(self, stmt: s.Evaluate) -> None:
        value = stmt.value
        jumps = {"tirx.break_loop": "break", "tirx.continue_loop": "continue"}
        if isinstance(value, Call) and isinstance(value.op, Op) and value.op.name in jumps:
            return self.line(jumps[value.op.name])
        self.line(f"T.evaluate({self.expr(value)})")
        return None

    def _BufferStore(self, stmt: s.BufferStore) -> None:
        self.line(f"{self.element(stmt.buffer, stmt.indices, stmt.predicate)} = {self.whole(stmt.value)}")

    def _For(self, stmt: s.For) -> None:
        zero = isinstance(stmt.min, p.IntImm) and stmt.min.value == 0
        upper = p.binary("Add", stmt.min, stmt.extent)
        bounds = [self.expr(stmt.extent)] if zero else [self.expr(stmt.min), self.expr(upper)]
        if stmt.thread_binding is not None:
            bounds.append(f"thread={stmt.thread_binding.thread_tag!r}")
        if stmt.annotations:
            bounds.append(f"annotations={self.attr(stmt.annotations)}")
        if stmt.step is not None:
            bounds.append(f"step={self.expr(stmt.step)}")
        name = self.name(stmt.loop_var)
        self.block(f"for {name} in T.{_LOOPS[stmt.kind]}({', '.join(bounds)}):", stmt.body)

    def _While(self, stmt: s.While) -> None:
        self.block(f"while {self.expr(stmt.condition)}:", stmt.body)

    def _IfThenElse(self, stmt: s.IfThenElse) -> None:
        self.block(f"if {self.expr(stmt.condition)}:", stmt.then_case)
        if stmt.else_case is not None:
            self.block("else:", stmt.else_case)

    def _AttrStmt(self, stmt: s.AttrStmt) -> None:
        about = stmt.node
        if stmt.attr_key == "thread_extent" and isinstance(about, s.IterVar):
            head = f"with T.launch_thread({about.thread_tag!r}, {self.expr(stmt.value)}) as {self.name(about.var)}:"
        elif about is None:
            head = f"with T.attr({{{stmt.attr_key!r}: {self.expr(stmt.value)}}}):"
        else:
            head = f"with T.attr({self.about(about)}, {stmt.attr_key!r}, {self.expr(stmt.value)}):"
        self.block(head, stmt.body)

    def about(self, node: Any) -> str:
        """Formats the object of an attribute."""
        return self.expr(node) if isinstance(node, Expr) else self.attr(node)

    def _AssertStmt(self, stmt: s.AssertStmt) -> None:
        message = ", ".join(map(self.expr, stmt.message_parts))
        self.line(f"assert {self.expr(stmt.condition)}, ({self.expr(stmt.kind)}, [{message}])")

    def _Bind(self, stmt: s.Bind) -> None:
        value = self.expr(stmt.value)
        self.line(f"{self.name(stmt.var)}: T.let[{self.value_type(stmt.var.ty)}] = {value}")

    def _AllocBuffer(self, stmt: s.AllocBuffer) -> None:
        more = f", annotations={self.attr(stmt.annotations)}" if stmt.annotations else ""
        self.line(f"{self.name(stmt.buffer)} = T.alloc_buffer({self.buffer(stmt.buffer)}{more})")

    def _DeclBuffer(self, stmt: s.DeclBuffer) -> None:
        data = f", data={self.expr(stmt.data)}" if stmt.data is not None else ""
        self.line(f"{self.name(stmt.buffer)} = T.decl_buffer({self.buffer(stmt.buffer)}{data})")

    def _Return(self, stmt: s.Return) -> None:
        self.line("return" if stmt.value is None else f"return {self.expr(stmt.value)}")

    def _SBlockRealize(self, stmt: s.SBlockRealize) -> None:
        block = stmt.block
        self.line(f"with T.sblock({block.name_hint!r}):")
        self.depth += 1
        for iter_var, value in zip(block.iter_vars, stmt.iter_values, strict=True):
            dom = iter_var.dom
            if dom is None:
                raise ValueError("an iterator of a block must have a range")
            zero = isinstance(dom.min, p.IntImm) and dom.min.value == 0
            end = p.binary("Add", dom.min, dom.extent)
            bounds = self.expr(dom.extent) if zero else f"({self.expr(dom.min)}, {self.expr(end)})"
            kind = _AXES[iter_var.iter_type]
            self.line(f"{self.name(iter_var.var)} = T.axis.{kind}({bounds}, {self.expr(value)})")
        if not (isinstance(stmt.predicate, p.IntImm) and stmt.predicate.value):
            self.line(f"T.where({self.expr(stmt.predicate)})")
        for word, regions, said in zip(("reads", "writes"), (block.reads, block.writes), block._said, strict=True):
            if said:
                self.line(f"T.{word}({', '.join(map(self.expr, regions))})")
        if block.annotations:
            self.line(f"T.sblock_attr({self.attr(block.annotations)})")
        for buffer in block.alloc_buffers:
            self.line(f"{self.name(buffer)} = T.sblock_alloc_buffer({self.buffer(buffer)})")
        for match in block.match_buffers:
            source = self.expr(match.source)
            self.line(f"{self.name(match.buffer)} = T.match_buffer({source}, {self.buffer(match.buffer)})")
        if block.init is not None:
            self.block("with T.init():", block.init)
        self.stmt(block.body)
        self.depth -= 1

    def attr(self, value: Any) -> str:
        """Formats the value of an annotation."""
        if isinstance(value, AttrObject):
            raise ValueError(f"an annotation {value!r} cannot be written yet")
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key!r}: {self.attr(item)}" for key, item in value.items()) + "}"
        if isinstance(value, tuple | list):
            return f"[{', '.join(map(self.attr, value))}]"
        return self.expr(value) if isinstance(value, Expr) else repr(value)


_TYPED = ("if_then_else",)


def _text_of(node: Any) -> str:
    """Returns the text of a statement, or of an element or region of a buffer."""
    writer = Writer()
    if not isinstance(node, s.Stmt):
        return writer.expr(node)
    writer.stmt(node)
    return writer.text().rstrip("\n")


def node_text(node: Any) -> str:
    """Returns the text of any object, including nested statements."""
    return text_of(node)


def function_text(params: Iterable[Var], body: s.Stmt, ret: Any, s_tir: bool, private: bool) -> str:
    """Returns the text of a module with one function, `main`, without attributes."""
    writer = Writer()
    blocks = isinstance(body, s.SBlockRealize) and body.block.name_hint == "root" and not body.block.iter_vars
    writer.line("@I.ir_module")
    writer.line("class Module:")
    writer.depth = 1
    options = [f"{word}=True" for word, said in (("private", private), ("s_tir", s_tir or blocks)) if said]
    writer.line(f"@T.prim_func({', '.join(options)})" if options else "@T.prim_func")
    own: list[str] = []
    heads: list[str] = []
    scalars: set[Var] = set()
    symbols: dict[Var, None] = {}
    for param in params:
        name = writer.name(param)
        if not s.is_buffer_var(param):
            own.append(f"{name}: {writer.value_type(param.ty)}")
            scalars.add(param)
            continue
        free = [var for var in _symbols(param.ty) if var not in scalars]
        symbols.update(dict.fromkeys(free))
        if free:
            own.append(f"{name}_handle: T.handle")
            heads.append(f"{name} = T.match_buffer({name}_handle, {writer.buffer(param)})")
        else:
            own.append(f"{name}: T.Buffer({writer.buffer(param)})")
    returns = "" if ret is None else f" -> {writer.value_type(ret)}"
    writer.line(f"def main({', '.join(own)}){returns}:")
    writer.depth += 1
    for symbol in symbols.keys() - scalars:
        writer.line(f"{writer.name(symbol)} = T.{symbol.ty}()")
    for head in heads:
        writer.line(head)
    if blocks:
        root = body.block  # type: ignore[attr-defined]
        for buffer in root.alloc_buffers:
            writer.line(f"{writer.name(buffer)} = T.sblock_alloc_buffer({writer.buffer(buffer)})")
        body = root.body
    writer.stmt(body)
    return writer.text()


def _symbols(ty: Any) -> list[Var]:
    """Returns the symbolic variables in the type of a buffer."""
    found: dict[Var, None] = {}
    work: list[Any] = [*ty.shape, *ty.strides, *([] if ty.elem_offset is None else [ty.elem_offset])]
    while work:
        part = work.pop()
        if isinstance(part, Var):
            found[part] = None
        elif isinstance(part, p.BinaryOpExpr):
            work += [part.b, part.a]
        elif isinstance(part, p.Cast):
            work.append(part.value)
    return list(found)


WRITERS.update(dict.fromkeys(("Stmt", "TensorLoad", "TensorRegion"), _text_of))
