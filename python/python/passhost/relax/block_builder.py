"""Builds functions binding by binding: `bb.emit(relax.op.add(x, y))`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, cast

from passhost import _passhost, _plugins, _provided
from passhost.error import IllFormedError, too_deep
from passhost.ir.attrs import DictAttrs
from passhost.ir.expr import Call, Expr, GlobalVar, Op, Tuple, TupleGetItem, Var, checked_expr
from passhost.ir.function import BaseFunc
from passhost.ir.module import IRModule
from passhost.ir.structural import structural_equal, structural_hash
from passhost.ir.type import MISSING, TupleType, Type, checked_type
from passhost.relax.analysis import used_vars
from passhost.relax.expr import (
    Binding,
    BindingBlock,
    DataflowBlock,
    DataflowVar,
    ExternFunc,
    Function,
    GenericConst,
    If,
    MatchCast,
    SeqExpr,
    ShapeExpr,
    VarBinding,
    as_sequence,
)
from passhost.relax.type import AnyType, TensorType
from passhost.relax.types import join_types, symbols_in, well_defined

_LOCAL = threading.local()
_COMPUTED = (Call, TupleGetItem, If, SeqExpr)
_NESTED = (*_COMPUTED, Tuple, Function)
_REMEMBERED = 10_000
_VARS = frozenset((Var, DataflowVar))
_PLAIN = frozenset((Var, DataflowVar, GenericConst, ShapeExpr, GlobalVar, ExternFunc))


class _Frame:
    """A block that is being built."""

    __slots__ = ("bindings", "is_dataflow", "named")

    def __init__(self, is_dataflow: bool) -> None:
        self.bindings: list[Binding] = []
        # Maps expressions that were nested to the variables bound to them in this block, so that shared expressions are
        # bound once.
        self.named: dict[Expr, Expr] = {}
        self.is_dataflow = is_dataflow


class _FunctionScope:
    """The scope of `with bb.function(...)`."""

    def __init__(
        self, builder: BlockBuilder, name: str, params: Sequence[Var] | None, attrs: dict[str, Any], pure: bool
    ) -> None:
        self.builder, self.name, self.params, self.attrs, self.pure = builder, name, params, attrs, pure
        self.blocks: list[BindingBlock] = []
        self.has_output = False

    def __enter__(self) -> _FunctionScope:
        """Opens the function."""
        if self.builder._function is not None:
            raise RuntimeError("BlockBuilder does not allow nested functions.")
        self.builder._function = self
        _LOCAL.current = self.builder
        self.builder._begin_binding_block()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        """Closes the function."""
        builder = self.builder
        builder._function = None
        builder._frames.clear()
        _LOCAL.current = None
        if kind is None and not self.has_output:
            raise RuntimeError("emit_func_output must be called in a relax function.")


class _DataflowScope:
    """The scope of `with bb.dataflow()`."""

    def __init__(self, builder: BlockBuilder) -> None:
        self.builder = builder

    def __enter__(self) -> None:
        """Opens the block."""
        if self.builder.current_block_is_dataflow():
            raise RuntimeError("a dataflow block is already open; dataflow blocks do not nest")
        self.builder._close_block()
        self.builder._begin_dataflow_block()

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        """Closes the block."""
        self.builder._close_block()
        self.builder._begin_binding_block()


class _TestingScope:
    """A scope for tests in which some symbolic variables are defined."""

    def __init__(self, builder: BlockBuilder) -> None:
        self.builder = builder

    def __enter__(self) -> None:
        """Opens the scope."""
        self.builder._begin_dataflow_block()

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        """Closes the scope."""
        self.builder._end_block()


class BlockBuilder:
    """Builds a module function by function. Types come from the operators; nested expressions become bindings.

    >>> from passhost import relax
    >>> bb = relax.BlockBuilder()
    >>> x = relax.Var("x", relax.TensorType([2, 3], "float32"))
    >>> with bb.function("main", [x]):
    ...     with bb.dataflow():
    ...         y = bb.emit_output(relax.op.nn.relu(relax.op.add(x, x)))
    ...     _ = bb.emit_func_output(y)
    >>> [binding.var.name for binding in bb.get()["main"].body.blocks[0].bindings]
    ['lv', 'gv']
    """

    def __init__(self, mod: IRModule | None = None) -> None:
        """Continues a module, or starts a new one."""
        _plugins.ensure_loaded()
        self._module = mod.clone() if mod is not None else IRModule()
        self._function: _FunctionScope | None = None
        self._frames: list[_Frame] = []
        self._names: dict[str, int] = {}
        self._bindings: dict[Var, Expr] = {}
        self._infer = _passhost.Inferrer().infer
        # The last operator, and the types of its two arguments and its result; most calls repeat these.
        self._last_type: tuple[Expr | None, Type, Type, Type] = (None, MISSING, MISSING, MISSING)
        self._call_types: dict[tuple[Any, ...], tuple[Type, list[Type]]] = {}
        self._by_hash: dict[int, list[str]] | None = None

    @staticmethod
    def current() -> BlockBuilder | None:
        """Returns the builder whose function is open on this thread."""
        return getattr(_LOCAL, "current", None)

    # Scopes.

    def function(
        self,
        name: str,
        params: Var | Tuple | Sequence[Var] | None = None,
        attrs: Mapping[str, Any] | None = None,
        pure: bool = True,
        private: bool = False,
    ) -> _FunctionScope:
        """Opens a function: `with bb.function("main", [x]):`."""
        known = None if params is None else _params(params)
        entries = dict(attrs or {})
        if "global_symbol" in entries and entries["global_symbol"] != name:
            raise ValueError(f"the function is {name!r}, but its global_symbol is {entries['global_symbol']!r}")
        if not private:
            entries["global_symbol"] = name
        return _FunctionScope(self, name, known, entries, pure)

    def dataflow(self) -> _DataflowScope:
        """Opens a dataflow block: `with bb.dataflow():`."""
        return _DataflowScope(self)

    def testing_scope(self, def_vars: Sequence[Var]) -> _TestingScope:
        """Returns a scope for tests."""
        return _TestingScope(self)

    def _begin_binding_block(self) -> None:
        """Opens a block."""
        self._frames.append(_Frame(False))

    def _begin_dataflow_block(self) -> None:
        """Opens a dataflow block."""
        self._frames.append(_Frame(True))

    def _end_block(self) -> BindingBlock:
        """Closes the innermost block."""
        if not self._frames:
            raise RuntimeError("no block is open")
        frame = self._frames.pop()
        return (DataflowBlock if frame.is_dataflow else BindingBlock)(frame.bindings)

    def _close_block(self) -> None:
        block = self._end_block()
        if block.bindings and self._function is not None:
            self._function.blocks.append(block)

    def current_block_is_dataflow(self) -> bool:
        """Returns true if the innermost block is a dataflow block."""
        return bool(self._frames) and self._frames[-1].is_dataflow

    def begin_scope(self, params: Sequence[Var] | None = None) -> None:
        """Opens a scope of symbolic variables. Scopes are determined from types, so nothing happens here."""

    def end_scope(self) -> None:
        """Closes a scope of symbolic variables."""

    # Emitting.

    def emit(self, expr: Any, name_hint: str = "") -> Var:
        """Binds an expression to a new variable, which is local to the dataflow block if one is open."""
        return self._emit(expr, name_hint, output=False)

    def emit_output(self, output: Any, name_hint: str = "") -> Var:
        """Binds an expression to a new variable that is visible after the dataflow block."""
        if not self.current_block_is_dataflow():
            raise RuntimeError("emit_output: outside of a dataflow block; use emit")
        return self._emit(output, name_hint, output=True)

    def _emit(self, expr: Any, name_hint: str, output: bool) -> Var:
        if not self._frames:
            raise RuntimeError("emit: no block is open; use `with bb.function(...)`")
        if self._function is not None and self._function.has_output:
            raise RuntimeError("emit: the function already has its output; emit before emit_func_output")
        try:
            value = self._call(expr) if type(expr) is Call else self._bound_value(_expr(expr))
        except RecursionError as error:
            raise too_deep(error) from None
        frame = self._frames[-1]
        inner = frame.is_dataflow and not output
        cls = DataflowVar if inner else Var
        var = cls.__new__(cls)
        var._name = self.get_unique_name(name_hint or ("lv" if inner else "gv"))
        var._ty = value.ty
        binding = VarBinding.__new__(VarBinding)
        binding._var, binding._value = var, value
        frame.bindings.append(binding)
        self._bindings[var] = value
        return var

    def match_cast(self, value: Expr, ty: Type, name_hint: str = "") -> Var:
        """Binds `R.match_cast(value, ty)` to a new variable."""
        value, ty = self._operand(_expr(value)), checked_type(ty)
        inner = self.current_block_is_dataflow()
        var = (DataflowVar if inner else Var)(self.get_unique_name(name_hint or ("lv" if inner else "gv")), ty)
        self._frames[-1].bindings.append(MatchCast(var, value, ty))
        self._bindings[var] = value
        return var

    def emit_normalized(self, binding: Binding) -> None:
        """Adds a binding unchanged."""
        if type(binding) is not VarBinding and not isinstance(binding, Binding):
            raise TypeError(f"emit_normalized takes a Binding, not {type(binding).__name__}")
        frames = self._frames
        if not frames:
            raise RuntimeError("emit_normalized: no block is open; use `with bb.function(...)`")
        frames[-1].bindings.append(binding)
        self._bindings[binding._var] = binding._value

    def emit_func_output(self, output: Any, params: Var | Tuple | Sequence[Var] | None = None) -> GlobalVar:
        """Sets the result of the open function, and adds the function to the module. Returns its name."""
        scope = self._function
        if scope is None:
            raise RuntimeError("emit_func_output must be called in a relax function.")
        if scope.has_output:
            raise RuntimeError("emit_func_output must be called exactly once in a relax function.")
        if params is not None and scope.params is not None:
            raise RuntimeError(
                "function parameters have been defined in the initialization of the function scope; leave them out here"
            )
        known = scope.params if scope.params is not None else _params(params) if params is not None else None
        if known is None:
            raise RuntimeError("Relax function must have parameter: give them to `function` or `emit_func_output`")
        if self.current_block_is_dataflow():
            self._close_block()
            self._begin_binding_block()
        result = self._operand(_expr(output), may_be_tuple=True)
        scope.has_output = True
        self._close_block()
        _check_inner(scope.blocks, result)
        body = SeqExpr(scope.blocks, result)
        body._ty = result.ty
        ret = well_defined(result.ty, symbols_in(param.ty for param in known) | {p for p in known if p._prim})
        function = Function(known, body, ret, scope.pure, DictAttrs(scope.attrs))
        self._begin_binding_block()
        return self.add_func(function, scope.name)

    # Normalizing.

    def normalize(self, expr: Any) -> Any:
        """Returns the expression with its type inferred. Nested expressions become bindings of the open block, if there
        is one."""
        try:
            return self._normalized(expr)
        except RecursionError as error:
            raise too_deep(error) from None

    def _normalized(self, expr: Any) -> Any:
        if not isinstance(expr, Expr):
            expr = _expr(expr)
        if isinstance(expr, Function):
            return self._normalized_function(expr)
        if not self._frames and isinstance(expr, SeqExpr):
            return self._sequence(expr)
        return self._bound_value(expr)

    def _bound_value(self, expr: Expr) -> Expr:
        """Returns a value that can be bound to a variable: it has a type, and its operands are not nested."""
        if isinstance(expr, Call):
            return self._call(expr)
        if isinstance(expr, Tuple):
            return self._tuple(expr)
        if isinstance(expr, TupleGetItem):
            value = self._operand(expr.tuple_value, may_be_tuple=True)
            made = expr if value is expr.tuple_value else TupleGetItem(value, expr.index)
            if made.ty is MISSING and isinstance(value.ty, TupleType):
                made._ty = TupleGetItem(value, expr.index).ty
            return made
        if isinstance(expr, If):
            return self._choice(expr)
        if isinstance(expr, SeqExpr):
            return self._inlined(expr)
        if isinstance(expr, Function):
            return self._normalized_function(expr)
        return expr

    def _operand(self, expr: Expr, may_be_tuple: bool = False) -> Expr:
        """Returns a value in the form of an operand: a variable, a constant, a shape, or a tuple of these."""
        if isinstance(expr, Tuple):
            return self._tuple(expr)
        if type(expr) in _PLAIN:
            return expr
        if isinstance(expr, _COMPUTED) and not (isinstance(expr, Call) and expr._prim):
            if not self._frames:
                return self._bound_value(expr)
            known = self._frames[-1].named.get(expr)
            if known is None:
                known = self._named(self._bound_value(expr))
                self._frames[-1].named[expr] = known
            return known
        if isinstance(expr, Function) and self._frames:
            return self._named(self._normalized_function(expr))
        return expr

    def _named(self, value: Expr) -> Expr:
        if not isinstance(value, (*_COMPUTED, Function)):
            return value
        return self._emit(value, "", output=False)

    def _tuple(self, expr: Tuple) -> Tuple:
        fields = [self._operand(field) for field in expr.fields]
        if all(a is b for a, b in zip(fields, expr.fields, strict=True)):
            if expr.ty is MISSING:
                expr._ty = Tuple(fields).ty
            return expr
        return Tuple(fields)

    def _call(self, expr: Call) -> Call:
        """Returns a normalized call."""
        args = expr._args
        if len(args) == 2 and type(args[0]) in _VARS and type(args[1]) in _VARS:
            if expr._ty is MISSING:
                op, one, two, ty = self._last_type
                same = expr._op is op and args[0]._ty is one and args[1]._ty is two
                expr._ty = ty if same and expr._attrs is None and not expr._ty_args else self._known_type(expr)
            return expr
        if all(type(arg) in _VARS for arg in args):
            if expr._ty is MISSING:
                expr._ty = self._known_type(expr)
            return expr
        for arg in args:
            if type(arg) not in _PLAIN and isinstance(arg, _NESTED):
                new = tuple([self._operand(one) for one in args])
                if any(a is not b for a, b in zip(new, args, strict=True)):
                    made = Call(expr.op, new, expr.attrs, expr.ty_args)
                    made._ty = expr.ty
                    expr = made
                break
        if expr._ty is MISSING:
            expr._ty = self._call_type(expr)
        return expr

    def _known_type(self, call: Call) -> Type:
        """Returns the type of a call whose arguments are variables, reusing an earlier call with the same argument
        types."""
        if call._attrs is not None or call._ty_args:
            return self._call_type(call)
        args = call._args
        known = self._call_types.get(_type_key(call))
        if known is None:
            return self._call_type(call)
        if len(args) == 2:
            self._last_type = (call._op, args[0]._ty, args[1]._ty, known[0])
        return known[0]

    def _operator_type(self, call: Call) -> Type:
        """Infers the type of an operator call. It is cached if it depends only on the argument types, that is, if all
        arguments are tensor variables.
        """
        ty: Type = self._infer(call)[0]
        types = [arg._ty for arg in call._args]
        variables = all(type(arg) in _VARS and type(arg._ty) is TensorType for arg in call._args)
        if variables and call._attrs is None and not call._ty_args:
            if len(self._call_types) >= _REMEMBERED:
                self._call_types.clear()
            # The entry keeps the argument types alive, so that their ids are not reused.
            self._call_types[_type_key(call)] = (ty, types)
        return ty

    def _call_type(self, call: Call) -> Type:
        op = call._op
        if isinstance(op, Op):
            return self._operator_type(call)
        if isinstance(op, ExternFunc):
            types = call.ty_args
            return AnyType() if not types else types[0] if len(types) == 1 else TupleType(types)
        if isinstance(op, GlobalVar) and op.ty is MISSING:
            if op not in self._module:
                return AnyType()
            op._ty = self._module[op].ty
        return self._infer(call)[0]  # type: ignore[no-any-return]

    def _choice(self, expr: If) -> If:
        cond = self._operand(expr.cond)
        branches = [self._branch(branch) for branch in (expr.true_branch, expr.false_branch)]
        same = cond is expr.cond and branches[0] is expr.true_branch and branches[1] is expr.false_branch
        made = expr if same else If(cond, *branches)
        made._ty = join_types(branches[0].ty, branches[1].ty) if made.ty is MISSING else made.ty
        return made

    def _branch(self, branch: SeqExpr) -> SeqExpr:
        return self._sequence(branch, always=True)

    def _sequence(self, seq: SeqExpr, always: bool = False) -> SeqExpr:
        """Returns a sequence whose bindings and value are normalized."""
        outer, self._frames = self._frames, []
        try:
            blocks: list[BindingBlock] = []
            for block in seq.blocks:
                blocks += self._block(block)
            self._begin_binding_block()
            body = self._operand(seq.body)
            if self._frames[-1].bindings:
                blocks.append(self._end_block())
        finally:
            self._frames = outer
        if body is seq.body and _all_same(blocks, seq.blocks):
            seq._ty = body.ty
            return seq
        made = SeqExpr(blocks, body)
        made._ty = body.ty
        return made

    def _block(self, block: BindingBlock) -> list[BindingBlock]:
        scope = _FunctionScope(self, "", None, {}, True)
        outer, self._function = self._function, scope
        try:
            self._frames.append(_Frame(isinstance(block, DataflowBlock)))
            for binding in block.bindings:
                self._rebound(binding)
            made = self._end_block()
        finally:
            self._function = outer
        if not scope.blocks and _all_same(made.bindings, block.bindings):
            return [block]
        return [*scope.blocks, *([made] if made.bindings else [])]

    def _rebound(self, binding: Binding) -> None:
        value = binding.value  # type: ignore[attr-defined]
        new = self._operand(value) if isinstance(binding, MatchCast) else self._bound_value(value)
        var = binding.var
        if var.ty is MISSING:
            var._ty = binding.ty if isinstance(binding, MatchCast) else new.ty
        if new is not value:
            binding = MatchCast(var, new, binding.ty) if isinstance(binding, MatchCast) else VarBinding(var, new)
        self.emit_normalized(binding)

    def _inlined(self, expr: SeqExpr) -> Expr:
        """Returns the value of a sequence, whose bindings move to the open block."""
        if not self._frames:
            return self._sequence(expr)
        for block in expr.blocks:
            is_dataflow = isinstance(block, DataflowBlock)
            here = self.current_block_is_dataflow()
            if not block.bindings:
                continue
            if here and not is_dataflow and self._function is None:
                raise IllFormedError(
                    "a SeqExpr in a dataflow block contains a plain block, whose bindings cannot go into the dataflow "
                    "block. Make it a DataflowBlock, or emit the bindings with `builder_`"
                )
            if here and not is_dataflow:
                self._close_block()
                self._begin_binding_block()
            for binding in block.bindings:
                self._rebound(binding)
            if here and not is_dataflow:
                self._close_block()
                self._begin_dataflow_block()
        return self._bound_value(expr.body)

    def _normalized_function(self, function: Function) -> Function:
        if function._handle is not None:
            return function
        body = self._sequence(function.body)
        if body is function.body and function.ret_ty is not MISSING:
            return function
        params = function.params
        ret = function.ret_ty
        if ret is MISSING:
            ret = well_defined(body.ty, symbols_in(param.ty for param in params) | {p for p in params if p._prim})
        return Function(params, body, ret, function.is_pure, function.attrs)

    # The module.

    def add_func(self, func: BaseFunc, func_name: str) -> GlobalVar:
        """Adds a function under a name, with a number if the name is taken. Returns its name, or the name of an equal
        function."""
        if not isinstance(func, BaseFunc):
            raise TypeError(f"add_func takes a function, not {type(func).__name__}")
        return self._add_func(func, func_name, shared=True)

    def _add_func(self, func: BaseFunc, func_name: str, shared: bool) -> GlobalVar:
        shared = shared and "global_symbol" not in func.attrs and _is_well_formed(func)
        equal = self._equal_function(func) if shared else None
        if equal is not None:
            return self._global_var(equal)
        name = self._function_name(func_name)
        self._module[name] = func
        if shared:
            self._hashes().setdefault(self._hash(func), []).append(name)
        return self._global_var(name)

    def _global_var(self, name: str) -> GlobalVar:
        return GlobalVar(name, self._module[name].ty)

    def _function_name(self, hint: str, taken: Collection[str] = ()) -> str:
        if hint not in self._module and hint not in taken:
            return hint
        number = 1
        while f"{hint}{number}" in self._module or f"{hint}{number}" in taken:
            number += 1
        return f"{hint}{number}"

    def _hash(self, func: BaseFunc) -> int:
        return structural_hash(func)

    def _hashes(self) -> dict[int, list[str]]:
        if self._by_hash is None:
            self._by_hash = {}
            for var, function in self._module.functions_items():
                if "global_symbol" not in function.attrs and _is_well_formed(function):
                    self._by_hash.setdefault(self._hash(function), []).append(var.name_hint)
        return self._by_hash

    def _equal_function(self, func: BaseFunc) -> str | None:
        for name in self._hashes().get(self._hash(func), ()):
            if name in self._module and structural_equal(self._module[name], func):
                return name
        return None

    def update_func(self, gv: GlobalVar, updated_func: BaseFunc) -> None:
        """Replaces a function."""
        self._module[gv]
        self._module[gv] = updated_func
        self._by_hash = None

    def get(self) -> IRModule:
        """Returns the module with all functions added so far."""
        return self._module.clone()

    def finalize(self) -> IRModule:
        """Returns the module. Public functions keep their names; private functions with the same name as a public
        function are renamed."""
        symbols = {
            var.name_hint: str(function.attrs["global_symbol"])
            for var, function in self._module.functions_items()
            if "global_symbol" in function.attrs
        }
        renamed = {name: symbol for name, symbol in symbols.items() if name != symbol}
        if not renamed or len(set(symbols.values())) < len(symbols):
            return self.get()
        for symbol in list(renamed.values()):
            if symbol in self._module and symbol not in symbols:
                renamed[symbol] = self._function_name(symbol, set(symbols.values()) | set(renamed.values()))
        return cast(IRModule, _provided.renamed(self.get(), renamed))

    def get_unique_name(self, name_prefix: str) -> str:
        """Returns a name that no variable of this builder has."""
        number = self._names.get(name_prefix)
        if number is None:
            self._names[name_prefix] = 1
            return name_prefix
        name = f"{name_prefix}{number}"
        while name in self._names:
            number += 1
            name = f"{name_prefix}{number}"
        self._names[name_prefix] = number + 1
        self._names[name] = 1
        return name

    def lookup_binding(self, var: Var) -> Expr | None:
        """Returns the value to which a variable is bound."""
        return self._bindings.get(var)

    # Tensor expressions.

    def call_te(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Expr:
        """Returns a call of the PrimFunc that computes a tensor expression; the PrimFunc is added to the module."""
        # Imported here, because few programs use tensor expressions.
        from passhost.te.emit import call_te

        return call_te(self, func, args, kwargs)

    def emit_te(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Var:
        """Like `call_te`, but binds the call to a new variable."""
        name_hint = kwargs.pop("name_hint", "")
        return self.emit(self.call_te(func, *args, **kwargs), name_hint)


def _params(params: Any) -> list[Var]:
    items: Iterable[Any] = [params] if isinstance(params, Var) else params
    found = list(items)
    for item in found:
        if not isinstance(item, Var):
            raise TypeError(f"a parameter must be a Var, not {type(item).__name__}")
    return found


def _is_well_formed(func: BaseFunc) -> bool:
    """Returns true if a function can be compared with other functions. Its errors are reported when its module is
    used."""
    try:
        func._seal()
    except (IllFormedError, TypeError):
        return False
    return True


def _type_key(call: Call) -> tuple[Any, ...]:
    """Returns the operator of a call and its argument types by identity, because hashing their contents is slow."""
    return (call._op, *[id(arg._ty) for arg in call._args])


def _all_same(a: Sequence[object], b: Sequence[object]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


def _expr(value: Any) -> Expr:
    return value if isinstance(value, Expr) else checked_expr(value, "an emitted value")


def _check_inner(blocks: Sequence[BindingBlock], result: Expr) -> None:
    """Checks that no local variable of a dataflow block is used by a plain block or the result."""
    used: list[Expr] = [result] if isinstance(result, Var) else []
    used += result.fields if isinstance(result, Tuple) else ()
    first = next((at for at, block in enumerate(blocks) if isinstance(block, DataflowBlock)), len(blocks))
    for block in blocks[first + 1 :]:
        for binding in block.bindings if not isinstance(block, DataflowBlock) else ():
            used += used_vars(binding.value)  # type: ignore[attr-defined]
    for var in used:
        if isinstance(var, DataflowVar):
            raise RuntimeError(f"Malformed AST: {var.name} is a DataflowVar, but is used outside of its dataflow block")


__all__ = ["BlockBuilder", "as_sequence"]
