"""Compares the goldens of plugins/tir-passes with TVM: the result or the error of a pass on each module.

Each golden must equal TVM's result, or have a reason in REASONS with a kind that is checked. A golden that differs
in a different way, or no longer differs, is unexplained, and the exit code is 1. With --complete, a case with only a
`before` section gets TVM's result. Run with a memory limit, because TVM does not finish on some modules.
"""

import re

import tvm
import tvm_ffi
from tvm import tirx
from tvm.script import tirx as T
from tvm.script.parser._core import dispatch, doc

import tir_values
import workers
from goldens import HEAD, ROOT, judge, parser

EQUAL = "equal"
# TVM's output parses to our golden; only its objects differ, for example in the data type of a loop, which the text
# does not contain.
EQUAL_ONCE_READ = "equal once read"
# On random inputs, TVM's result computes different values from the original module, and ours computes the same values.
OTHER_VALUES = "computes something else"
REFUSES = "TVM refuses it"
CRASHES = workers.CRASHED
MORE_LOOPS = "has more loops"
OTHER = "is another module"

# Why TVM's result differs from a golden: file, title of the case, kind, reason.
REASONS = {
    "common_subexpr_elim": {
        "divisions that conditions guard": (OTHER_VALUES, "TVM divides before it checks that the divisor is not 0"),
        "a part of divisions that conditions guard": (OTHER_VALUES, "TVM divides before it checks that the divisor is not 0"),
        "divisions in parts of conditions, and divisions after them": (
            OTHER_VALUES, "TVM divides before it checks that the divisor is not 0",
        ),
        "divisions in choices": (OTHER_VALUES, "TVM divides before it checks that the divisor is not 0"),
        "the heads of blocks stay, and each block has its own names": (OTHER, "TVM uses a name from the initialization outside of it"),
        "divisions in shapes that conditions guard": (OTHER_VALUES, "TVM divides before it checks that the divisor is not 0"),
    },
    "convert_ssa": {
        "a second value in the initialization of a block": (OTHER_VALUES, "TVM uses the value from the initialization outside of it"),
    },
    "flatten_buffer": {
        "a vector that is loaded, in a row": (OTHER, "TVM omits the 0 that it adds to other vectors"),
    },
    "compact_buffer_allocation": {
        "a vector that begins where a load says": (OTHER, "passhost cannot prove that two loads are equal, and keeps the buffer"),
        "an index from a buffer that the function allocates": (OTHER_VALUES, "TVM reads an undefined buffer"),
        "indices that are read through names, and steps of vectors": (OTHER_VALUES, "TVM reads an undefined buffer"),
        "an extent that is not known is that of the buffer": (REFUSES, "TVM computes a number of elements that exceeds int32"),
        "an index from a float": (OTHER, "TVM proves that the index is 0; passhost does not analyze floats"),
    },
    "hoist_if_then_else": {
        "a condition that divides": (OTHER_VALUES, "TVM divides by the extent of a loop with no iterations"),
        "an iterator of a block": (OTHER_VALUES, "TVM uses the iterator outside of its block"),
        "what happens where the condition does not hold stays": (OTHER_VALUES, "TVM drops the statements for which the condition does not hold"),
        "more branches than a loop is written for": (MORE_LOOPS, "TVM duplicates the loop for each condition, without a limit"),
    },
    "loop_partition": {
        "a loop with a break": (OTHER_VALUES, "TVM executes the parts that come after the break"),
        "loops of symbolic lengths stay whole": (OTHER_VALUES, "TVM splits loops, and accesses elements out of bounds if n < 0"),
        "conditions after a single iteration": (MORE_LOOPS, "TVM splits the inner loop at the value of the outer loop's variable"),
    },
    "lower_match_buffer": {
        "variables of what is matched": (OTHER, "TVM uses a symbolic variable whose definition it removed"),
    },
    "lower_opaque_block": {
        "threads that do not begin at 0": (OTHER_VALUES, "TVM makes them begin at 0"),
        "an initialization, which TVM would leave out": (OTHER_VALUES, "TVM drops the initialization"),
        "a jump in a loop that threads execute": (OTHER, "TVM leaves a jump without a loop"),
        "a pragma of a loop over threads": (CRASHES, "TVM prints the same variable for the pragma and the thread"),
        "a block that matches a region": (OTHER, "TVM leaves a buffer without data"),
    },
    "narrow_data_type": {
        "start and extent of a region are of one type": (CRASHES, "TVM ends its process in the pass"),
        "regions of blocks": (CRASHES, "TVM ends its process in the pass"),
        "a matched buffer with a stride of its own": (CRASHES, "TVM ends its process in the pass"),
        "a view of a buffer that has a layout": (OTHER, "TVM prints the layout of the viewed buffer"),
        "a choice between a narrow and a wide index": (OTHER, "TVM does not infer bounds for T.if_then_else"),
    },
    "stmt_simplify": {
        "calls with effects are made as often as before": (OTHER_VALUES, "TVM merges and drops calls"),
        "a choice between values, one of which calls something with an effect": (OTHER_VALUES, "TVM drops the call"),
        "an element that a call with an effect decides is stored": (OTHER_VALUES, "TVM drops the calls"),
        "numbers that do not fit into 64 bits together stay as they are": (REFUSES, "TVM adds two factors beyond 64 bits"),
        "what is never false does not stand for `true`": (OTHER, "TVM simplifies a choice between equal values"),
        "products that certainly overflow": (OTHER_VALUES, "TVM multiplies beyond 64 bits"),
    },
    "storage_rewrite": {
        "in place, but each element again": (OTHER_VALUES, "TVM overwrites an element that a later iteration reads"),
        "in place, but loops that meet": (OTHER_VALUES, "TVM overwrites an element that a later iteration reads"),
        "in place, but read after it was written": (OTHER_VALUES, "TVM overwrites an element that a later statement reads"),
        "in place, but what is written is read in the next iteration": (OTHER_VALUES, "TVM overwrites an element that a later iteration reads"),
        "in place, but as long as a condition holds": (OTHER_VALUES, "TVM overwrites an element that a later iteration reads"),
        "in place, but a loop repeats each store as long as a condition holds": (
            OTHER_VALUES, "TVM overwrites an element that a later iteration reads",
        ),
        "in place, but each branch has its own step": (OTHER_VALUES, "TVM overwrites an element that a later iteration reads"),
        "in place, but a quotient reaches an element again": (OTHER_VALUES, "TVM overwrites an element that a later iteration reads"),
        "in place, but a name reaches an element again": (OTHER_VALUES, "TVM overwrites an element that a later iteration reads"),
        "in place, but a choice reaches an element again": (OTHER_VALUES, "TVM overwrites an element that a later iteration reads"),
        "in place, but each thread stores to each element": (OTHER_VALUES, "TVM overwrites an element that another thread reads"),
        "in place, but read after two branches wrote it": (OTHER_VALUES, "TVM overwrites an element that a later statement reads"),
        "in place, but the other one is stored to": (OTHER_VALUES, "TVM stores both values to the same element"),
        "not in place in storage of another data type": (CRASHES, "TVM ends its process when it parses its own output"),
        "a shape that a loop decides": (OTHER_VALUES, "TVM uses the loop variable before the loop"),
        "a shape that a name or a thread decides": (OTHER_VALUES, "TVM uses the name before its definition"),
    },
    "unroll_loop": {
        "a marked loop with a break": (OTHER_VALUES, "TVM makes the jump leave the enclosing loop"),
        "a marked loop with a call that leaves it": (OTHER_VALUES, "TVM makes the jump leave the enclosing loop"),
        "a short serial loop with a continue stays, the one in it does not": (OTHER_VALUES, "TVM leaves a jump without a loop"),
        "a loop of one iteration with a break": (OTHER_VALUES, "TVM makes the jump leave the enclosing loop"),
        "a short loop around one with a break": (OTHER, "TVM leaves jumps without a loop"),
        "a variable of a matched buffer in a shape and in an index": (OTHER, "TVM multiplies a stride by 1; passhost keeps the stride"),
    },
    "vectorize_loop": {
        "a break": (OTHER_VALUES, "TVM makes the jump leave a different loop"),
        "a break that not each lane has": (OTHER_VALUES, "TVM makes the jump leave a different loop"),
        "a buffer of which each lane needs one": (OTHER_VALUES, "TVM stores the values of all lanes to one element"),
        "a buffer in which lanes meet": (OTHER_VALUES, "TVM loads before all lanes have stored"),
        "a buffer that some lanes store to": (OTHER_VALUES, "TVM stores the values of all lanes to one element"),
        "a name that is used lane after lane": (OTHER_VALUES, "TVM uses an undefined name"),
        "a predicate with something that has no mask": (OTHER_VALUES, "TVM calls the function unconditionally"),
        "a name decides what each lane does": (OTHER_VALUES, "TVM uses an undefined name"),
        "a pointer to a buffer of which each lane needs one": (OTHER, "TVM calls the function once"),
        "functions of integers as fractions": (CRASHES, "TVM ends its process when it parses these functions of vectors"),
        "a vectorized loop in what each lane does for itself": (MORE_LOOPS, "TVM leaves the inner loop unchanged"),
        "a vector in each lane": (REFUSES, "TVM multiplies vectors of different lengths"),
    },
}


def value(text):
    """Parses the value of an option or setting."""
    return {"true": True, "false": False}.get(text, int(text) if re.fullmatch(r"-?\d+", text) else text)


def made(name):
    """Creates the TVM pass for a name and its options."""
    name, _, options = name.partition("{")
    folder, name = name.split(".")
    of = getattr(tvm, folder).transform
    options = dict(option.split("=") for option in options.rstrip("}").split(",") if option)
    if name == "NarrowDataType":
        # TVM lacks a default for this setting.
        options.setdefault("target_bits", "32")
    return getattr(of, name)(**{key: value(text) for key, text in options.items()})


def config(settings):
    """Converts settings to TVM's form, in which the settings of a pass are one object."""
    out = {}
    for key, text in (line.split("=") for name, line in settings if name == "config"):
        *of, last = key.rsplit(".", 1)
        if key in tvm.ir.transform.PassContext.list_configs():
            out[key] = value(text)
        else:
            out.setdefault(of[0], {})[last] = value(text)
    return out


def read(text):
    """Parses a module with TVM, including constructs that TVM prints but does not parse."""
    return about_their_loops(tvm.script.from_source(text, check_well_formed=False))


def with_second_values(read_assignment):
    """Returns an assignment parser for which `n = 2` redefines a variable `n`, as in TVM's output."""

    def assign(parser, node):
        name = node.targets[0]
        var = parser.var_table.get().get(name.id) if isinstance(name, doc.Name) else None
        if isinstance(var, tvm.ir.Var) and isinstance(var.ty, tvm.ir.PrimType):
            value = parser.eval_expr(node.value)
            T.Bind(value if isinstance(value, tvm.ir.Expr) else tirx.const(value, var.ty.dtype), var=var)
        else:
            read_assignment(parser, node)

    return assign


dispatch.register(token="tirx", type_name="Assign")(with_second_values(dispatch.get(token="tirx", type_name="Assign")))


def about_their_loops(module):
    """Makes attribute statements refer to the variable of the nested loop with the same name.

    TVM prints a variable that is undefined before such a statement, and does not parse it as the loop's variable.
    """

    def again(stmt):
        if isinstance(stmt, tirx.SeqStmt):
            return tirx.SeqStmt([again(one) for one in stmt.seq])
        if isinstance(stmt, tirx.For):
            body = again(stmt.body)
            return stmt if body.same_as(stmt.body) else tirx.For(
                stmt.loop_var, stmt.min, stmt.extent, stmt.kind, body, stmt.thread_binding, stmt.annotations, stmt.step
            )
        if not isinstance(stmt, tirx.AttrStmt):
            return stmt
        body, inner = again(stmt.body), stmt.body
        while isinstance(inner, tirx.AttrStmt):
            inner = inner.body
        names = isinstance(inner, tirx.For) and isinstance(stmt.node, tvm.ir.Var) and inner.loop_var.name == stmt.node.name
        return tirx.AttrStmt(inner.loop_var if names else stmt.node, stmt.attr_key, stmt.value, body)

    for var, func in module.functions.items():
        if isinstance(func, tirx.PrimFunc):
            module[var] = func.with_body(again(func.body))
    return module


def theirs(settings, text):
    """Returns TVM's result for a module."""
    module = read(text)
    names = next(line for name, line in settings if name == "passes")
    with tvm.transform.PassContext(config=config(settings)):
        return module, made(names)(module)


def compared(case):
    """Returns the kind of a case's result, and details."""
    _, settings, sections = case
    try:
        before, after = theirs(settings, sections["before"])
    except Exception as error:  # pylint: disable=broad-except
        return (EQUAL, "") if "error" in sections else (REFUSES, str(error).strip().splitlines()[-1])
    if "error" in sections:
        return difference(before, None, after)
    ours = read(sections["after"]) if "after" in sections else before
    if tvm_ffi.structural_equal(after, ours, map_free_vars=True):
        return EQUAL, ""
    if tvm_ffi.structural_equal(read(after.script()), ours, map_free_vars=True):
        return EQUAL_ONCE_READ, ""
    return difference(before, ours, after)


def difference(before, ours, after):
    """Compares TVM's module after a pass with passhost's module, if there is one."""
    try:
        if why := ours and tir_values.first_difference(before, ours):
            return OTHER, f"ours computes something else: {why}"
        if why := tir_values.first_difference(before, after):
            return OTHER_VALUES, f"{why}\n{after.script()}"
    except (NotImplementedError, tir_values.Fault):
        pass
    loops = [module.script().count("for ") for module in (ours, after) if module]
    return MORE_LOOPS if loops[0] < loops[-1] else OTHER, after.script()


def completed(text):
    """Returns a case with TVM's result for its module."""
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
    """Rewrites a file, with TVM's result in each case."""
    head, *rest = re.split(r"^== ", path.read_text(), flags=re.M)
    path.write_text(head + "".join("== " + completed(case) for case in rest).rstrip() + "\n")


def judged(stem, title, kind):
    """Returns the count to which a case belongs if TVM returns the golden or differs for the stated reason; otherwise
    the error."""
    stated, reason = REASONS.get(stem, {}).get(title, (EQUAL, ""))
    if kind == stated or stated == EQUAL and kind == EQUAL_ONCE_READ:
        return "equal" if kind in (EQUAL, EQUAL_ONCE_READ) else "stated", None
    return "unexplained", f"{kind}, but the stated reason is that it {stated}: {reason}" if reason else kind


def main():
    known = parser(__doc__)
    known.add_argument("--complete", action="store_true", help="add TVM's result to cases with only a `before` section")
    arguments = known.parse_args()
    files = arguments.files or sorted((ROOT / "plugins/tir-passes/tests/goldens").glob("*.txt"))
    if arguments.complete:
        for path in files:
            complete(path)
    judge(files, compared, judged, REASONS, arguments.quiet, seconds=120)


if __name__ == "__main__":
    main()
