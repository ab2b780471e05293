#!/usr/bin/env python3
"""Deletes each line of passes, and checks that the compiler or one of the plugin's goldens detects the deletion.

    python3 tests/line_deletion.py plugins/relax-passes/src/functions plugins/tir-passes/src/loops/simplify.rs

A line that begins a statement, an arm or a branch is deleted with the whole construct. One build covers all lines:
each function becomes a `match` with one arm per deletion, and an environment variable selects the arm. Deletions that
do not compile count as detected by the compiler. For every other deletion, the goldens run in a separate process,
which may crash or hang. Declarations, tables, and functions that are `const` or return `impl Trait` are skipped,
because they cannot contain such arms.

It works in a clone of the last commit, in `target/line-deletion`. It prints each undetected deletion, and a table.
The exit code is 1 if there are undetected deletions.
"""

import argparse
import collections
import concurrent.futures
import itertools
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIMITS = {resource.RLIMIT_AS: 8 << 30, resource.RLIMIT_CPU: 10}  # loops may become infinite
# Selects the active deletion; records the functions that are reached if `REACHED` names a file.
SELECT = """
pub(crate) fn deletion(function: usize) -> usize {
    use std::{collections::BTreeSet, env, fs::File, io::Write, sync::{LazyLock, Mutex}};
    static NUMBER: LazyLock<usize> = LazyLock::new(|| env::var("DELETION").map_or(0, |text| text.parse().unwrap_or(0)));
    static NOTES: LazyLock<Option<File>> = LazyLock::new(|| File::options().append(true).open(env::var_os("REACHED")?).ok());
    static REACHED: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());
    let is_first = || REACHED.lock().is_ok_and(|mut reached| reached.insert(function));
    let _ = NOTES.as_ref().filter(|_| is_first()).map(|mut notes| writeln!(notes, "{function}"));
    *NUMBER
}
"""
CONTINUES = re.compile(r"[.?](?!\.)|(&&|\|\|?|[-+*/%=]|[!=<>]=) |\{$")


class Deletion:
    def __init__(self, path, text, function, first, last):
        self.path, self.function, self.first, self.shown = path, function, first, text[first].strip()
        kept = re.search(r"[;,]?$", text[last])[0] if CONTINUES.match(self.shown) else ""
        self.lines, self.noticed = [*text[function[0] : first], kept, *text[last + 1 : function[1]]], "compiler"


def functions_of(text):
    """Yields the outermost functions: the line after the header, and the line of the closing bracket."""
    at = 0
    while at < len(text) and text[at] != "#[cfg(test)]":
        if text[at].startswith("declare_"):
            at = text.index("}", at)
        elif match := re.match(r"( *)(pub(\(\w+\))? )?fn \w", text[at]):
            of_head = (i for i in range(at, len(text)) if i == at or re.match(match[1] + r"[){w]", text[i]))
            head = next(i for i in of_head if text[i].endswith(("{", ";")))
            at = text.index(match[1] + "}", head) if text[head].endswith("{") else head
            if head < at and "-> impl" not in text[head]:
                yield head + 1, at
        at += 1


def code_of(text):
    """Returns lines without comments and string contents; a multi-line string counts as a bracket."""
    blank = lambda match: "" if match[0].startswith("//") else "(" + "\n" * match[0].count("\n") + ")"
    strings = re.compile(r"""//.*|"(\\(.|\n)|[^"\\])*"|'(\\.|[^'\\])'""")
    return [line.rstrip() for line in strings.sub(blank, "\n".join(text)).split("\n")]


def depths(line):
    """Returns the change in bracket depth on a line, and the lowest depth on it."""
    depths = [0, *itertools.accumulate((char in "([{") - (char in ")]}") for char in line)]
    return depths[-1], min(depths)


def last_line(code, first, end):
    """Returns the last line of the construct that begins on a line, determined from brackets and continuation lines;
    None if there is none."""
    depth, least = depths(code[first])
    at = first
    while least < 0 and at + 1 < end:  # `} else {`
        change, low = depths(code[at + 1])
        if depth - least + low <= 0:
            return at
        depth, at = depth + change, at + 1
    while depth >= 0:
        while depth > 0 and at + 1 < end:
            depth, at = depth + depths(code[at + 1])[0], at + 1
        following = code[at + 1].strip() if at + 1 < end else ""
        goes_on = code[at].endswith(("=", "=>", "&&", "||", "->")) or CONTINUES.match(following)
        is_over = code[at].endswith((";", ",")) or code[at].endswith("}") and following[:1] not in list(".?")
        if not goes_on or is_over or CONTINUES.match(code[first].strip()):
            return at if depth == 0 else None
        depth, at = depths(code[at + 1])[0], at + 1


def deletions_of(path, text):
    code = code_of(text)
    for function in functions_of(text):
        for first in range(*function):
            is_code = re.match(r" *([^ #{)}\]]|\} else)", code[first]) and depths(code[first])[0] >= 0
            if is_code and (last := last_line(code, first, function[1])):
                yield Deletion(path, text, function, first, last)


def with_arms(text, deletions):
    """Returns the deletion to which each line of a file belongs, and the lines of the file with deletions as arms."""
    out, at = [], 0
    for function, arms in itertools.groupby(deletions, key=lambda one: one.function):
        (body, end), arms = function, list(arms)
        out += [(None, line) for line in [*text[at:body], f"match crate::deletion({arms[0].group}) {{"]]
        out += [(one, line) for one in arms for line in [f"{one.number} => {{", *one.lines, "}"]]
        out += [(None, line) for line in ["_ => {", *text[body:end], "}}"]]
        at = end
    return zip(*out, *((None, line) for line in text[at:]))


class Plugin:
    def __init__(self, folder, checkout, target, paths):
        self.folder, self.checkout = folder, checkout
        self.texts = {path: path.read_text().splitlines() for path in [*paths, folder / "src/lib.rs"]}
        self.environment = {name: text for name, text in os.environ.items() if name != "BLESS"}
        self.environment |= {"CARGO_TARGET_DIR": str(target), "RUST_BACKTRACE": "0", "RUST_MIN_STACK": str(1 << 28)}

    def cargo(self, folder, *arguments):
        command = ["cargo", *arguments, "--quiet", "--message-format=json", "--manifest-path", str(folder / "Cargo.toml")]
        done = subprocess.run(command, cwd=self.checkout, env=self.environment, capture_output=True, text=True)
        return done, [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    def build(self):
        """Builds the test executable. It loads the libraries built here instead of building plugins itself."""
        text, files = (self.checkout / "passes.toml").read_text(), {}
        others = {self.checkout / folder for folder in re.findall(r'^crate = "(.*)"', text, re.M)} - {self.folder}
        for folder in [*others, self.folder]:
            test = ["test", "--test", "goldens", "--no-run"]
            done, messages = self.cargo(folder, *(test if folder == self.folder else ["build", "--lib"]))
            assert done.returncode == 0, done.stderr
            made = [one for one in messages if one["reason"] == "compiler-artifact"]
            found = [(one["manifest_path"], file) for one in made for file in one["filenames"]]
            files |= {place: file for place, file in found if file.endswith((".so", ".dylib", ".dll"))}
        entry = lambda match: "path = " + json.dumps(files[str(self.checkout / match[1] / "Cargo.toml")])
        (self.folder / "passes.toml").write_text(re.sub(r'^crate = "(.*)"', entry, text, flags=re.M))
        return next(one["executable"] for one in made if one["target"]["name"] == "goldens")

    def compiled(self, arms):
        """Writes the deletions that compile into the sources; returns them."""
        while True:
            owners = {}
            for path, text in self.texts.items():
                owners[path], lines = with_arms(text, [one for one in arms if one.path == path])
                path.write_text("\n".join([*lines, SELECT if path == self.folder / "src/lib.rs" else ""]))
            done, messages = self.cargo(self.folder, "check", "--lib")
            errors = [one["message"] for one in messages if one["reason"] == "compiler-message"]
            wrong = {blamed(one, owners, self.checkout) for one in errors if one["level"] == "error" and one["spans"]}
            arms = [one for one in arms if one not in wrong]
            print(f"{self.folder.name}: {len(arms)} deletions {'may ' * (done.returncode != 0)}compile", flush=True)
            if done.returncode == 0:
                return arms
            if not wrong - {None}:
                sys.exit("\n".join(["no deletion explains this:", done.stderr, *(one["rendered"] for one in errors)]))

    def failing(self, test, goldens, **variables):
        """Returns the golden files that fail, or the way in which the test ended."""
        how = {"cwd": self.folder, "env": self.environment | {"ONLY": ",".join(goldens)} | variables, "errors": "replace"}
        bound = lambda: [resource.setrlimit(what, (most, most)) for what, most in LIMITS.items()]
        done = subprocess.run([test], preexec_fn=bound, capture_output=True, **how)
        return done.returncode and [*re.findall(r"goldens/(\w+)\.txt", done.stdout + done.stderr), "another problem"]

    def reaching(self, test):
        """Returns the golden files that reach each function, by its number."""
        found = collections.defaultdict(list)
        for golden in sorted(path.stem for path in (self.folder / "tests/goldens").glob("*.txt")):
            with tempfile.NamedTemporaryFile("r") as notes:
                if failing := self.failing(test, [golden], REACHED=notes.name):
                    sys.exit(f"goldens of {self.folder.name} fail without a deletion: {failing[0]}")
                for function in set(notes.read().split()):
                    found[int(function)].append(golden)
        return found

    def judge(self, sample):
        """Returns the deletions of the crate, each with the golden or compiler that detected it."""
        deletions = [one for file in self.texts.items() for one in deletions_of(*file)][::sample]
        groups, last, done = {}, {}, itertools.count(1)
        for number, one in enumerate(deletions, 1):
            one.number, one.group = number, groups.setdefault((one.path, one.function), number)
        arms, test = self.compiled(deletions), self.build()
        reaching, begin = self.reaching(test), time.time()

        def judge_one(one):
            goldens, first = reaching[one.group], last.get(one.group, one.path.stem)
            one.noticed = "nothing"
            # The golden that detected the last deletion in the function runs first.
            for some in [[name for name in goldens if (name == first) == now] for now in (True, False)]:
                if some and one.noticed == "nothing" and (found := self.failing(test, some, DELETION=str(one.number))):
                    one.noticed, last[one.group] = "golden", found[0]
            if one.noticed == "nothing":
                print(f"{one.path.relative_to(self.checkout)}:{one.first + 1}: not detected: {one.shown}", flush=True)
            if (n := next(done)) % 50 == 0:
                left = (time.time() - begin) * (len(arms) / n - 1) / 60
                print(f"{self.folder.name}: {n} of {len(arms)}, about {left:.0f} min left", flush=True)

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(judge_one, arms))
        for path, text in self.texts.items():
            path.write_text("\n".join([*text, ""]))
        return deletions


def blamed(error, owners, checkout):
    """Returns the deletion that contains a compiler error."""
    for span in sorted(error["spans"], key=lambda span: not span["is_primary"]):
        while span:
            lines = owners.get(checkout / span["file_name"], [])
            if span["line_start"] <= len(lines) and lines[span["line_start"] - 1]:
                return lines[span["line_start"] - 1]
            span = span["expansion"] and span["expansion"]["span"]
    return None


def table(deletions, checkout):
    counts = collections.Counter((name, one.noticed) for one in deletions for name in (one.path.relative_to(checkout), "all"))
    print(f"{'file':<80}    lines compiler   golden   missed")
    for name in [*sorted({name for name, _ in counts} - {"all"}), "all"]:
        row = [counts[name, who] for who in ("compiler", "golden", "nothing")]
        print(f"{name!s:<80}" + "".join(f"{number:>9}" for number in [sum(row), *row]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", help="files and folders, from the root of the repository")
    parser.add_argument("--sample", type=int, default=1, metavar="N", help="delete only every N-th line")
    args, git, folders, judged = parser.parse_args(), ["git", "-C", str(ROOT)], {}, []
    checkout = ROOT / "target/line-deletion/checkout"
    commit = subprocess.check_output([*git, "rev-parse", "HEAD"], text=True).strip()
    if not checkout.exists():
        subprocess.run([*git, "clone", "--quiet", "--shared", "--no-checkout", ".", str(checkout)], check=True)
    subprocess.run(["git", "-C", str(checkout), "checkout", "--quiet", "--force", "--detach", commit], check=True)
    for path in (checkout / path for path in args.paths):
        folder = next(parent for parent in path.parents if (parent / "Cargo.toml").exists())
        folders.setdefault(folder, {}).update(dict.fromkeys(sorted(path.rglob("*.rs")) if path.is_dir() else [path]))
    for folder, paths in folders.items():
        judged += Plugin(folder, checkout, checkout.parent / "target", paths).judge(args.sample)
    table(judged, checkout)
    return 1 if any(one.noticed == "nothing" for one in judged) else 0


if __name__ == "__main__":
    sys.exit(main())
