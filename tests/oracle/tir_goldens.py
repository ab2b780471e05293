"""Runs the goldens of plugins/tir-passes through TVM: what a pass makes of each module, or that it refuses it.

With --complete, a case that has only a `before` gets what TVM makes of it. Give each run a limit of memory and time: some
modules TVM does not finish.
"""

import argparse
import json
import pathlib
import re
import sys

import tvm
import tvm_ffi

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEAD = re.compile(r"^-- (before|after|error|unchanged)$", re.M)


def cases(path):
    """The cases of a file: title, settings, and the text of each section."""
    for case in re.split(r"^== ", path.read_text(), flags=re.M)[1:]:
        parts = HEAD.split(case)
        title, *settings = parts[0].strip().splitlines()
        settings = [line.split(": ", 1) for line in settings]
        yield title, settings, dict(zip(parts[1::2], parts[2::2]))


def value(text):
    """A value of an option or setting."""
    return {"true": True, "false": False}.get(text, int(text) if re.fullmatch(r"-?\d+", text) else text)


def made(name):
    """The pass of TVM that a name and its options stand for."""
    name, _, options = name.partition("{")
    folder, name = name.split(".")
    of = getattr(tvm, folder).transform
    # TVM has no default for it.
    options = {"target_bits": "32"} if name == "NarrowDataType" and not options else dict(option.split("=") for option in options.rstrip("}").split(",") if option)
    return getattr(of, name)(**{key: value(text) for key, text in options.items()})


def config(settings):
    """Settings as TVM takes them: those of a pass are one object."""
    out = {}
    for key, text in (line.split("=") for name, line in settings if name == "config"):
        *of, last = key.rsplit(".", 1)
        if key in tvm.ir.transform.PassContext.list_configs():
            out[key] = value(text)
        else:
            out.setdefault(of[0], {})[last] = value(text)
    return out


def theirs(settings, text):
    """What TVM makes of a module."""
    module = tvm.script.from_source(text, check_well_formed=False)
    names = next(line for name, line in settings if name == "passes")
    with tvm.transform.PassContext(config=config(settings)):
        return module, made(names)(module)


def difference(settings, sections):
    """How TVM differs from a golden, or nothing."""
    try:
        before, after = theirs(settings, sections["before"])
    except Exception as error:  # pylint: disable=broad-except
        return None if "error" in sections else f"TVM refuses it: {str(error).strip().splitlines()[-1]}"
    if "error" in sections:
        return "TVM takes it:\n" + after.script()
    ours = tvm.script.from_source(sections["after"], check_well_formed=False) if "after" in sections else before
    try:
        tvm.ir.assert_structural_equal(after, ours, map_free_vars=True)
    except ValueError as error:
        return f"{str(error).splitlines()[0]}\n{after.script()}"
    return None


def completed(text):
    """A case with what TVM makes of its module."""
    parts = HEAD.split(text)
    if parts[1::2] != ["before"]:
        return text
    settings = [line.split(": ", 1) for line in parts[0].strip().splitlines()[1:]]
    try:
        before, after = theirs(settings, parts[2])
    except Exception as error:  # pylint: disable=broad-except
        return text.rstrip() + f"\n-- error\n{str(error).strip().splitlines()[-1]}\n\n"
    same = tvm_ffi.structural_equal(before, after)
    return text.rstrip() + ("\n-- unchanged\n\n" if same else f"\n-- after\n{after.script().strip()}\n\n")


def complete(path):
    """Writes a file again, each case with what TVM makes of it."""
    head, *rest = re.split(r"^== ", path.read_text(), flags=re.M)
    path.write_text(head + "".join("== " + completed(case) for case in rest).rstrip() + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--quiet", action="store_true", help="only the titles of those that differ")
    parser.add_argument("--json", action="store_true", help="titles that differ, as JSON")
    parser.add_argument("--complete", action="store_true", help="add what TVM makes of cases that have only a `before`")
    arguments = parser.parse_args()
    files = arguments.files or sorted((ROOT / "plugins/tir-passes/tests/goldens").glob("*.txt"))
    if arguments.complete:
        for path in files:
            complete(path)
    differing = {}
    for path in files:
        found, n = [], 0
        for title, settings, sections in cases(path):
            n += 1
            why = difference(settings, sections)
            if why is not None:
                found.append(title)
                print(f"{path.name}: {title}" + ("" if arguments.quiet else f": {why}"), file=sys.stderr)
        differing[path.name] = found
        print(f"{path.name}: {n - len(found)} of {n} as TVM")
    if arguments.json:
        print(json.dumps(differing, indent=1))
    sys.exit(any(differing.values()))


if __name__ == "__main__":
    main()
