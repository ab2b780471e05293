"""Checks that TVM parses the same module from its own output and from passhost's output for the same module.

    ../oracle-venv/bin/python tests/oracle/corpus.py FILE.jsonl [--unreadable FILE.json] [--binary FILE] [--jobs N]

FILE.jsonl contains one JSON object per line with `id` and `text`. Texts that TVM itself does not parse are skipped;
they are detected, or listed in `--unreadable`, a JSON file with `groups` that contain `ids`. The exit code is 1 if a
module differs; the last line is `total: N of M`.
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
    """Returns passhost's output for each case: `(text, error)`, where one is None."""
    with tempfile.TemporaryDirectory() as folder:
        given, out = pathlib.Path(folder) / "given.jsonl", pathlib.Path(folder) / "printed.jsonl"
        given.write_text("".join(json.dumps(case) + "\n" for case in cases))
        subprocess.run([binary, "modules", given, "--texts", out], stdout=subprocess.DEVNULL, check=False)
        lines = map(json.loads, out.read_text().splitlines())
        return {line["id"]: (line.get("text"), line.get("error")) for line in lines}


def read(text):
    """Parses a module with TVM's well-formedness check, or without the check if it fails."""
    import tvm

    try:
        return tvm.script.from_source(text)
    except Exception:
        return tvm.script.from_source(text, check_well_formed=False)


def first_line(error):
    """Returns the message of an error, without TVM's source excerpts."""
    lines = [line.strip() for line in str(error).strip().split("\n") if line.strip()]
    said = [line for line in lines if line.startswith("error:")] or lines or [""]
    return f"{type(error).__name__}: {said[0][:200]}"


def compare(case):
    """Returns `(kind, reason)`; the kind is equal, differs, unreadable (by TVM itself) or refused (passhost's output).
    """
    import tvm
    import tvm_ffi

    given, (printed, why) = case
    try:
        theirs = read(given)
    except Exception as error:
        return "unreadable", first_line(error)
    if printed is None:
        return "differs", f"passhost does not parse it: {why}"
    try:
        ours = read(printed)
    except Exception as error:
        return "refused", first_line(error)
    if tvm_ffi.structural_equal(theirs, ours):
        return "equal", ""
    # A module with free variables does not even equal itself when parsed twice.
    loose = not tvm_ffi.structural_equal(theirs, read(given))
    if loose and tvm_ffi.structural_equal(theirs, ours, map_free_vars=True):
        return "equal", ""
    try:
        tvm.ir.assert_structural_equal(theirs, ours, map_free_vars=loose)
    except Exception as error:
        return "differs", first_line(error)
    return "differs", ""


def compare_all(cases, jobs):
    """Returns `(kind, reason)` of each case."""
    outcomes = [None] * len(cases)
    for at, outcome in workers.run(compare, cases, jobs):
        outcomes[at] = ("unreadable", f"TVM {outcome}") if isinstance(outcome, str) else outcome
    return outcomes


def report(ids, outcomes):
    """Prints each case that is not equal, with its reason, and the total; returns true if all are equal."""
    counts = collections.Counter(kind for kind, _ in outcomes)
    for name, (kind, reason) in zip(ids, outcomes):
        if kind not in ("equal", "unreadable"):
            print(f"{name}: {kind}: {reason}")
    for name, (kind, reason) in zip(ids, outcomes):
        if kind == "unreadable":
            print(f"{name}: skipped, because TVM does not parse it: {reason}")
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
    parser.add_argument("--only", help="compare only ids that contain this")
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
