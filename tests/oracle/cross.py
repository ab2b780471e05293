"""Runs TVM's passes over modules that were recorded for other purposes, and writes the runs in the format of recorded
pass runs.

    ../oracle-venv/bin/python tests/oracle/cross.py FILE.jsonl… [--count N] [--seed N] [--passes NAME…] [--lowering] > NEW.jsonl
    cargo run --release -p passhost-tests --bin conformance -- passes NEW.jsonl

Each file contains one JSON object per line with `text`, or with `before`. TIR passes also run on the results of the
preceding passes in a pipeline. Of the runs that change nothing, one in seven is written; runs in which TVM raises an
error are skipped. With `--lowering`, modules of any size go through the lowering passes in sequence, and every run is
written. `llm_kernels.py` writes kernels of language models for that.
"""

import argparse
import json
import pathlib
import random
import sys

import workers

RELAX = """Normalize CanonicalizeBindings EliminateCommonSubexpr DeadCodeElimination ToNonDataflow ConvertToDataflow LegalizeOps
    AnnotateTIROpPattern FuseOps FuseTIR MergeCompositeFunctions CallTIRRewrite RewriteDataflowReshape ComputePrimValue
    RemovePurityChecking AttachGlobalSymbol LambdaLift InlinePrivateFunctions RemoveUnusedParameters RemoveUnusedOutputs
    ExpandTupleArguments TopologicalSort NormalizeGlobalVar RemoveRedundantReshape ExpandMatmulOfSum CombineParallelMatmul
    ReorderTakeAfterMatmul ReorderPermuteDimsAfterConcat SpecializePrimFuncBasedOnCallSite DecomposeOps FoldConstant""".split()
LOWER = """s_tir.LowerInitBlock s_tir.PlanAndUpdateBufferAllocationLocation s_tir.ConvertBlocksToOpaque s_tir.CompactBufferAllocation
    s_tir.LowerMatchBuffer s_tir.LowerOpaqueBlock""".split()
LOWERED = """s_tir.HoistIfThenElse s_tir.LoopPartition s_tir.StmtSimplify tirx.CommonSubexprElim tirx.FlattenBuffer
    tirx.NarrowDataType tirx.RemoveNoOp tirx.StmtSimplify tirx.StorageRewrite tirx.UnrollLoop tirx.VectorizeLoop
    tirx.ConvertSSA""".split()
# Each pass runs on the result of the previous passes.
LOWERING = [*LOWER[:5], "s_tir.StmtSimplify", LOWER[5], *"""tirx.FlattenBuffer s_tir.LoopPartition tirx.VectorizeLoop tirx.NarrowDataType
    tirx.StorageRewrite s_tir.HoistIfThenElse tirx.UnrollLoop tirx.StmtSimplify tirx.RemoveNoOp tirx.CommonSubexprElim
    tirx.ConvertSSA""".split()]  # fmt: skip
# Passes whose names differ from the names of their factories, and arguments without a default.
FACTORIES = {"DecomposeOps": "DecomposeOpsForInference"}
KEYWORDS = {"TopologicalSort": {"order": "depth-first", "direction": "from-inputs"}}
ARGUMENTS = {"tirx.NarrowDataType": [32]}
MOST_CHARACTERS = 15_000


def after(name, module):
    import tvm

    packages = {"s_tir": tvm.s_tir.transform, "tirx": tvm.tirx.transform}
    package, _, short = name.rpartition(".")
    factory = getattr(packages.get(package, tvm.relax.transform), FACTORIES.get(short, short))
    with tvm.transform.PassContext(opt_level=2):
        return factory(*ARGUMENTS.get(name, []), **KEYWORDS.get(name, {}))(module)


def starts(name, module):
    """Yields the module, and the result of the preceding passes in a pipeline."""
    yield module
    before = LOWER[: LOWER.index(name)] if name in LOWER else LOWER if name in LOWERED else []
    try:
        for one in before:
            module = after(one, module)
    except Exception:  # pylint: disable=broad-except
        return
    if before:
        yield module


def lowered(case):
    """Returns the runs of the lowering passes in order; passes in which TVM fails are skipped."""
    import tvm

    out, module = [], tvm.script.from_source(case[0])
    for name in LOWERING:
        try:
            result = after(name, module)
        except Exception:  # pylint: disable=broad-except
            continue
        out.append((name, module.script(show_meta=True), result.script(show_meta=True)))
        module = result
    return out


def runs(case):
    """Returns the name, the text before and the text after each run on a module; nothing if TVM does not parse it."""
    import tvm

    text, wanted = case
    try:
        module = tvm.script.from_source(text)
    except Exception:  # pylint: disable=broad-except
        return []
    is_relax = any(isinstance(function, tvm.relax.Function) for function in module.functions.values())
    out = []
    for name in [name for name in (RELAX if is_relax else LOWER + LOWERED) if not wanted or name in wanted]:
        for start in starts(name, module):
            try:
                out.append((name, start.script(show_meta=True), after(name, start).script(show_meta=True)))
            except Exception:  # pylint: disable=broad-except
                continue
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--count", default=500, type=int)
    parser.add_argument("--seed", default=1, type=int)
    parser.add_argument("--passes", nargs="*", default=[])
    parser.add_argument("--lowering", action="store_true", help="run all lowering passes, on modules of any size")
    parser.add_argument("--jobs", default=1, type=int)
    args = parser.parse_args()
    choose, texts = random.Random(args.seed), set()
    for line in (line for file in args.files for line in pathlib.Path(file).read_text().splitlines()):
        record = json.loads(line)
        texts.update(text for text in (record.get("text"), record.get("before")) if text and (args.lowering or len(text) < MOST_CHARACTERS))
    texts = sorted(texts)
    texts = choose.sample(texts, min(args.count, len(texts)))
    context = {"opt_level": 2, "required_pass": [], "disabled_pass": [], "config": {}, "config_exact": True, "target": None}
    ended = 0
    for at, found in workers.run(lowered if args.lowering else runs, [(text, args.passes) for text in texts], args.jobs, seconds=60):
        ended += isinstance(found, str)
        for n, (name, before, result) in enumerate([] if isinstance(found, str) else found):
            if args.lowering or before != result or choose.random() < 1 / 7:
                case = {"id": f"{name}-{at}-{n}", "pass": name, "args": ARGUMENTS.get(name, []), "kwargs": KEYWORDS.get(name, {})}
                print(json.dumps({**case, "ctx": context, "before": before, "after": result, "raised": None}), flush=True)
    print(f"{ended} of {len(texts)} modules ended TVM's process", file=sys.stderr)


if __name__ == "__main__":
    main()
