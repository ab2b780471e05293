"""Writes variants of the modules in a file, by swapping their expressions and statements. With `--tokens`, tokens of
the text are swapped, dropped or replaced; with `--gently`, Relax values are nested, bound twice, cast, or moved into
tuples, branches and blocks. `conformance -- modules` then reports the variants whose printed text parses to a different
module; `between` runs every pass on them. None should differ."""

import argparse
import ast
import copy
import json
import pathlib
import random
import re

LITERALS = [
    "0", "1", "-1", "2.5", "True", "None", "'x'", "()", "[]", "{}", "x", "n", "A", "i", "n + 1", "-n", "~a",
    "1e400", "float('inf')", "T.int64(0)", "T.int64(4)", "T.int8(3)", "T.uint8(3)", "T.float16(1)", "T.bool(True)",
    "T.Select(True, 1, 0)",
]  # fmt: skip
TYPES = ["int64", "float32", "local", "global", "", "bool", "float16x4", "x", "shared"]
OPERATORS = [ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.LShift, ast.BitAnd, ast.Div]
COMPARISONS = [ast.Lt, ast.Eq, ast.GtE, ast.NotEq]


def parsed(text):
    """Parses a short module without metadata; returns None for other modules."""
    try:
        return ast.parse(text) if len(text) < 3_000 and "metadata" not in text else None
    except (SyntaxError, ValueError):
        return None


def expressions(tree):
    """Returns each expression with its place: the node, the field, and the index in a list."""
    found = []
    for node in ast.walk(tree):
        for field, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                found.append((node, field, None, value))
            elif isinstance(value, list):
                places = enumerate(value)
                found += [(node, field, i, item) for i, item in places if isinstance(item, ast.expr)]
    return found


def bodies(tree):
    """Yields the statement lists of functions and of nested statements."""
    for node in ast.walk(tree):
        for field in ("body", "orelse"):
            body = getattr(node, field, None)
            outer = isinstance(node, (ast.Module, ast.ClassDef))
            if not outer and isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                yield body


def put(place, new):
    node, field, index, _ = place
    if index is None:
        setattr(node, field, new)
    else:
        getattr(node, field)[index] = new


def vary(node, others):
    """Changes an operator, name, attribute or type, or drops an argument."""
    alike = [other for _, _, _, other in others if type(other) is type(node)]
    if isinstance(node, ast.BinOp):
        node.op = random.choice(OPERATORS)()
    elif isinstance(node, ast.Compare):
        node.ops[0] = random.choice(COMPARISONS)()
    elif isinstance(node, ast.Call) and node.keywords:
        node.keywords.pop(random.randrange(len(node.keywords)))
    elif isinstance(node, ast.Call) and node.args and random.random() < 0.5:
        node.args.pop(random.randrange(len(node.args)))
    elif isinstance(node, ast.Call):
        random.shuffle(node.args)
    elif isinstance(node, ast.Attribute):
        node.attr = random.choice(alike).attr
    elif isinstance(node, ast.Name):
        node.id = random.choice(alike).id
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        node.value = random.choice(TYPES)


def mutate(tree, pool, statements):
    places = expressions(tree)
    place, what = random.choice(places), random.random()
    if what < 0.25:
        put(place, copy.deepcopy(random.choice(places)[3]))
    elif what < 0.45:
        put(place, copy.deepcopy(random.choice(pool)))
    elif what < 0.7:
        put(place, ast.parse(random.choice(LITERALS), mode="eval").body)
    elif what < 0.78:
        vary(place[3], places)
    elif found := list(bodies(tree)):
        body = random.choice(found)
        i, j = random.randrange(len(body)), random.randrange(len(body))
        match random.randrange(5):
            case 0:
                body.insert(i, copy.deepcopy(random.choice(statements)))
            case 1 if len(body) > 1:
                body.pop(i)
            case 2:
                body.insert(i, copy.deepcopy(body[j]))
            case 3:
                body[i], body[j] = body[j], body[i]
            case _:
                body[i] = copy.deepcopy(random.choice(statements))


# Names, numbers, strings, line breaks with indentation, and any other single character.
TOKEN = re.compile(r"""[A-Za-z_][A-Za-z_0-9.]*|[0-9][0-9.e]*|"[^"\n]*"|'[^'\n]*'|\n *|[^\S\n]+|.""")


def swap_tokens(text, pool):
    """Returns the text with a few changed tokens: swapped, replaced, dropped or duplicated."""
    tokens = TOKEN.findall(text)
    places = [i for i, token in enumerate(tokens) if not token.isspace()]
    for _ in range(random.choice([1, 1, 1, 2, 2, 3, 5])):
        i, what = random.choice(places), random.random()
        alike = [j for j in places if tokens[j][:1].isalpha() == tokens[i][:1].isalpha() and tokens[j] != tokens[i]]
        if what < 0.45 and alike:
            j = random.choice(alike)
            tokens[i], tokens[j] = tokens[j], tokens[i]
        elif what < 0.6 and alike:
            tokens[i] = tokens[random.choice(alike)]
        elif what < 0.8:
            tokens[i] = random.choice(pool)
        elif what < 0.9:
            tokens[i] = ""
        else:
            tokens[i] += tokens[random.choice(places)]
    return "".join(tokens)


# Relax calls with one and two tensors that keep the shape.
UNARY = ["R.exp", "R.abs", "R.nn.relu", "R.tanh", "R.negative", "R.nn.gelu", "R.nn.silu"]
BINARY = ["R.add", "R.multiply", "R.subtract", "R.maximum", "R.minimum"]
# Casts, and results with less precise types or named dimensions.
CASTS = ['R.match_cast({0}, R.Tensor(ndim=2))', 'R.match_cast({0}, R.Tensor(("p", "q"), dtype="float32"))',
         'R.call_pure_packed("f", {0}, ty_args=(R.Tensor(ndim=2),))']  # fmt: skip


def relax_functions(tree):
    """Yields Relax functions, including nested ones."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and "R.function" in "".join(map(ast.unparse, node.decorator_list)):
            yield node


def without_annotations(function):
    """Removes annotations, so that types are inferred and a changed value does not contradict later ones."""
    function.returns = None
    for body in bodies(ast.Module([function], [])):
        for i, stmt in enumerate(body):
            if isinstance(stmt, ast.AnnAssign) and stmt.value is not None and "T." not in ast.unparse(stmt.annotation):
                body[i] = ast.copy_location(ast.Assign([stmt.target], stmt.value, lineno=0), stmt)


def in_order(node, flows=False):
    """Yields places of expressions, and statements with their list, in text order, each with a flag for dataflow
    blocks. Types are skipped."""
    for field, value in ast.iter_fields(node):
        if field in ("decorator_list", "args", "returns", "annotation", "targets", "target") and not isinstance(node, ast.Call):
            continue
        items = enumerate(value) if isinstance(value, list) else [(None, value)]
        for i, item in list(items):
            if isinstance(item, ast.stmt):
                yield value, item, flows
            if isinstance(item, ast.AST):
                yield from in_order(item, flows or isinstance(item, ast.With))
            if isinstance(item, ast.expr):
                yield (node, field, i, item), None, flows


def change_gently(function, fresh):
    """Makes one change that keeps most functions well-formed. `fresh` is an unused name."""
    parts = list(in_order(function))
    named = [
        (at, body, stmt, flows)
        for at, (body, stmt, flows) in enumerate(parts)
        if isinstance(stmt, ast.Assign) and isinstance(stmt.targets[0], ast.Name) and stmt.targets[0].id != "cls"
    ]
    if not named:
        return
    at, body, stmt, flows = random.choice(named)
    name = stmt.targets[0].id
    names = [place for place, is_stmt, _ in parts[at + 1 :] if is_stmt is None and isinstance(place[3], ast.Name)]
    values = [place for place in names if place[3].id not in ("R", "T", "I", "cls", "metadata", "Module")]
    # Consider names after the statement; names in the statement's value come first.
    own = sum(isinstance(node, ast.Name) for node in ast.walk(stmt.value))
    later = [place for place in values[own:] if not isinstance(place[0], ast.Expr)]
    mine = [place for place in later if place[3].id == name]
    i = next(i for i, other in enumerate(body) if other is stmt)
    value = lambda text: ast.parse(text, mode="eval").body
    new = lambda text: body.insert(i + 1, ast.parse(text).body[0])
    if not later:
        return
    place = random.choice(mine if mine and random.random() < 0.7 else later)
    match random.randrange(12):
        case 0:
            put(place, value(name))
        case 1:
            put(place, value(f"{random.choice(UNARY)}({name})"))
        case 2:
            put(place, value(f"{random.choice(BINARY)}({place[3].id}, {name})"))
        case 3:
            put(place, value(f"({name}, {place[3].id})[{random.randrange(2)}]"))
        case 4:
            new(f"{fresh} = {name}")
            put(place, value(fresh))
        case 5:
            new(f"{fresh} = {random.choice(CASTS).format(name)}")
            put(place, value(fresh))
        case 6 if mine:
            # Replace the only use with the value.
            body.pop(i)
            for use in mine:
                put(use, copy.deepcopy(stmt.value))
        case 7:
            other = copy.deepcopy(stmt)
            other.targets[0].id = fresh
            body.insert(i + 1, other)
            put(place, value(fresh))
        case 8:
            new(f"{fresh} = ({name}, ({name}, {name}))")
            put(place, value(f"{fresh}[1][{random.randrange(2)}]"))
        case 9 if not flows:
            block = ast.parse(f"with R.dataflow():\n    R.output({name})").body[0]
            block.body.insert(0, stmt)
            body[i] = block
        case 10 if not flows:
            new(f"if R.const(True, 'bool'):\n    {fresh} = {random.choice(UNARY)}({name})\nelse:\n    {fresh} = {name}")
            put(place, value(fresh))
        case _:
            new(f"{fresh} = {random.choice(UNARY)}({name})")
            put(place, value(fresh))


def changed_gently(trees):
    """Returns a module with a few changes that mostly keep it well-formed."""
    tree = copy.deepcopy(random.choice(trees))
    functions = list(relax_functions(tree))
    if not functions:
        return None
    for function in functions:
        without_annotations(function)
    for i in range(random.choice([1, 1, 2, 2, 3, 4, 6])):
        change_gently(random.choice(functions), f"new{i}")
    try:
        return ast.unparse(tree)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def mutated(trees, pool, statements):
    """Returns a module with parts from other modules; None if a constant occurs where Python allows only a name."""
    tree = copy.deepcopy(random.choice(trees))
    for _ in range(random.choice([1, 1, 1, 2, 2, 3, 4])):
        mutate(tree, pool, statements)
    try:
        return ast.unparse(tree)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="+", type=pathlib.Path, help="files of JSON lines with `text`")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--tokens", action="store_true", help="change tokens, not parts of the syntax tree")
    how.add_argument("--gently", action="store_true", help="change Relax values so that most modules stay well-formed")
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    lines = [line for path in arguments.modules for line in path.read_text().splitlines()]
    texts = [json.loads(line)["text"] for line in random.sample(lines, min(len(lines), 3_000))]
    trees = [tree for tree in map(parsed, texts) if tree]
    pool = [place[3] for tree in trees for place in random.sample(expressions(tree), min(12, len(expressions(tree))))]
    statements = [stmt for tree in trees for body in list(bodies(tree))[:4] for stmt in body[:3]]
    short = [text for text in texts if len(text) < 3_000 and "metadata" not in text]
    tokens = [token for text in short for token in TOKEN.findall(text)[::7] if not token.isspace()]
    written = 0
    while written < arguments.count:
        if arguments.tokens:
            text = swap_tokens(random.choice(short), tokens)
        else:
            text = changed_gently(trees) if arguments.gently else mutated(trees, pool, statements)
        if text is not None:
            print(json.dumps({"id": f"{arguments.seed}-{written}", "text": text}))
            written += 1


if __name__ == "__main__":
    main()
