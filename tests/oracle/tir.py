"""Lets TVM read TIR modules as passhost prints them: the same text again, and a structurally equal module."""

import argparse
import pathlib
import subprocess
import sys

import tvm

ROOT = pathlib.Path(__file__).resolve().parents[2]


def printed(binary, text):
    """What passhost prints when it has read the text and run nothing."""
    command = [str(binary), "run", "-", "--passes", ""]
    done = subprocess.run(command, input=text, capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return done.stdout


def difference(text, ours):
    """Says where TVM sees another module than the one it reads from the original, or nothing."""
    original, again = (tvm.script.from_source(source, check_well_formed=False) for source in (text, ours))
    try:
        # A buffer or variable that nothing defines is another one in each reading.
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
    parser.add_argument("--own", action="store_true", help="compare the texts as they are, without passhost")
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
