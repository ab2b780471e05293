"""Tests that each module of the package uses only modules before it in the table in ARCHITECTURE.md."""

import ast
import re
from pathlib import Path
from typing import NamedTuple

import pytest

import passhost
from passhost import _provided

ROOT = Path(__file__).parents[2]
PACKAGE = Path(passhost.__file__).parent


def order():
    """Returns the modules of the package in the order of ARCHITECTURE.md, the lowest first."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = text.split("## Arrows between Python modules")[1].split("\n## ")[0]
    rows = [line.split("|")[2] for line in section.splitlines() if line.startswith("|")]
    return [name for cell in rows[1:] for name in re.findall(r"`([^`]+)`", cell)]


def modules():
    """Returns the files of the package by module, without the name of the package."""
    files = {}
    for path in [*PACKAGE.rglob("*.py"), *PACKAGE.glob("*.pyi")]:
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        files[name or "passhost"] = path
    return files


class Arrow(NamedTuple):
    """A line of one module that uses another module; `is_late` is true if the use is inside a function."""

    to: str
    line: int
    is_late: bool


def named(node, known):
    """Returns the modules of the package that a node imports, by a statement or by a call with their name."""
    if isinstance(node, ast.Import):
        full = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "the package does not use relative imports"
        base = [f"{node.module}.{alias.name}" for alias in node.names]
        full = [name if short(name) in known else node.module for name in base]
    elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
        full = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
    else:
        full = []
    return {short(name) for name in full if short(name) is not None}


def short(name):
    """Returns the name of a module within the package, or None if the module is not part of it."""
    return name if name == "passhost" else name.removeprefix("passhost.") if name.startswith("passhost.") else None


def arrows(source, known):
    """Returns the uses of modules in source code."""
    found = []

    def visit(node, is_late):
        for part in ast.iter_child_nodes(node):
            found.extend(Arrow(to, part.lineno, is_late) for to in sorted(named(part, known)))
            visit(part, is_late or isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda))

    visit(ast.parse(source), False)
    return found


def wrong(name, source, order):
    """Returns the uses of modules that are not before the given module."""
    before = order[: order.index(name)]
    return [f"{name}, line {arrow.line}: uses {arrow.to}" for arrow in arrows(source, order) if arrow.to not in before]


def test_the_table_has_each_module_once():
    assert sorted(order()) == sorted(modules())


def test_each_module_uses_those_before_it():
    files, names = modules(), order()
    sources = {name: files[name].read_text(encoding="utf-8") for name in names}
    assert [line for name, source in sources.items() for line in wrong(name, source, names)] == []
    assert sum(len(arrows(source, names)) for source in sources.values()) > 400


@pytest.mark.parametrize(
    "source",
    [
        "from passhost.relax import op",
        "import passhost.runtime",
        "from passhost import relax",
        "from passhost import IRModule",
        "from passhost.ir import Var",
        "def late():\n    from passhost.ir.printer import text_of",
        "if TYPE_CHECKING:\n    from passhost.ir.printer import text_of",
        "class Lazy:\n    def text(self):\n        return [importlib.import_module('passhost.ir.printer')]",
        "late = lambda: __import__('passhost.topi')",
    ],
)
def test_an_arrow_that_runs_back_is_found(source):
    assert len(wrong("ir.expr", source, order())) == 1


def test_late_imports_state_their_reason():
    for name, path in modules().items():
        text = path.read_text(encoding="utf-8")
        for arrow in arrows(text, order()):
            if arrow.is_late:
                line = text.splitlines()[arrow.line - 2].strip()
                assert line.startswith("# Imported here, because "), f"{name}, line {arrow.line}: why not at the top?"


def provided():
    """Returns the functions declared in `_provided`, with the modules that set them according to their
    documentation."""
    body = ast.parse((PACKAGE / "_provided.py").read_text(encoding="utf-8")).body
    names = [(node.target.id, body[at + 1]) for at, node in enumerate(body) if isinstance(node, ast.AnnAssign)]
    said = {name: ast.literal_eval(doc.value).partition("\n")[0].partition("set by ")[2] for name, doc in names}
    return {name: set(re.findall(r"`([^`]+)`", text)) for name, text in said.items()}


def test_provided_functions_are_set_above_their_callers():
    setters = {name: set() for name in provided()}
    callers = {name: set() for name in provided()}
    for module, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            targets = node.targets if isinstance(node, ast.Assign) else []
            for target in (target.value if isinstance(target, ast.Subscript) else target for target in targets):
                if ast.unparse(target).startswith("_provided."):
                    setters[target.attr].add(module)
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "_provided":
                callers[node.attr].add(module)
    assert setters == provided()
    place = order().index
    for name, known in setters.items():
        others = callers[name] - known
        assert others and max(map(place, others)) < min(map(place, known)), f"{name} needs no declaration in _provided"


def test_provided_functions_are_there_after_the_import():
    assert [name for name in provided() if not hasattr(_provided, name)] == []
    assert set(_provided.functions_of_kind) == {"relax", "tir", "extern"}
