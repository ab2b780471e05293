"""Parses and checks the results of passhost's default pipeline on whole modules with TVM."""

import argparse
import pathlib
import subprocess
import sys

import tvm
from tvm import relax

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", default=ROOT / "tests/models", type=pathlib.Path)
    parser.add_argument("--binary", default=ROOT / "target/release/passhost", type=pathlib.Path)
    parser.add_argument("--passes", help="a pipeline instead of the default one")
    args = parser.parse_args()
    failed = 0
    for path in sorted(args.folder.glob("*.py")):
        text = path.read_text()
        if "T.prim_func" in text:
            print(f"{path.stem}: skipped, because it contains PrimFuncs")
            continue
        command = [str(args.binary), "run", "-"]
        command += ["--passes", args.passes] if args.passes else []
        done = subprocess.run(command, input=text, capture_output=True, text=True, cwd=ROOT)
        if done.returncode != 0:
            failed += 1
            print(f"{path.stem:20} passhost failed with {done.returncode}: {done.stderr}")
            continue
        module = tvm.script.from_source(done.stdout)
        groups = [f for f in module.functions.values() if f.attrs and ("Composite" in f.attrs or "Primitive" in f.attrs)]
        try:
            relax.analysis.well_formed(module)
            why = None
        except Exception as error:  # TVM raises errors of several classes
            why = str(error).splitlines()[0]
        failed += why is not None
        print(f"{path.stem:20} {len(groups):3} groups, {'well-formed' if why is None else 'NOT WELL-FORMED: ' + why}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
