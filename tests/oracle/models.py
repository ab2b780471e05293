"""Compares passhost with TVM on whole modules: the printed text, and each standard pass by itself."""

import argparse
import pathlib
import subprocess
import sys

import tvm
from tvm import relax

ROOT = pathlib.Path(__file__).resolve().parents[2]

PASSES = {
    "relax.Normalize": relax.transform.Normalize,
    "relax.CanonicalizeBindings": relax.transform.CanonicalizeBindings,
    "relax.EliminateCommonSubexpr": relax.transform.EliminateCommonSubexpr,
    "relax.DeadCodeElimination": relax.transform.DeadCodeElimination,
}


def passhost(binary, text, passes):
    command = [str(binary), "run", "-", "--passes", passes]
    done = subprocess.run(command, input=text, capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed with {done.returncode}:\n{done.stderr}")
    return done.stdout


def difference(ours, theirs):
    """Describes the difference between two modules; returns None if they are equal."""
    try:
        tvm.ir.assert_structural_equal(ours, theirs)
    except ValueError as error:
        return str(error).splitlines()[0]
    return None


def compare(binary, path):
    text = path.read_text()
    original = tvm.script.from_source(text)
    printed = passhost(binary, text, "")
    results = {"(print)": difference(tvm.script.from_source(printed), original)}
    results["(same text)"] = None if printed.rstrip() == text.rstrip() else "the text differs"
    for name, make in PASSES.items():
        ours = tvm.script.from_source(passhost(binary, text, name))
        results[name] = difference(ours, make()(original))
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", default=ROOT / "tests/models", type=pathlib.Path)
    parser.add_argument("--binary", default=ROOT / "target/release/passhost", type=pathlib.Path)
    args = parser.parse_args()
    failed = 0
    for path in sorted(args.folder.glob("*.py")):
        if "T.prim_func" in path.read_text():
            print(f"{path.stem}: skipped, because it contains PrimFuncs")
            continue
        for what, why in compare(args.binary, path).items():
            failed += why is not None
            print(f"{path.stem:20} {what:32} {'equal' if why is None else 'DIFFERS: ' + why}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
