"""Checks that passhost and TVM infer the same access regions for schedulable blocks that do not declare them.

    ../oracle-venv/bin/python tests/oracle/regions.py FILE… [--binary FILE] [--jobs N] [--show N]

Each FILE is a Python file with handwritten PrimFuncs, or contains one JSON object per line with `id` and `text`, or
with `id`, `before` and `after` (both texts are tried). All `T.reads(...)` and `T.writes(...)` are removed from the texts.
TVM parses the result, and passhost's output for it; both modules must be structurally equal, and passhost's output must
declare the regions of each block. Functions that differ are printed; the last line, `total: N of M`, counts functions.
"""

import argparse
import ast
import json
import pathlib
import re
import sys
import textwrap

import corpus

SAID = re.compile(r"^ *T\.(reads|writes)\(.*\)\n", re.M)
BLOCK = re.compile(r"^( *)with T\.s?block\(")
HEAD = "# from tvm.script import ir as I\n# from tvm.script import tirx as T\n# from tvm.script import relax as R\n\n@I.ir_module\nclass Module:\n"


def functions(text):
    """Yields the text of each PrimFunc with schedulable blocks: as parsed, and without its regions."""
    metadata = re.search(r'^metadata = .*?"""\)\n', text, re.S | re.M)
    text = text[metadata.end():] if metadata else text
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    lines = text.split("\n")
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or not node.decorator_list:
            continue
        found = "\n".join(lines[node.decorator_list[0].lineno - 1 : node.end_lineno]) + "\n"
        indent = node.col_offset
        found = "".join(line[indent:] if line[:indent].isspace() else line for line in found.splitlines(True))
        is_prim_func = ast.unparse(node.decorator_list[0]).startswith("T.prim_func")
        if is_prim_func and "s_tir=True" in found and "with T.sblock(" in found.replace("# with", ""):
            yield node.name, HEAD + textwrap.indent(SAID.sub("", found), "    ")


def said(text):
    """Returns true if each block with iterators, or with nested blocks, declares its accesses."""
    lines = text.split("\n")
    for at, line in enumerate(lines):
        block = BLOCK.match(line)
        if not block:
            continue
        inner = len(block[1]) + 4
        content = []
        for other in lines[at + 1 :]:
            if other.strip() and len(other) - len(other.lstrip()) < inner:
                break
            content.append(other[inner:])
        own = "\n".join(line for line in content if not line.startswith(" "))
        if "T.axis." in own and ("T.reads(" not in own or "T.writes(" not in own):
            return False
    return True


def texts(path):
    if path.suffix == ".py":
        yield path.name, path.read_text()
        return
    for line in path.read_text().splitlines():
        case = json.loads(line)
        for key in ("text", "before", "after"):
            if case.get(key):
                yield f"{case['id']} {key}", case[key]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--binary", default=corpus.BINARY, type=pathlib.Path)
    parser.add_argument("--jobs", default=2, type=int)
    parser.add_argument("--show", default=0, type=int, help="maximum number of printed functions that differ")
    args = parser.parse_args()
    cases = {}
    for path in args.files:
        for name, text in texts(path):
            for function, stripped in functions(text):
                cases.setdefault(stripped, f"{name} {function}")
    cases = [{"id": name, "text": text} for text, name in cases.items()]
    for at, case in enumerate(cases):
        case["id"] = f"{at}: {case['id']}"
    printed = corpus.printed_by_passhost(args.binary, cases)
    outcomes = corpus.compare_all([(case["text"], printed[case["id"]]) for case in cases], args.jobs)
    for at, case in enumerate(cases):
        text = printed[case["id"]][0]
        if outcomes[at][0] == "equal" and not said(text):
            outcomes[at] = ("differs", "passhost did not print the regions of a block")
    equal = corpus.report([case["id"] for case in cases], outcomes)
    differ = [case for case, (kind, _) in zip(cases, outcomes) if kind in ("differs", "refused")]
    for case in differ[: args.show]:
        print(f"==== {case['id']}\n---- TVM\n{corpus.read(case['text']).script()}")
        print(f"---- passhost\n{printed[case['id']][0] or printed[case['id']][1]}")
    sys.exit(0 if equal else 1)


if __name__ == "__main__":
    main()
