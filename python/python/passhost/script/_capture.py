"""Makes Python source self-contained by inserting values from outer scopes."""

from __future__ import annotations

import ast
import contextlib
import inspect
import textwrap
from collections.abc import Mapping
from types import FrameType, FunctionType
from typing import Any

from passhost._numpy import np
from passhost.ir.expr import Expr, GenericConst, GlobalVar, Var
from passhost.ir.prim import FloatImm, IntImm
from passhost.ir.type import PrimType, Type
from passhost.relax.op import special
from passhost.script._python_calls import PythonCalls
from passhost.script._written import Written, writing

_PREFIXES = ("R", "T", "I")
_KEYWORDS: dict[str, dict[int, str]] = {
    "R.call_tir": {2: "out_ty"},
    "R.call_dps_packed": {2: "out_ty"},
    "R.call_tir_inplace": {2: "inplace_indices", 3: "out_ty"},
}
"""Arguments that TVM also accepts by position."""
_EVALUATED = ("R.TupleGetItem", "R.emit_te", "R.emit_with_ty")
"""Names of `R` that exist only in Python: they create expressions, and do not occur in TVMScript."""
_MOST_ELEMENTS = 100_000
"""Maximum number of elements of a constant that is written into the source."""
_UNKNOWN = object()
"""The value of an expression that can be neither evaluated nor printed."""


def source_of(target: Any) -> tuple[str, str]:
    """Returns the source of a function or class without its surroundings, and its location."""
    try:
        lines, first = inspect.getsourcelines(target)
    except (OSError, TypeError) as error:
        name = getattr(target, "__name__", target)
        raise ValueError(f"the source of {name} is not in a file, so it cannot be read: {error}") from None
    origin = inspect.getsourcefile(target) or "<source>"
    return textwrap.dedent("".join(lines)), f"{origin}:{first}"


def scopes_of(target: Any, frame: FrameType | None) -> dict[str, Any]:
    """Returns the names that the source of a function or class may use, with their values."""
    names: dict[str, Any] = {}
    if frame is not None:
        names.update(frame.f_globals)
        names.update(frame.f_locals)
    functions = [target] if isinstance(target, FunctionType) else vars(target).values()
    for function in functions:
        if isinstance(function, FunctionType):
            for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
                with contextlib.suppress(ValueError):  # The name has no value yet, such as the class's own name.
                    names[name] = cell.cell_contents
    return names


def standalone(source: str, names: Mapping[str, Any], decorators: Mapping[str, str], calls: PythonCalls) -> str:
    """Returns the source with values from outer scopes inserted, and with decorators that the parser recognizes.

    Expressions that Python evaluates are added to `calls`; the source calls their names instead.
    """
    tree = ast.parse(source)
    edits: list[tuple[int, int, str]] = []
    offsets = _offsets(source)
    finder = _Finder(names, offsets, source, edits, calls)
    for node in tree.body:
        finder.visit(node)
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            _decorate(node, decorators, offsets, edits)
    return _edited(source, edits)


def _edited(source: str, edits: list[tuple[int, int, str]]) -> str:
    for start, end, text in sorted(edits, reverse=True):
        source = source[:start] + text + source[end:]
    return source


def _offsets(source: str) -> list[tuple[int, str]]:
    """Returns the offset and the text of each line."""
    found, at = [], 0
    for line in source.splitlines(keepends=True):
        found.append((at, line))
        at += len(line)
    return found


def _place(offsets: list[tuple[int, str]], line: int, column: int) -> int:
    """Converts a position of the syntax tree, whose columns count bytes, to an offset in the text."""
    start, text = offsets[line - 1]
    return start + len(text.encode()[:column].decode())


def _span(offsets: list[tuple[int, str]], node: ast.expr) -> tuple[int, int]:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return _place(offsets, node.lineno, node.col_offset), _place(offsets, node.end_lineno, node.end_col_offset)


def _decorate(
    node: ast.ClassDef | ast.FunctionDef,
    decorators: Mapping[str, str],
    offsets: list[tuple[int, str]],
    edits: list[tuple[int, int, str]],
) -> None:
    """Replaces decorators with names that the parser recognizes. The options of a class's decorator are repeated for
    each function of the class."""
    inner = ""
    for decorator in node.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        known = decorators.get(ast.unparse(called).rpartition(".")[2])
        if known == "I.ir_module" and isinstance(decorator, ast.Call):
            said = {keyword.arg: ast.unparse(keyword.value) for keyword in decorator.keywords}
            inner = "s_tir=True" if said.get("s_tir") == "True" else ""
            edits.append((*_span(offsets, decorator), known))
        elif known is not None:
            edits.append((*_span(offsets, called), known))
    for item in node.body if isinstance(node, ast.ClassDef) else ():
        if isinstance(item, ast.FunctionDef):
            _decorate(item, decorators, offsets, edits)
            for decorator in item.decorator_list if inner else ():
                _say(decorator, inner, offsets, edits)


def _say(decorator: ast.expr, inner: str, offsets: list[tuple[int, str]], edits: list[tuple[int, int, str]]) -> None:
    """Adds a keyword to the decorator of a PrimFunc."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    if not ast.unparse(called).endswith("prim_func"):
        return
    end = _span(offsets, decorator)[1]
    if not isinstance(decorator, ast.Call):
        edits.append((end, end, f"({inner})"))
    elif all(keyword.arg != "s_tir" for keyword in decorator.keywords):
        edits.append((end - 1, end - 1, f", {inner}" if decorator.keywords else inner))


class _Finder(ast.NodeVisitor):
    """Finds names from outer scopes whose values can be written as text."""

    def __init__(
        self,
        names: Mapping[str, Any],
        offsets: list[tuple[int, str]],
        source: str,
        edits: list[tuple[int, int, str]],
        calls: PythonCalls,
    ) -> None:
        self.names, self.offsets, self.source, self.edits, self.calls = names, offsets, source, edits, calls
        self.bound: list[set[str]] = [set()]
        # The names that each open function binds, or None if it is not a Relax function.
        self.functions: list[set[str] | None] = []
        # The declared type of the binding whose value is visited.
        self.declared: ast.expr | None = None

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Visits a class, whose functions are names of the module."""
        self.bound.append({node.name} | {item.name for item in node.body if isinstance(item, ast.FunctionDef)})
        for item in node.body:
            self.visit(item)
        self.bound.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Visits a function. The names that it binds are local."""
        bound = {arg.arg for arg in ast.walk(node.args) if isinstance(arg, ast.arg)}
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                bound.add(part.id)
            elif isinstance(part, ast.FunctionDef) and part is not node:
                bound.add(part.name)
        self.bound.append(bound | {node.name})
        for arg in ast.walk(node.args):
            if isinstance(arg, ast.arg) and arg.annotation is not None:
                self.visit(arg.annotation)
        if node.returns is not None:
            self.visit(node.returns)
        self.calls.declare(node)
        is_relax = any(ast.unparse(decorator).startswith("R.function") for decorator in node.decorator_list)
        outer = self.functions[-1] if self.functions else None
        self.functions.append((outer or set()) | bound if is_relax else None)
        for statement in node.body:
            self.visit(statement)
        self.functions.pop()
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call):
                for keyword in decorator.keywords:
                    self.visit(keyword.value)
        self.bound.pop()

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Visits an f-string such as `f"{kind}32"` that uses names of an outer scope."""
        names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        if all(self.is_outer(name) for name in names):
            self.replace(node, self.evaluated(node))

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        """Ignores the statement."""
        self.remove(node)

    def visit_Global(self, node: ast.Global) -> None:
        """Ignores the statement."""
        self.remove(node)

    def remove(self, node: ast.stmt) -> None:
        """Removes a statement but keeps its line."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = _place(self.offsets, node.lineno, node.col_offset)
        self.edits.append((start, _place(self.offsets, node.end_lineno, node.end_col_offset), ""))

    def visit_Assign(self, node: ast.Assign) -> None:
        """Visits an assignment; `m, n = T.int64(), T.int64()` counts as two statements."""
        target = node.targets[0]
        if isinstance(target, ast.Name) and self.meta_variable(target.id, node.value):
            self.remove(node)
            return
        if not isinstance(target, ast.Tuple) or not isinstance(node.value, ast.Tuple):
            self.generic_visit(node)
            return
        pairs = list(zip(target.elts, node.value.elts, strict=False))
        simple = all(isinstance(value, ast.Call) and not value.args for _, value in pairs)
        if simple and len(target.elts) == len(node.value.elts):
            start, end = _span(self.offsets, target)[0], _span(self.offsets, node.value)[1]
            text = "; ".join(f"{ast.unparse(name)} = {ast.unparse(value)}" for name, value in pairs)
            self.edits.append((start, end, text))
            return
        self.generic_visit(node)

    def meta_variable(self, name: str, value: ast.expr) -> bool:
        """Returns true if the statement is `name = T.meta_var(value)` and defines a Python value. The definition
        applies from here on."""
        if not isinstance(value, ast.Call) or ast.unparse(value.func) != "T.meta_var" or len(value.args) != 1:
            return False
        names = {part.id for part in ast.walk(value.args[0]) if isinstance(part, ast.Name)}
        made = self.evaluated(value.args[0]) if all(self.is_outer(name) for name in names) else _UNKNOWN
        if made is _UNKNOWN:
            return False
        self.names = {**self.names, name: made}
        self.bound[-1].discard(name)
        return True

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Visits a binding with a declared type."""
        self.visit(node.annotation)
        self.declared = node.annotation
        if node.value is not None:
            self.visit(node.value)
        self.declared = None

    def is_python(self, node: ast.Call) -> bool:
        """Returns true if Python evaluates a call, because its callee is an outer function, not part of the IR."""
        if ast.unparse(node.func) in _EVALUATED:
            return True
        root = node.func
        while isinstance(root, ast.Attribute):
            root = root.value
        if not isinstance(root, ast.Name) or not self.is_outer(root.id):
            return False
        value = self.evaluated(node.func)
        # `relax.call_tir` is parsed like `R.call_tir`.
        is_read = getattr(value, "__module__", "") == special.__name__ and root is getattr(node.func, "value", None)
        return callable(value) and not isinstance(value, Type) and not is_read

    def python(self, node: ast.Call) -> None:
        """Puts a call of a name, with the variables that it uses, in place of an expression that Python evaluates."""
        own = self.functions[-1] or ()
        names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        used = sorted(name for name in names if name in own)
        name = self.calls.add(node, used, self.names)
        ty = "R.Any" if self.declared is None else ast.unparse(self.declared)
        arguments = ", ".join([f'"{name}"', *used, f"ty_args={ty}"])
        self.edits.append((*_span(self.offsets, node), f"R.call_pure_packed({arguments})"))

    def written(self, node: ast.Call) -> str:
        """Returns the source that replaces a call of a Python function in a TIR function."""
        args = [self.argument(arg) for arg in node.args]
        kwargs = {keyword.arg: self.argument(keyword.value) for keyword in node.keywords if keyword.arg is not None}
        with writing(literal):
            try:
                made = self.evaluated(node.func)(*args, **kwargs)
            except Exception as error:
                error.add_note(f"{self.calls.place}: while the function was parsed, in `{ast.unparse(node)}`")
                raise
        text = str(made) if isinstance(made, Written) else literal(made)
        if text is None:
            raise TypeError(f"the value of `{ast.unparse(node)}` is not a TIR expression, but a {type(made).__name__}")
        return text

    def argument(self, node: ast.expr) -> Any:
        """Returns the value of an argument of a Python function, or its text."""
        names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        value = self.evaluated(node) if all(self.is_outer(name) for name in names) else _UNKNOWN
        if value is not _UNKNOWN:
            return value
        text, edits = ast.unparse(node), list[tuple[int, int, str]]()
        inner = _Finder(self.names, _offsets(text), text, edits, self.calls)
        inner.bound, inner.functions = self.bound, self.functions
        inner.visit(ast.parse(text, mode="eval").body)
        return Written(_edited(text, edits))

    def visit_Call(self, node: ast.Call) -> None:
        """Visits a call. Handles constants with outer data, and arguments that the parser accepts only by name."""
        name = ast.unparse(node.func)
        root, _, word = name.partition(".")
        if root != "R" and self.is_outer(root) and getattr(self.names[root], "__name__", "") == "passhost.relax":
            start, end = _span(self.offsets, node.func)
            name = f"R.{word.removeprefix('op.')}"
            self.edits.append((start, end, name))
        elif isinstance(node.func, ast.Name) and self.is_outer(name) and hasattr(self.names[name], "operator"):
            self.edits.append(
                (*_span(self.offsets, node.func), f"R.{self.names[name].operator.removeprefix('relax.')}")
            )
            name = "R."
        elif self.functions and self.is_python(node):
            if self.functions[-1] is not None:
                self.python(node)
            else:
                self.edits.append((*_span(self.offsets, node), self.written(node)))
            return
        self.declared = None
        for at, keyword in _KEYWORDS.get(name, {}).items():
            if at < len(node.args):
                start = _span(self.offsets, node.args[at])[0]
                self.edits.append((start, start, f"{keyword}="))
        if name in _KEYWORDS and len(node.args) > 1 and not isinstance(node.args[1], ast.Tuple | ast.List):
            start, end = _span(self.offsets, node.args[1])
            self.edits.extend([(start, start, "("), (end, end, ",)")])
        first = node.args[0] if node.args else None
        if (
            name == "R.Tensor"
            and len(node.args) == 1
            and isinstance(first, ast.Constant)
            and isinstance(first.value, str)
        ):
            start = _span(self.offsets, first)[0]
            self.edits.append((start, start, "dtype="))
        if name == "R.const" and first is not None and self.data(node, first):
            return
        for part in [*node.args, *(keyword.value for keyword in node.keywords)]:
            self.visit(part)
        if not name.startswith("R."):
            self.visit(node.func)

    def data(self, node: ast.Call, first: ast.expr) -> bool:
        """Writes the data of a constant from an outer scope."""
        names = {part.id for part in ast.walk(first) if isinstance(part, ast.Name)}
        if not names or not all(self.is_outer(name) for name in names):
            return False
        value = self.evaluated(first)
        array = value.numpy() if hasattr(value, "numpy") else value
        if not isinstance(array, np.ndarray | np.generic) or array.size > _MOST_ELEMENTS:
            return False
        text = _elements(array)
        if len(node.args) == 1 and not node.keywords:
            text += f', "{array.dtype}"'
        self.edits.append((*_span(self.offsets, first), text))
        return True

    def is_outer(self, name: str) -> bool:
        """Returns true if a name belongs to an outer scope."""
        return name in self.names and name not in _PREFIXES and not any(name in bound for bound in self.bound)

    def visit_Name(self, node: ast.Name) -> None:
        """Visits a plain name."""
        if isinstance(node.ctx, ast.Load) and self.is_outer(node.id):
            self.replace(node, self.names[node.id])

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Visits `settings.width`, where `settings` is a name of an outer scope."""
        root: ast.expr = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name) and self.is_outer(root.id):
            self.replace(node, self.evaluated(node))
            return
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """Visits `shape[0]`, where `shape` is a name of an outer scope."""
        if isinstance(node.value, ast.Name) and self.is_outer(node.value.id):
            names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
            if all(self.is_outer(name) for name in names):
                self.replace(node, self.evaluated(node))
                return
        self.generic_visit(node)

    def evaluated(self, node: ast.expr) -> Any:
        """Evaluates an expression that uses only outer names; returns `_UNKNOWN` if its value is unknown here."""
        try:
            return eval(compile(ast.Expression(node), "<capture>", "eval"), dict(self.names))
        except Exception:
            return _UNKNOWN

    def replace(self, node: ast.expr, value: Any) -> None:
        """Replaces a name with a value."""
        text = literal(value)
        if text is not None:
            self.edits.append((*_span(self.offsets, node), text))


def _elements(array: Any) -> str:
    """Returns the elements of an array as lists."""

    def text(item: Any) -> str:
        if isinstance(item, list):
            return f"[{', '.join(map(text, item))}]"
        return literal(item) or repr(item)

    return text(array.tolist())


def literal(value: Any) -> str | None:
    """Returns a value in the parser's syntax, or None if it cannot be printed."""
    if isinstance(value, bool | str | type(None)):
        return repr(str(value)) if isinstance(value, str) else repr(value)
    if isinstance(value, int):
        return repr(int(value))
    if isinstance(value, float):
        return repr(float(value)) if value == value and abs(value) != float("inf") else f'float("{value}")'
    if isinstance(value, tuple | list):
        items = [literal(item) for item in value]
        if any(item is None for item in items):
            return None
        text = ", ".join(item for item in items if item is not None)
        return f"[{text}]" if isinstance(value, list) else f"({text}{',' if len(items) == 1 else ''})"
    if isinstance(value, IntImm | FloatImm):
        return str(value.value) if str(value.ty) in ("int64", "int32") else repr(value)
    if isinstance(value, PrimType):
        return f'"{value.dtype}"'
    if isinstance(value, GlobalVar):
        return None
    if isinstance(value, Var):
        return value.name if value._prim else None
    if isinstance(value, GenericConst) and value.value.numpy().size <= _MOST_ELEMENTS:
        return f'R.const({_elements(value.value.numpy())}, "{value.value.dtype}")'
    if isinstance(value, Type | Expr):
        return repr(value)
    dtype = getattr(value, "dtype", None)
    if dtype is not None and getattr(value, "shape", None) == () and hasattr(value, "item"):
        return repr(value.item())
    return None
