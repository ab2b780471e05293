"""Parses TIR modules printed by passhost with TVM, which must print the same text. The modules must be structurally
equal to the originals."""

import argparse
import pathlib
import subprocess
import sys

import tvm

ROOT = pathlib.Path(__file__).resolve().parents[2]


def printed(binary, text):
    """Returns passhost's output for a text without running passes."""
    command = [str(binary), "run", "-", "--passes", ""]
    done = subprocess.run(command, input=text, capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return done.stdout


def difference(text, ours):
    """Describes the difference between TVM's module and the module that TVM parses from the original; returns None if
    they are equal."""
    original, again = (tvm.script.from_source(source, check_well_formed=False) for source in (text, ours))
    try:
        # An undefined buffer or variable becomes a different object each time it is parsed.
        tvm.ir.assert_structural_equal(again, original, map_free_vars=True)
    except ValueError as error:
        return str(error).splitlines()[0]
    theirs = original.script(show_meta=True).strip()
    for a, b in zip(theirs.splitlines() + ["the end"], ours.strip().splitlines() + ["the end"]):
        if a != b:
            return f"TVM prints {a.strip()!r}, passhost {b.strip()!r}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=ROOT / "script/tests/tir")
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "target/release/passhost")
    parser.add_argument("--own", action="store_true", help="compare the files unchanged, without passhost")
    arguments = parser.parse_args()
    failed = 0
    for path in sorted(arguments.folder.glob("*.py")):
        text = path.read_text()
        found = difference(text, text if arguments.own else printed(arguments.binary, text))
        print(f"{path.name}: {found or 'the same'}")
        failed += found is not None
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
