"""TVM reads modules as it printed them, and as passhost prints them once it has read them: both must be the same module.

    ../oracle-venv/bin/python tests/oracle/corpus.py FILE.jsonl [--unreadable FILE.json] [--binary FILE] [--jobs N]

FILE.jsonl has one JSON object a line with `id` and `text`. What TVM does not read itself is left out: it is told by
`--unreadable`, a JSON file with `groups` that have `ids`, or found when it is tried. Exit code 1 if any differs; the
last line is `total: N of M`.
"""

import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

import workers

ROOT = pathlib.Path(__file__).parent.parent.parent
BINARY = ROOT / "target/release/conformance"


def printed_by_passhost(binary, cases):
    """What passhost prints for each case: `(text, error)`, of which one is nothing."""
    with tempfile.TemporaryDirectory() as folder:
        given, out = pathlib.Path(folder) / "given.jsonl", pathlib.Path(folder) / "printed.jsonl"
        given.write_text("".join(json.dumps(case) + "\n" for case in cases))
        subprocess.run([binary, "modules", given, "--texts", out], stdout=subprocess.DEVNULL, check=False)
        lines = map(json.loads, out.read_text().splitlines())
        return {line["id"]: (line.get("text"), line.get("error")) for line in lines}


def read(text):
    """The module, read with TVM's check of well-formedness, or without it where that refuses."""
    import tvm

    try:
        return tvm.script.from_source(text)
    except Exception:
        return tvm.script.from_source(text, check_well_formed=False)


def first_line(error):
    """What an error says, without the places that TVM draws."""
    lines = [line.strip() for line in str(error).strip().split("\n") if line.strip()]
    said = [line for line in lines if line.startswith("error:")] or lines or [""]
    return f"{type(error).__name__}: {said[0][:200]}"


def compare(case):
    """`(kind, reason)`: kind is equal, differs, unreadable (by TVM itself) or refused (what passhost printed)."""
    import tvm
    import tvm_ffi

    given, (printed, why) = case
    try:
        theirs = read(given)
    except Exception as error:
        return "unreadable", first_line(error)
    if printed is None:
        return "differs", f"passhost does not read it: {why}"
    try:
        ours = read(printed)
    except Exception as error:
        return "refused", first_line(error)
    if tvm_ffi.structural_equal(theirs, ours):
        return "equal", ""
    # A module with free variables is not even equal to itself read twice.
    loose = not tvm_ffi.structural_equal(theirs, read(given))
    if loose and tvm_ffi.structural_equal(theirs, ours, map_free_vars=True):
        return "equal", ""
    try:
        tvm.ir.assert_structural_equal(theirs, ours, map_free_vars=loose)
    except Exception as error:
        return "differs", first_line(error)
    return "differs", ""


def compare_all(cases, jobs):
    """`(kind, reason)` of each case."""
    outcomes = [None] * len(cases)
    for at, outcome in workers.run(compare, cases, jobs):
        outcomes[at] = ("unreadable", f"TVM {outcome}") if isinstance(outcome, str) else outcome
    return outcomes


def report(ids, outcomes):
    """Prints each case that is not equal, with its reason, and the total; gives whether all are equal."""
    counts = collections.Counter(kind for kind, _ in outcomes)
    for name, (kind, reason) in zip(ids, outcomes):
        if kind not in ("equal", "unreadable"):
            print(f"{name}: {kind}: {reason}")
    for name, (kind, reason) in zip(ids, outcomes):
        if kind == "unreadable":
            print(f"{name}: left out, TVM does not read it itself: {reason}")
    tried = len(outcomes) - counts["unreadable"]
    print(", ".join(f"{kind} {n}" for kind, n in sorted(counts.items())))
    print(f"total: {counts['equal']} of {tried}")
    return counts["equal"] == tried


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--unreadable", type=pathlib.Path)
    parser.add_argument("--binary", default=BINARY, type=pathlib.Path)
    parser.add_argument("--jobs", default=2, type=int)
    parser.add_argument("--only", help="only ids that hold this")
    args = parser.parse_args()
    skipped = set()
    if args.unreadable:
        for group in json.loads(args.unreadable.read_text())["groups"]:
            skipped.update(group["ids"])
    cases = [json.loads(line) for line in args.file.read_text().splitlines()]
    cases = [case for case in cases if case["id"] not in skipped and (args.only or "") in case["id"]]
    printed = printed_by_passhost(args.binary, cases)
    outcomes = compare_all([(case["text"], printed[case["id"]]) for case in cases], args.jobs)
    sys.exit(0 if report([case["id"] for case in cases], outcomes) else 1)


if __name__ == "__main__":
    main()
