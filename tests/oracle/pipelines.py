"""Runs the pipelines `compile` and then `lower-tir` on whole models, with passhost and with TVM's passes of the same
names, and compares them.

The report after each pipeline states whether passhost's result is well-formed for TVM and structurally equal to TVM's
result, the numbers of PrimFuncs and fused functions on each side, and the time of each pass on both sides: the shortest
of three runs (for passhost, from its summary). The exit code is 1 if a result is ill-formed or the numbers of functions
differ.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import time
import tomllib

import tvm
from tvm import relax

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = {"relax": relax.transform, "s_tir": tvm.s_tir.transform, "tirx": tvm.tirx.transform}


LAPS = 3


def passhost(binary, text, pipeline):
    """Returns the result of the pipeline, and the milliseconds of each pass, without and with verification."""
    laps = [passhost_once(binary, text, pipeline) for _ in range(LAPS)]
    return laps[0][0], [tuple(map(min, zip(*step))) for step in zip(*(times for _, times in laps))]


def passhost_once(binary, text, pipeline):
    command = [str(binary), "run", "-", "--pipeline", pipeline, "--jobs", "1", "--message-format", "json"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed with {done.returncode}:\n{done.stderr}")
    summary = next(json.loads(line)["summary"] for line in done.stderr.splitlines() if line.startswith('{"summary"'))
    return done.stdout, [(step["time_ms"], step["time_ms"] + step["verify_ms"]) for step in summary]


def shortest(work):
    laps = []
    for _ in range(LAPS):
        start = time.perf_counter()
        result = work()
        laps.append((time.perf_counter() - start) * 1e3)
    return result, min(laps)


def tvm_passes(module, names):
    times = []
    for name in names:
        package, short = name.split(".")
        one = getattr(PACKAGES[package], short)()
        module, lap = shortest(lambda: one(module))
        times.append(lap)
    return module, times


def functions(module):
    prims = [name.name_hint for name, func in module.functions.items() if isinstance(func, tvm.tirx.PrimFunc)]
    return len(prims), sum(name.startswith("fused_") for name in prims)


def report(names, theirs, ours):
    width = max(len(name) for name in names)
    rows = [(name, lap, *own) for name, lap, own in zip(names, theirs, ours)]
    rows.append(("all", *(sum(row[i] for row in rows) for i in (1, 2, 3))))
    for name, lap, own, verified in rows:
        print(
            f"  {name:<{width}}  TVM {lap:9.2f} ms  passhost {own:8.3f} ms  {lap / max(own, 1e-6):7.1f}x"
            f"  {lap / max(verified, 1e-6):7.1f}x with verification"
        )


def compare(binary, path, pipelines):
    text, good = path.read_text(), True
    wanted = tvm.script.from_source(text)
    for pipeline, names in pipelines.items():
        text, ours = passhost(binary, text, pipeline)
        module = tvm.script.from_source(text)
        wanted, theirs = tvm_passes(wanted, names)
        well_formed = relax.analysis.check_well_formed(module)
        try:
            tvm.ir.assert_structural_equal(module, wanted)
            equal = "equal"
        except ValueError:
            equal = "not equal"
        counts, wanted_counts = functions(module), functions(wanted)
        print(
            f"{path.stem}, {pipeline}: {'well-formed' if well_formed else 'ILL-FORMED'}, {counts[0]} PrimFuncs,"
            f" {counts[1]} fused (TVM {wanted_counts[0]}, {wanted_counts[1]}), {equal}",
            flush=True,
        )
        report(names, theirs, ours)
        good = good and well_formed and counts == wanted_counts
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", default=ROOT / "tests/models", type=pathlib.Path)
    parser.add_argument("--binary", default=ROOT / "target/release/passhost", type=pathlib.Path)
    args = parser.parse_args()
    written = tomllib.loads((ROOT / "passes.toml").read_text())["pipelines"]
    pipelines = {name: [item.strip() for item in written[name].split(",")] for name in ("compile", "lower-tir")}
    models = [path for path in sorted(args.folder.glob("*.py")) if "T.prim_func" not in path.read_text()]
    results = [compare(args.binary, path, pipelines) for path in models]
    print(f"total: {sum(results)} of {len(results)}")
    return 0 if models and all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
