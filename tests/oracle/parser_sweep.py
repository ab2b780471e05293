"""Tests every public name of `tvm.script`'s namespaces `R`, `T` and `I` in common forms: passhost must parse the same
module as TVM.

    ../oracle-venv/bin/python tests/oracle/parser_sweep.py [--only R.add,T.ceildiv] [--jobs N] [--show N] [--save FILE.jsonl] [--forms FILE.jsonl]

For each callable, the script creates small modules with arguments of several kinds: positional, named and omitted.
`parser_forms.py` contains these forms, and Python constructs without a name. Forms that TVM rejects are skipped. For
all other forms, TVM parses passhost's output, and both modules must be structurally equal. The last lines are
`forms: N of M` and `names: N of M`. The exit code is 1 if a form is parsed differently and `parser_forms.OTHER` does
not contain the reason.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import signal
import sys

import corpus
import parser_forms
import workers

# A form that TVM parses for longer is skipped.
SECONDS = 10
ROOT = pathlib.Path(__file__).parent.parent.parent


def read(text):
    import tvm

    read = tvm.script.from_source(text, check_well_formed=False)
    if isinstance(read, tvm.IRModule):
        return read
    # Only the text contains the name of a private function.
    return tvm.IRModule({re.search(r"def (\w+)", text)[1]: read})


def accepted(case):
    """Returns the modules that TVM accepts for the name in `case`, each with the text of the form; the number tried is
    limited. If `apart` is true, each form is parsed in its own process."""
    import tvm.script  # noqa: F401 - so that no child process imports it again

    name, left, apart = case
    readable = readable_apart if apart else readable_here
    if name in parser_forms.SUGAR:
        return [form for form in parser_forms.SUGAR[name] if readable(form[1])]

    def within_budget(text):
        nonlocal left
        left -= 1
        return left >= 0 and readable(text)

    return parser_forms.forms(name, within_budget)


def readable_here(text):
    """Returns true if TVM parses the text in this process, which a form may crash."""

    def stop(*_):
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        read(text)
        return True
    except BaseException:
        return False
    finally:
        signal.alarm(0)


def readable_apart(text):
    """Returns true if TVM parses the text in a child process."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    code = 1
    try:
        code = 0 if readable_here(text) else 1
    finally:
        os._exit(code)


def compare(case):
    """Returns None if both are the same module, otherwise the reason."""
    import tvm_ffi

    text, (printed, why) = case
    if why:
        return f"passhost: {why.splitlines()[0]}"
    try:
        ours = read(printed)
    except BaseException as error:
        return f"TVM cannot parse passhost's output: {corpus.first_line(error)}"
    theirs = read(text)
    if tvm_ffi.structural_equal(theirs, ours, map_free_vars=True):
        return None
    # TVM does not always parse the original module from its own output.
    try:
        again = read(theirs.script(show_meta=True))
    except BaseException:
        return "a different module, and TVM cannot parse its own output"
    own = tvm_ffi.structural_equal(theirs, again, map_free_vars=True)
    if not own and tvm_ffi.structural_equal(again, ours, map_free_vars=True):
        return None
    return "a different module" if own else "a different module, as with TVM's own output"


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--only", default="")
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--budget", type=int, default=400, help="maximum number of modules that are tried for a name")
    options.add_argument("--show", type=int, default=2)
    options.add_argument("--save", type=pathlib.Path, help="write the forms that TVM parses to a file, and stop")
    options.add_argument("--forms", type=pathlib.Path, help="read the forms from such a file")
    options.add_argument("--binary", type=pathlib.Path, default=ROOT / "target/debug/conformance")
    options = options.parse_args()
    if options.forms:
        cases = [json.loads(line) for line in options.forms.read_text().splitlines()]
        sys.exit(judge(list(dict.fromkeys(case["name"] for case in cases)), cases, options))
    names = options.only.split(",") if options.only else parser_forms.names() + list(parser_forms.SUGAR)
    found, cases = {}, []
    # A process per form takes five times as long, so only the names of forms that crash TVM use one.
    for apart in (False, True):
        given = [(name, options.budget, apart) for name in names if not isinstance(found.get(name), list)]
        for at, forms in workers.run(accepted, given, options.jobs, seconds=600):
            found[given[at][0]] = forms
    for name in names:
        if not isinstance(found[name], list):
            print(f"{name}: TVM {found[name]}", flush=True)
            found[name] = []
        cases += [{"id": f"{name} {i}", "name": name, "form": form, "text": text}
                  for i, (form, text) in enumerate(found[name])]
    if options.save:
        options.save.write_text("".join(json.dumps(case) + "\n" for case in cases))
        return
    sys.exit(judge(names, cases, options))


def reason_of(why):
    return next((reason for pattern, reason in parser_forms.OTHER.items() if re.search(pattern, why)), None)


def judge(names, cases, options):
    printed = corpus.printed_by_passhost(options.binary, [{"id": case["id"], "text": case["text"]} for case in cases])
    given = [(case["text"], printed.get(case["id"], (None, "passhost ended"))) for case in cases]
    wrong = collections.defaultdict(list)
    for at, why in workers.run(compare, given, options.jobs):
        if why:
            wrong[cases[at]["name"]].append((cases[at]["form"], why))
    count = collections.Counter(case["name"] for case in cases)
    reasons = collections.Counter()
    for name in names:
        if name in wrong:
            print(f"{name}: {count[name] - len(wrong[name])} of {count[name]}")
        for at, (form, why) in enumerate(sorted(wrong.get(name, []))):
            reasons[reason_of(why)] += 1
            if at < options.show:
                print(f"    {form}\n        {why}")
    for reason, number in reasons.most_common():
        print(f"{number} forms: {reason or 'no known reason'}")
    tried = [name for name in names if count[name]]
    bad = sum(map(len, wrong.values()))
    print(f"TVM cannot parse any form of: {' '.join(name for name in names if not count[name])}")
    print(f"forms: {len(cases) - bad} of {len(cases)}")
    print(f"names: {sum(name not in wrong for name in tried)} of {len(tried)}")
    return 1 if reasons[None] else 0


if __name__ == "__main__":
    main()
