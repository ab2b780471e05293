"""Checks generated modules: TVM parses and prints each module, passhost parses and prints TVM's output, and TVM must
parse the same module from passhost's output.

    ../oracle-venv/bin/python tests/oracle/generated.py [COUNT] [--seed N] [--binary FILE] [--jobs N] [--show]

The modules come from `conformance generate` (`tests/src/generate.rs`). Modules that TVM rejects are listed by kind,
with the reason. The exit code is 1 if a module differs; the last line is `total: N of M`.
"""

import argparse
import collections
import json
import multiprocessing
import pathlib
import subprocess
import sys

from corpus import BINARY, compare_all, first_line, printed_by_passhost, report


def as_tvm_prints(text):
    """Returns TVM's output for a text, or the reason why TVM does not parse it. TVM first parses with its check, which
    determines whether the module is well-formed."""
    import tvm

    checked = "well-formed"
    try:
        module = tvm.script.from_source(text)
    except Exception as error:
        checked = first_line(error)
        try:
            module = tvm.script.from_source(text, check_well_formed=False)
        except Exception as error:
            return None, first_line(error)
    try:
        return module.script(show_meta=True), checked
    except Exception as error:
        return None, first_line(error)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", default=500, type=int)
    parser.add_argument("--seed", default=0, type=int)
    parser.add_argument("--binary", default=BINARY, type=pathlib.Path)
    parser.add_argument("--jobs", default=2, type=int)
    parser.add_argument("--show", action="store_true", help="print the first module of each kind of refusal")
    args = parser.parse_args()
    command = [args.binary, "generate", str(args.count), "--seed", str(args.seed)]
    made = [json.loads(line) for line in subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.splitlines()]
    with multiprocessing.get_context("spawn").Pool(args.jobs, maxtasksperchild=200) as pool:
        printed = pool.map(as_tvm_prints, [case["text"] for case in made], chunksize=8)
    refused, cases, loose = collections.Counter(), [], collections.Counter()
    for case, (text, why) in zip(made, printed):
        if text is None:
            if args.show and not refused[why]:
                print(f"--- {case['id']}: {why}\n{case['text']}")
            refused[why] += 1
        else:
            if why != "well-formed":
                if args.show and not loose[why]:
                    print(f"--- {case['id']}: not well-formed: {why}\n{case['text']}")
                loose[why] += 1
            cases.append({"id": case["id"], "text": text, "own": case["text"]})
    for why, n in refused.most_common():
        print(f"TVM does not parse {n}: {why}")
    for why, n in loose.most_common():
        print(f"TVM parses {n}, but they are not well-formed: {why}")
    ours = printed_by_passhost(args.binary, [{"id": case["id"], "text": case["text"]} for case in cases])
    outcomes = compare_all([(case["text"], ours[case["id"]]) for case in cases], args.jobs)
    same = sum((ours[case["id"]][0] or "").rstrip() == case["text"].rstrip() for case in cases)
    print(f"{len(cases)} of {len(made)} are parsed by TVM; passhost's output is identical to TVM's for {same}")
    sys.exit(0 if report([case["id"] for case in cases], outcomes) else 1)


if __name__ == "__main__":
    main()
