"""Compares the plugins' goldens with TVM's results, and checks that each difference has a reason."""

import argparse
import collections
import pathlib
import re
import sys

import workers

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEAD = re.compile(r"^-- (before|after|error|unchanged|diagnostics|statistics)$", re.M)


def cases(path):
    """Yields the cases of a file: title, settings, and the text of each section."""
    for case in re.split(r"^== ", path.read_text(), flags=re.M)[1:]:
        parts = HEAD.split(case)
        title, *settings = parts[0].strip().splitlines()
        settings = [line.split(": ", 1) for line in settings]
        yield title, settings, dict(zip(parts[1::2], parts[2::2]))


def parser(about):
    """Returns a parser with the arguments that scripts about goldens share."""
    made = argparse.ArgumentParser(description=about)
    made.add_argument("files", nargs="*", type=pathlib.Path)
    made.add_argument("--quiet", action="store_true", help="print only the titles of unexplained cases")
    return made


def judge(files, compared, judged, reasons, quiet, seconds):
    """Compares the cases in files in worker processes; prints the number of equal cases, and the unexplained cases.

    `compared` takes the stem of a file, settings and sections, and returns a kind and details; if the process
    crashed, the kind is a constant from `workers`. `judged` takes the stem, the title and the kind, and returns the
    count to which the case belongs, and the error if the case is unexplained. `reasons` contains the reasons for
    differences, by file and title. The exit code is 1 if a case is unexplained.
    """
    asked = [(path.stem, *case) for path in files for case in cases(path)]
    titles = {(stem, title) for stem, title, _, _ in asked}
    unexplained = [
        f"{path.stem}: {title}: has a reason, but there is no such golden"
        for path in files for title in reasons.get(path.stem, {}) if (path.stem, title) not in titles
    ]  # fmt: skip
    counts = {path.stem: collections.Counter() for path in files}
    for at, result in workers.run(compared, [(stem, *case) for stem, _, *case in asked], 1, seconds=seconds):
        stem, title = asked[at][:2]
        kind, detail = (result, "") if isinstance(result, str) else result
        counted, wrong = judged(stem, title, kind)
        if wrong:
            unexplained.append(f"{stem}: {title}: {wrong}" + ("" if quiet else f"\n{detail}"))
        counts[stem][counted] += 1
    for stem, count in counts.items():
        print(f"{stem}: {count['equal']} of {count.total()} equal")
    for line in unexplained:
        print(line, file=sys.stderr)
    count = sum(counts.values(), collections.Counter())
    print(f"{count['equal']} equal, {count['stated']} differ for a stated reason, {len(unexplained)} unexplained")
    sys.exit(bool(unexplained))
