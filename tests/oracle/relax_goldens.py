"""Compares the goldens of plugins/relax-passes with TVM: the result or the error of a pass on each module.

    ../oracle-venv/bin/python tests/oracle/relax_goldens.py [FILES] [--quiet]

By default, FILES are the goldens of the passes in PASSES. A golden must equal TVM's result, or have a reason in
REASONS; the exit code is 1 if a golden differs without a reason.
"""

import json
import re

import numpy as np
import tvm
import tvm_ffi
from tvm import relax

from goldens import ROOT, judge, parser

EQUAL = "equal"

# Why TVM's result differs from a golden: file, title of the case, reason.
SKIPPED = "TVM changes calls in functions with SkipOptimization; passhost leaves their callees unchanged, too"
REASONS = {
    "bind_params": {
        "a fraction where integers are": "TVM takes arrays of the type; the option is a text",
        "a number that is too large": "TVM takes arrays of the type; the option is a text",
        "twice, with one shape": "a dictionary has each name once; the option is a list",
        "a dimension that is said twice": "TVM binds the first extent to both dimensions, and returns an ill-typed module",
    },
    "bind_symbolic_vars": {
        "twice": "a dictionary has each name once; the option is a list",
        "an extent is not negative": "TVM makes tensors with -3 elements",
        "what is concatenated": "TVM infers the sum of the extents again, with the terms in a different order",
    },
    "canonicalize_bindings": {
        "a dimension that a match_cast tells takes the place of its variable": "TVM keeps the types of the results of branches",
        "a variable of a parameter, or of what is not a dimension, stays": "TVM fixes an extent of a parameter, which affects callers",
        "a caller follows the result of a function": "TVM keeps the types of callers",
        "an element of a known tuple that is a constant": "TVM keeps an unused tuple",
        "an annotation that a match_cast makes equal": "TVM writes n * 2 where passhost keeps the original expression",
        "variables that attributes, scalars and types of functions mention stay": "TVM ends its process in the pass",
        "a scalar of a nested function": "TVM replaces a scalar parameter with a value that only one call passes",
    },
    "dead_code_elimination": {
        "effects inside of expressions keep them": "TVM unnests calls before the pass, when it parses the text",
        "a match_cast stays whose annotation names other variables": "TVM ends its process in the pass",
    },
    "eliminate_common_subexpr": {
        "nested elements of a tuple, and casts, are equal only if index and type are": "TVM keeps the variables of merged values",
    },
    "expand_tuple_arguments": {
        "a caller that stays as it is": SKIPPED,
        "a shape in a tuple": "TVM expands a literal tuple with a shape, but not a literal tuple with a tensor",
    },
    "remove_unused_outputs": {"a caller that stays as it is": SKIPPED},
    "remove_unused_parameters": {
        "a caller that stays as it is": SKIPPED,
        "a closure keeps its parameters": "TVM ends its process in the pass",
        "chains of calls and three symbolic variables": "the order of new parameters in TVM differs from run to run",
        "a caller that does not know a dimension": "TVM finds no value for the new parameter",
        "a scalar that a shape mentions, a variable that a match_cast defines, and a shape of expressions": (
            "TVM ends its process in the pass"
        ),
    },
    "topological_sort": {
        "a variable of a match_cast is defined before it is used, if no parameter defines it": (
            "TVM puts uses of the symbolic variable before its definition"
        ),
    },
}


def listed(options, key):
    """Returns the pairs of an option that is a list of `name=value`."""
    return dict(text.split("=", 1) for text in options.get(key, []))


def bind_params(options, module):
    function = module[options.get("func_name", "main")]
    types = {param.name: param.ty.dtype for param in function.params}
    arrays = {
        name: tvm.runtime.tensor(np.array(json.loads(text), str(types[name])))
        for name, text in listed(options, "params").items()
    }
    return relax.transform.BindParams(options.get("func_name", "main"), arrays)


def bind_symbolic_vars(options, _):
    values = {name: int(text) for name, text in listed(options, "binding_map").items()}
    return relax.transform.BindSymbolicVars(values, options.get("func_name"))


def topological_sort(options, _):
    return relax.transform.TopologicalSort(
        order=options.get("order", "depth-first"), direction=options.get("direction", "from-inputs")
    )


# Creates the TVM pass for a golden, by the name of the file.
PASSES = {
    "bind_params": bind_params,
    "bind_symbolic_vars": bind_symbolic_vars,
    "canonicalize_bindings": lambda _, __: relax.transform.CanonicalizeBindings(),
    "dead_code_elimination": lambda options, _: relax.transform.DeadCodeElimination(options.get("entry_functions")),
    "eliminate_common_subexpr": lambda _, __: relax.transform.EliminateCommonSubexpr(),
    "expand_tuple_arguments": lambda _, __: relax.transform.ExpandTupleArguments(),
    "remove_unused_outputs": lambda _, __: relax.transform.RemoveUnusedOutputs(),
    "remove_unused_parameters": lambda _, __: relax.transform.RemoveUnusedParameters(),
    "topological_sort": topological_sort,
}


def options_of(text):
    """Returns the options of the pass in a golden. Words in lists may be unquoted."""
    inside = re.search(r"\{(.*)\}$", text)
    options = {}
    for key, value in re.findall(r'(\w+)=("[^"]*"|\[.*?\](?=, \w+=|$))', inside[1] if inside else ""):
        is_text = '"' in value
        options[key] = json.loads(value) if is_text else [word.strip() for word in value[1:-1].split(",")]
    return options


def compared(case):
    """Returns the kind of a case's result, and details."""
    stem, settings, sections = case
    options = options_of(dict(settings)["passes"])
    before = tvm.script.from_source(sections["before"], check_well_formed=False)
    try:
        after = PASSES[stem](options, before)(before)
    except Exception as error:  # pylint: disable=broad-except
        return (EQUAL, "") if "error" in sections else ("TVM refuses it", str(error).strip().splitlines()[-1])
    if "error" in sections:
        return "TVM does not refuse it", after.script()
    ours = tvm.script.from_source(sections["after"], check_well_formed=False) if "after" in sections else before
    same = tvm_ffi.structural_equal(after, ours, map_free_vars=True)
    # Some types in TVM's result are less precise than the types that it infers when it parses the same text.
    same = same or tvm_ffi.structural_equal(
        tvm.script.from_source(after.script(show_meta=True), check_well_formed=False), ours, map_free_vars=True
    )
    return (EQUAL, "") if same else ("another module", after.script())


def judged(stem, title, kind):
    """Returns the count to which a case belongs, and an error if the case is unexplained. Some of TVM's results differ
    from run to run."""
    if kind == EQUAL:
        return "equal", None
    return ("stated", None) if title in REASONS.get(stem, {}) else ("unexplained", kind)


def main():
    arguments = parser(__doc__).parse_args()
    folder = ROOT / "plugins/relax-passes/tests/goldens"
    files = arguments.files or [folder / f"{stem}.txt" for stem in PASSES]
    judge(files, compared, judged, REASONS, arguments.quiet, seconds=60)


if __name__ == "__main__":
    main()
