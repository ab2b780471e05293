"""Checks that TVM parses passhost's output in `tests/goldens/text`, and prints the same lines.

    ../oracle-venv/bin/python tests/oracle/texts.py
"""

import pathlib
import re
import sys

import tvm

# Texts that TVM prints but does not parse.
UNREADABLE = {
    "externs": "external functions of a module",
    "opaque": "operators that are not registered",
}

# Texts that TVM prints, but parses only without its well-formedness check.
UNCHECKED = {"tir_declared": "strides and offsets that a declaration introduces, which TVM's check considers undefined"}


def lines(text):
    """Returns the lines without metadata, comments and blank space."""
    text = re.sub(r'metadata = .*?"""\)\n', "", text, flags=re.S)
    kept = (line.rstrip() for line in text.split("\n"))
    return [line for line in kept if line.strip() and not line.strip().startswith("#")]


def main():
    folder = pathlib.Path(__file__).parent.parent / "goldens" / "text"
    failed = 0
    for path in sorted(folder.glob("*.py")):
        text = path.read_text()
        if path.stem in UNREADABLE:
            print(f"{path.stem}: skipped: {UNREADABLE[path.stem]}")
            continue
        try:
            again = tvm.script.from_source(text, check_well_formed=path.stem not in UNCHECKED).script(show_meta=True)
        except Exception as error:
            print(f"{path.stem}: TVM does not parse it: {error}")
            failed += 1
            continue
        different = [(a, b) for a, b in zip(lines(text), lines(again)) if a != b]
        if different or len(lines(text)) != len(lines(again)):
            failed += 1
            print(f"{path.stem}: TVM prints it differently")
            for ours, theirs in different:
                print(f"  passhost: {ours.strip()}\n  TVM:      {theirs.strip()}")
        else:
            print(f"{path.stem}: same")
    sys.exit(failed > 0)


main()
