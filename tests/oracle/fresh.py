"""Compares TVM and passhost on fresh modules from TVM that were not used to develop passhost.

    ../oracle-venv/bin/python tests/oracle/fresh.py make FOLDER [--seed N] [--networks N] [--onnx N] [--written N]
    ../oracle-venv/bin/python tests/oracle/fresh.py compare FOLDER

`make` builds networks (`fresh_models.py`), imports node models from the `onnx` wheel, generates modules, and runs TVM's
pipelines on them up to lowered TIR. It writes the distinct texts after each pass to FOLDER/modules.jsonl, in the format
of `conformance`.
`compare` parses each text, and passhost's output for it, with TVM, and runs each pass that both have. Outcomes are
kept in FOLDER/outcomes.jsonl, so that a second run tries only texts for which passhost's output changed. Both commands
continue where they were stopped. The exit code is 1 if anything differs.
"""

import argparse
import collections
import hashlib
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

import workers
from corpus import BINARY, ROOT, compare, first_line, printed_by_passhost, read

REFERENCE = ROOT / "docs/passes.md"
TARGETS = ["llvm", "cuda", "metal", "opencl"]
# Passes of passhost that TVM does not have, or that need an argument that depends on the module.
NOT_COMPARED = {
    "relax.BackwardFoldScaleAxis": "not in TVM",
    "relax.BindParams": "needs the parameters",
    "relax.BindSymbolicVars": "needs the symbolic variables",
    "relax.FMARewrite": "not in TVM",
    "relax.FoldScaleAxis": "not in TVM",
    "relax.ForwardFoldScaleAxis": "not in TVM",
    "relax.FuseOpsByPattern": "needs patterns",
    "relax.RewriteTransposedMatmul": "not in TVM",
    "tirx.NarrowDataType": "TVM gives this name to ForceNarrowIndexToInt32, too, and `conformance` runs that one",
}
# Relax passes that are not in a default pipeline. Two of them, chosen at random, run on each module.
EXTRA = [
    "AllocateWorkspace",
    "AttachAttrLayoutFreeBuffers",
    "BundleModelParams",
    "CanonicalizeBindings",
    "CombineParallelMatmul",
    "ConvertToDataflow",
    "DataflowUseInplaceCalls",
    "DeadCodeElimination",
    "DecomposeOpsForInference",
    "EliminateCommonSubexpr",
    "ExpandMatmulOfSum",
    "ExpandTupleArguments",
    "FuseTransposeMatmul",
    "LambdaLift",
    "LiftTransformParams",
    "Normalize",
    "NormalizeGlobalVar",
    "RemoveUnusedOutputs",
    "RemoveUnusedParameters",
    "ReorderPermuteDimsAfterConcat",
    "ReorderTakeAfterMatmul",
    "SplitCallTIRByPattern",
    "ToMixedPrecision",
    "TopologicalSort",
]


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:12]


class Collector:
    """Collects the text after each Relax pass, and after random passes that lower TIR."""

    def __init__(self, chooser, chance):
        self.chooser, self.chance, self.stages, self.seen = chooser, chance, [], set()

    def take(self, stage, module):
        text = module.script(show_meta=True)
        if digest(text) not in self.seen:
            self.seen.add(digest(text))
            self.stages.append((stage, text))

    def instrument(self, lowering):
        import tvm

        collector = self

        @tvm.ir.instrument.pass_instrument
        class Texts:
            def run_after_pass(self, module, info):
                if info.name not in ("sequential", "_pipeline", "Filter") and (
                    not lowering or collector.chooser.random() < collector.chance
                ):
                    collector.take(info.name, module)

        return Texts()


def lower(module, target, collector):
    """Runs TVM's pipelines, first for Relax and then for TIR."""
    import tvm
    from tvm import relax, tirx

    with target, tvm.transform.PassContext(instruments=[collector.instrument(False)]):
        if collector.chooser.random() < 0.7:
            module = relax.get_default_pipeline(target)(module)
        else:
            module = relax.get_pipeline("default_build")(relax.get_pipeline("zero")(module))
    functions = {var: f for var, f in module.functions_items() if isinstance(f, tirx.PrimFunc)}
    if not functions:
        return
    host = target if target.kind.name == "llvm" else tvm.target.Target("llvm")
    with tvm.transform.PassContext(instruments=[collector.instrument(True)]):
        module = tirx.transform.BindTarget(target.with_host(host))(tvm.IRModule(functions))
        pipeline, for_host, for_device = tirx.get_default_tir_pipeline(target)
        module = pipeline(module)
        on_host, on_devices = split(module)
        collector.take("on the host", for_host()(on_host))
        for device in on_devices:
            collector.take("on the device", for_device()(device))


def split(module):
    """Splits a module into the host part and the device parts."""
    from tvm.tirx.build import split_host_device_mods

    on_host, devices = split_host_device_mods(module)
    return on_host, list(devices.values())


def made_as(kind, name, chooser, target):
    """Returns the module of a job before any pass."""
    import fresh_models

    if kind == "onnx":
        return fresh_models.onnx_module(name)
    if kind == "written":
        from fuzz import FEATURES, Generator

        features = {feature for feature in FEATURES if chooser.random() < 0.5}
        return read(Generator(chooser.random(), features).module())
    return fresh_models.NETWORKS[name](chooser, target)


def make_one(job):
    """Returns `(stages, failure)` of one network or node model; TVM cannot lower all of them."""
    import tvm
    from tvm import relax

    kind, name, seed, target, chance = job
    chooser = random.Random(f"{kind} {name} {seed}")
    collector = Collector(chooser, chance)
    try:
        target = tvm.target.Target(target)
        module = made_as(kind, name, chooser, target)
        collector.take("made", module)
    except Exception as error:
        return [], first_line(error)
    for extra in chooser.sample(EXTRA, 2):
        try:
            changed = getattr(relax.transform, extra)()(module)
            collector.take(extra, changed)
            if chooser.random() < 0.3:
                module = changed
        except Exception:
            # Some passes do not accept every module.
            continue
    try:
        lower(module, target, collector)
    except Exception as error:
        return collector.stages, first_line(error)
    return collector.stages, None


def jobs_of(args):
    import fresh_models

    chooser = random.Random(args.seed)
    names = list(fresh_models.NETWORKS)
    jobs = [("network", names[i % len(names)], args.seed + i, TARGETS[i // len(names) % len(TARGETS)], args.chance) for i in range(args.networks)]
    models = fresh_models.onnx_names()
    for i, name in enumerate(chooser.sample(models, min(args.onnx, len(models)))):
        jobs.append(("onnx", name, args.seed, chooser.choice(TARGETS), args.chance))
    jobs += [("written", "module", args.seed + i, "llvm", args.chance) for i in range(args.written)]
    return jobs


def lines_of(path):
    """Returns the complete lines of a file that may be truncated."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]]


def make(args):
    args.folder.mkdir(parents=True, exist_ok=True)
    modules, log = args.folder / "modules.jsonl", args.folder / "made.jsonl"
    # A job counts as done when its modules are written.
    finished = {tuple(line["job"]) for line in lines_of(log)}
    known = {line["id"] for line in lines_of(modules)}
    jobs = [job for job in jobs_of(args) if job not in finished]
    failures = collections.Counter()
    with modules.open("a") as out, log.open("a") as done:
        for n, (at, result) in enumerate(workers.run(make_one, jobs, args.jobs, args.seconds)):
            stages, failure = ([], result) if isinstance(result, str) else result
            for stage, text in stages:
                if digest(text) not in known and len(text) <= args.longest:
                    known.add(digest(text))
                    kind, name, seed, target, _ = jobs[at]
                    out.write(json.dumps({"id": digest(text), "from": f"{kind} {name} {seed} {target}", "stage": stage, "text": text}) + "\n")
            out.flush()
            done.write(json.dumps({"job": jobs[at], "stages": len(stages), "failure": failure}) + "\n")
            done.flush()
            failures[failure] += 1
            print(f"\r{n + 1} of {len(jobs)} jobs, {len(known)} modules", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    for failure, count in failures.most_common():
        print(f"{count:6} {failure or 'lowered to the end'}")
    print(f"{len(known)} modules in {modules}")
    return bool(known)


def compared_passes():
    """Returns the passes that TVM has as well, from the reference of the standard plugins."""
    known = re.findall(r"^## ((?:relax|s_tir|tirx)\.[A-Z]\w+)$", REFERENCE.read_text(), re.MULTILINE)
    return [name for name in known if name not in NOT_COMPARED]


def passes_for(text, passes):
    """Returns the passes that concern a module: Relax passes for Relax functions, the others for PrimFuncs."""
    languages = {"relax": "@R.function" in text, "s_tir": "@T.prim_func" in text, "tirx": "@T.prim_func" in text}
    return [name for name in passes if languages[name.split(".")[0]]]


def tvm_pass(name):
    """Returns the function that creates TVM's pass."""
    import tvm
    from tvm import relax, tirx

    package, _, short = name.rpartition(".")
    of = {"relax": relax.transform, "tirx": tirx.transform, "s_tir": tvm.s_tir.transform}[package]
    return getattr(of, short)


def after_pass(name, theirs, ours, printed, reader):
    """Compares the result of passhost's pass with TVM's; returns a kind as in `fuzz.py`, and the reason. `printed` is
    passhost's text of the module before the pass, if TVM reads it as the same module."""
    from fuzz import equal, judge

    make_pass = tvm_pass(name)
    try:
        want = make_pass()(theirs)
    except Exception as error:
        return ("equal", "") if ours.get("text") is None else ("TVM raises", first_line(error))
    if ours.get("text") is None:
        return "failed", ours.get("error", "")
    # TVM parses slowly, so results that are equal without parsing come first.
    if ours["text"] == printed and equal(want, theirs) or ours["text"].strip() == want.script(show_meta=True).strip():
        return "equal", ""
    try:
        got = reader(ours["text"])
    except Exception as error:
        return "TVM does not read", first_line(error)
    outcome = judge(name, make_pass, got, want)
    # A module with free variables does not even equal itself when parsed twice.
    same_text = outcome[0] == "differs" and got.script(show_meta=True) == want.script(show_meta=True)
    return ("equal", "") if same_text else outcome


def compare_one(case):
    """Returns the outcomes of a case: for printing, and for each of its passes."""
    outcomes = {"print": compare((case["text"], (case["printed"].get("text"), case["printed"].get("error"))))}
    if outcomes["print"][0] == "unreadable" or not case["passes"]:
        return outcomes
    known = {}

    def reader(text):
        if text not in known:
            known[text] = read(text)
        return known[text]

    printed = case["printed"].get("text") if outcomes["print"][0] == "equal" else None
    for name, ours in case["passes"].items():
        # If TVM crashes, `compared` finds the outcomes up to this pass here.
        pathlib.Path(case["progress"]).write_text(json.dumps([outcomes, name]))
        outcomes[name] = after_pass(name, reader(case["text"]), ours, printed, reader)
    return outcomes


def passed_by_passhost(binary, cases, passes):
    """Returns passhost's output after each pass, for each case that the pass concerns."""
    results = {case["id"]: {} for case in cases}
    with tempfile.TemporaryDirectory() as folder:
        given, out = pathlib.Path(folder) / "given.jsonl", pathlib.Path(folder) / "passed.jsonl"
        for n, name in enumerate(passes):
            print(f"\rpasshost: {n} of {len(passes)} passes", end="", file=sys.stderr, flush=True)
            relevant = [case for case in cases if passes_for(case["text"], [name])]
            given.write_text("".join(json.dumps({"id": case["id"], "text": case["text"]}) + "\n" for case in relevant))
            command = [binary, "modules", given, "--texts", out, "--after", name]
            subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
            for line in map(json.loads, out.read_text().splitlines()):
                results[line["id"]][name] = line
    print(file=sys.stderr)
    return results


def from_passhost(args, cases, passes):
    """Returns passhost's output for each case, and after each pass. A file keeps them while the program is the same."""
    kept = args.folder / "passhost.json"
    key = [digest(args.binary.read_bytes().hex()), passes, [case["id"] for case in cases]]
    known = json.loads(kept.read_text()) if kept.exists() else {}
    if known.get("key") != key:
        printed, passed = printed_by_passhost(args.binary, cases), passed_by_passhost(args.binary, cases, passes)
        known = {"key": key, "printed": printed, "passed": passed}
        kept.write_text(json.dumps(known))
    return known["printed"], known["passed"]


def compare_all(args):
    cases = [case for case in lines_of(args.folder / "modules.jsonl") if len(case["text"]) <= args.longest]
    # Jobs run in random order, so that an interrupted run is a representative sample.
    random.Random(args.seed).shuffle(cases)
    cases = cases[: args.first]
    cases = [case for case in cases if not args.only or args.only in (case["id"], case["from"].split()[1])]
    passes = [name for name in compared_passes() if not args.passes or name in args.passes.split(",")]
    printed, passed = from_passhost(args, cases, passes)
    kept = args.folder / "outcomes.jsonl"
    known = {line["key"]: line["outcomes"] for line in lines_of(kept)}
    outcomes, todo = {}, []
    for case in cases:
        text, error = printed[case["id"]]
        case |= {"printed": {"text": text, "error": error}, "passes": passed[case["id"]]}
        case["key"] = digest(json.dumps([case["id"], case["printed"], case["passes"]], sort_keys=True))
        if case["key"] in known:
            outcomes[case["id"]] = known[case["key"]]
        else:
            todo.append(case)
    with kept.open("a") as out:
        for n, (case, result) in enumerate(compared(todo, args)):
            outcomes[case["id"]] = result
            out.write(json.dumps({"key": case["key"], "id": case["id"], "outcomes": result}) + "\n")
            out.flush()
            print(f"\r{n + 1} of {len(todo)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return report(cases, outcomes, passes)


def compared(cases, args):
    """Yields each case and its outcomes. After a pass in which TVM crashes or takes too long, the case goes on with the
    next pass."""
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            case["progress"] = str(pathlib.Path(folder) / case["id"])
        before = {}
        while cases:
            again = []
            for at, result in workers.run(compare_one, cases, args.jobs, args.seconds):
                case, progress = cases[at], pathlib.Path(cases[at]["progress"])
                if not isinstance(result, str):
                    yield case, before.get(case["id"], {}) | result
                elif not progress.exists():
                    yield case, {"print": ("unreadable", f"TVM {result}")}
                else:
                    outcomes, last = json.loads(progress.read_text())
                    progress.unlink()
                    before[case["id"]] = before.get(case["id"], {}) | outcomes | {last: ("TVM crashes", result)}
                    names = list(case["passes"])
                    left = names[names.index(last) + 1 :]
                    again.append(case | {"passes": {name: case["passes"][name] for name in left}})
            cases = again


# Outcomes that count as equal; README.md explains each.
SAME = ["equal", "equal once read", "equal to TVM twice"]
# Outcomes that are not about passhost.
LEFT_OUT = ["unreadable", "ill-formed in TVM", "TVM crashes"]


def report(cases, outcomes, passes):
    """Prints the differences, then a line for each comparison, the last one for printing; returns true if all are
    equal."""
    fine = True
    for what in [*passes, "print"]:
        kinds = collections.Counter()
        for case in cases:
            kind, why = outcomes[case["id"]].get(what, (None, ""))
            kinds[kind] += kind is not None
            if kind not in [None, *SAME, "unreadable", "TVM crashes"]:
                print(f"{what}: {case['id']} ({case['from']}, {case['stage']}): {kind}: {' '.join(why.split())[:300]}")
        tried = sum(n for kind, n in kinds.items() if kind not in LEFT_OUT)
        equal = sum(kinds[kind] for kind in SAME)
        fine = fine and equal == tried
        shown = ", ".join(f"{kind} {n}" for kind, n in sorted(kinds.items(), key=str) if n)
        print(f"{what}: {equal} of {tried} ({100 * equal / max(tried, 1):.2f} %): {shown}")
    return fine


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["make", "compare"])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--jobs", default=2, type=int, help="processes")
    parser.add_argument("--seconds", default=600, type=int, help="time limit for one job or module")
    parser.add_argument("--seed", default=0, type=int)
    parser.add_argument("--networks", default=80, type=int, help="number of networks, alternating kinds and targets")
    parser.add_argument("--onnx", default=250, type=int, help="node models")
    parser.add_argument("--written", default=250, type=int, help="modules of `fuzz.py`'s generator")
    parser.add_argument("--chance", default=0.12, type=float, help="probability of recording the text after a pass that lowers TIR")
    parser.add_argument("--longest", default=200_000, type=int, help="skip texts with more characters")
    parser.add_argument("--binary", default=BINARY, type=pathlib.Path)
    parser.add_argument("--passes", help="compare only these passes: names, separated by commas")
    parser.add_argument("--first", type=int, help="compare at most this many modules")
    parser.add_argument("--only", help="compare only the module with this id, network or node model")
    args = parser.parse_args()
    sys.exit(0 if {"make": make, "compare": compare_all}[args.what](args) else 1)


if __name__ == "__main__":
    main()
