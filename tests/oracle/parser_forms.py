"""The forms that `parser_sweep.py` tries: arguments that fit the parameter names, for each public name of `R`, `T` and
`I`, and common uses of Python's operators and statements."""

import inspect
import itertools
import re

import written_forms

HEADER = """# from tvm.script import ir as I
# from tvm.script import relax as R
# from tvm.script import tirx as T

"""

TIR = HEADER + """@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "int32"), C: T.Buffer((4, 4), "float32"),
             D: T.Buffer((16,), "bool"), H: T.Buffer((16,), "float16"), L: T.Buffer((16,), "int64"),
             p: T.handle, n: T.int32, m: T.int64):
        for i in range(16):
{body}
"""

BLOCK = HEADER + """@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "int32"), C: T.Buffer((4, 4), "float32")):
        for i, j in T.grid(4, 4):
            with T.sblock("b"):
{body}
                A[0] = A[0] + T.float32(1)
"""

RELAX = HEADER + """@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def f(a: T.Buffer((4, 6), "float32"), b: T.Buffer((4, 6), "float32")):
        for i, j in T.grid(4, 6):
            b[i, j] = a[i, j]

    @R.function
    def main(x: R.Tensor((4, 6), "float32"), y: R.Tensor((4, 6), "float32"), v: R.Tensor((6,), "float32"),
             s: R.Tensor((), "float32"), k: R.Tensor((4, 6), "int32"), l: R.Tensor((3,), "int64"),
             b: R.Tensor((4, 6), "bool"), w: R.Tensor((2, 3, 8, 8), "float32"), u: R.Tensor((5, 3, 3, 3), "float32"),
             e: R.Tensor(("n", "m"), "float32"), q: R.Tensor((2, 3, 8), "float32"), h: R.Shape(["n", "m"]),
             r: R.Prim("int64"), c: R.Tensor((3,), "float32"), g: R.Tensor((2, 8, 4, 16), "float32"),
             t: R.Tuple(R.Tensor((4, 6), "float32"), R.Tensor((4, 6), "float32"))):
        n = T.int64()
        m = T.int64()
        cls = Module
{body}
        return {result}
"""

IMPURE = RELAX.replace("@R.function\n", "@R.function(pure=False)\n")

TENSORS = ["x", "w", "k", "q", "v", "l", "s", "b", "e", "g", "c", "(x, y)", "[x, y]", "t", "R.const(1.0, \"float32\")"]
DTYPES = ['"float32"', '"int32"', '"float16"', '"int64"', '"bool"', "None"]
INTS = ["1", "0", "2", "-1", "None", "True", "[1, 2]", "(1, 2)", "3"]
RELAX_POOLS = {
    "axis": ["1", "0", "-1", "None", "[0, 1]", "(0,)", "[1]"],
    "axes": ["[0, 1]", "1", "None", "[1]", "(1,)", "[-1]", "[0, 2, 1]"],
    "dtype": DTYPES, "out_dtype": DTYPES,
    "shape": ["(4, 6)", "[24]", "(2, 12)", "(n, 4)", "R.shape([24])", "h", "(-1,)", "24"],
    "target_shape": ["(4, 6)", "(2, 4, 6)", "R.shape([2, 4, 6])"],
    "keepdims": ["True", "False"],
    "indices_or_sections": ["2", "[1, 3]", "3"],
    "fill_value": ["R.const(1.0, \"float32\")", "1.0", "s", "2"],
    "layout": ['"NCHW"', '"NHWC"', '"NCW"', '"NCDHW"'], "data_layout": ['"NCHW"', '"NHWC"', '"NCW"'],
    "kernel_layout": ['"OIHW"', '"OIW"'], "out_layout": ["None", '"NCHW"', '"NHWC"'],
    "method": ['"linear"', '"nearest_neighbor"', '"cubic"', '"bilinear"'],
    "reduction": ['"mean"', '"sum"', '"none"', '"update"', '"add"'],
    "pool_size": ["(2, 2)", "[2, 2]", "2"], "strides": ["(1, 1)", "[2, 2]", "1", "(1,)"],
    "padding": ["(0, 0)", "1", "[1, 1]", "(0, 0, 0, 0)"], "dilation": ["(1, 1)", "1", "[2, 2]"],
    "size": ["(16, 16)", "16", "R.shape([16, 16])", "[4, 4]"], "output_size": ["(4, 4)", "4", "None"],
    "subscripts": ['"ij,ij->ij"', '"ij,kj->ik"', '"ij->ji"'],
    "purity": ["True", "False"], "func": ["cls.f", '"vm.f"'], "gvar": ["cls.f"],
    "out_ty": ["R.Tensor((4, 6), \"float32\")", "[R.Tensor((4, 6), \"float32\")]"],
    "ty_args": ["R.Tensor((4, 6), \"float32\")", "(R.Tensor((4, 6), \"float32\"),)", "[R.Tensor((4, 6), \"float32\")]"],
    "args": ["(x,)", "x", "[x]", "(x, y)"], "inplace_indices": ["0", "[0]", "[-1]"],
    "condition": ["b"], "index_map": ["lambda i, j: (j, i)", "T.index_map(lambda i, j: (j, i))"],
    "begin": ["[0]", "(1,)", "[-1]"], "end": ["[2]", "(3,)", "[4]"], "repeats": ["2", "(2, 1)", "[1, 2]"],
    "pad_width": ["[0, 0, 1, 1]", "(0, 0, 1, 1)", "[1, 1, 1, 1]"], "pad_value": ["0.0", "1", "None"],
    "value": ["1", "1.5", "True", "n", '"s"', "[1, 2]", "x", "-2", "T.float32(1)", "T.int32(3)"],
    "depth": ["4", "8"], "on_value": ["R.prim_value(1)", "1", "R.prim_value(T.float32(1.0))"],
    "off_value": ["R.prim_value(0)", "0", "R.prim_value(T.float32(0.0))"],
    "indices": ["l", "k", "[0, 1]", "(k, k)"], "sections": ["2"], "groups": ["1", "3"], "offset": ["1", "-1"],
    "prob": ["x"], "mode": ['"fast"', '"clip"', '"wrap"', '"constant"', '"nan"'], "rate": ["0.5", "0.1"],
    "dst_vdevice": ['"llvm:0:global"'], "ret_type": ['"both"', '"values"', '"indices"'],
    "scale": ["c", "v", "None", "0.5", "R.const(1.0, \"float32\")", "True", "False"],
    "zero_point": ["R.const(0, \"int8\")", "R.const(0, \"int32\")"],
    "gamma": ["c", "v", "x"], "beta": ["c", "v", "x"], "weight": ["u", "v", "c", "x", "y"], "moving_mean": ["c"],
    "moving_var": ["c"], "a_min": ["0", "-1", "R.prim_value(0)"], "data": TENSORS, "epsilon": ["1e-5", "0.001"],
}
RELAX_POOLS["min"] = RELAX_POOLS["max"] = ["0", "-1.5", "6", "R.prim_value(0)"]

EXPRESSIONS = ["A[i]", "B[i]", "n", "1", "-1", "2.5", "D[i]", "m", "L[i]", "H[i]", "True", "T.int64(3)", "T.float16(1)", "i"]
TIR_POOLS = {
    "dtype": ['"float32"', '"int32"', '"float16"', '"int64"', '"handle"', '"bool"', "None", '"int32x4"', '"uint8"'],
    "buffer": ["A", "B", "C"], "source": ["A", "A[0:4]", "C[0:4, 0:4]"], "data": ["A.data", "p", "B.data"],
    "shape": ["(16,)", "[16]", "16", "(4, 4)", "[n]"], "indices": ["[0]", "[0, 1]", "[i]"],
    "extent": ["16", "n", "T.int64(4)"], "extents": ["[16]", "[4, 4]"], "lanes": ["4", "2"],
    "thread": ['"threadIdx.x"', '"blockIdx.x"', '"vthread"'], "thread_tag": ['"threadIdx.x"', '"blockIdx.x"'],
    "scope": ['"global"', '"shared"', '"local"'], "storage_scope": ['"global"', '"shared"', '"local"'],
    "func_name": ['"f"'], "name": ['"f"', '"llvm.fabs"'], "attr_key": ['"pragma_unroll"'],
    "condition": ["B[i] > 0", "D[i]", "n == 1"], "cond": ["B[i] > 0", "D[i]"],
    "attrs": ['{"a": 1}', '{"tirx.noalias": True}'], "message": ['"wrong"'],
    "cooperative_tensor": ["A"], "access_mask": ['"r"', '"w"', "1"], "access_type": ['"r"', "1"],
    "annotations": ['{"k": 1}', "None", "{}"], "body": ["A[i]"], "value": EXPRESSIONS, "func": ["lambda a: a"],
    "ret_type": ['"float32"'], "combiner": ["lambda a, b: a + b"], "identity": ["[T.float32(0)]"],
    "mapping": ["lambda i, j: (j, i)", "lambda i: (i // 4, i % 4)"], "predicate": ["None", "D[i]"],
    "target_config": ['{"kind": "llvm"}', '"llvm"'], "annotation": ['"k"'], "step": ["1", "2"], "stop": ["16", "n"],
    "start": ["0", "1", "16", "n"], "unroll": ["True", "False"], "node": ["A", "n"], "var": ["n"],
    "args": EXPRESSIONS, "storage_type": ['"int32"'], "min": ["0"], "align": ["64", "128"], "offset_factor": ["1", "0", "4"],
    "elem_offset": ["0", "16", "n", "None"], "strides": ["None", "(1,)", "[4, 1]"], "layout": ["None", '"default"'],
    "kind": ["0", "13"], "index": ["0", "i"], "field": ["1"], "arr": ["p"], "ptr": ["A.data", "p", "T.address_of(A[0])"],
    "true_value": EXPRESSIONS, "false_value": EXPRESSIONS, "f": ["A[i]"],
}
SKIPPED = {"span", "loc"}

# Modules, and names that only contain other names.
NO_FORMS = {"R.parser", "R.builder", "T.parser", "T.builder", "T.tile", "I.parser", "I.frame", "I.entry", "I.ir"}

# Reasons why passhost and TVM parse a form differently, by a regular expression for the outcome.
OTHER = {
    r"TVM cannot parse its own output|as with TVM's own output": "TVM does not parse what it prints",
    r"take_backward\(\) got an unexpected keyword": "TVM prints an attribute that its function does not take",
    r"data types \w+ and \w+ differ": "TVM joins a bool tensor with any other, as the data type of the first",
    r"out of range for a tensor of 0 dim|cannot be summed|needs a vector of int64|must not be negative"
    r"|must be written in place|needs a data type": "TVM accepts a call whose result is not defined",
    r"unknown expression|cannot be used with `with`|expected a TIR type|older than 0\.27":
        "constructors of TVM's builders, declarations and loops without a use, operations of CUDA, Metal and NKI",
    r"expected a type": "the types of `R.dist`, except `R.DTensor`",
    r"takes \d+ arguments, found|takes its arguments by position|leaves a gap": "arguments by name, of some functions",
    r"ty, var->ty|Incompatible types in BufferStore": "TVM gives the type void to a value",
}


def names():
    """Returns all public names, including the names in nested namespaces."""
    from tvm.script import ir, relax, tirx

    found = []
    for root, module in (("R", relax), ("T", tirx), ("I", ir)):
        for name in sorted(vars_of(module)):
            value, path = getattr(module, name), f"{root}.{name}"
            if path in NO_FORMS:
                continue
            inner = vars_of(value) if is_namespace(value) else []
            found += [f"{path}.{part}" for part in sorted(inner)] if inner else [path]
    return found


def vars_of(value):
    # Four-lane vector types represent the other widths.
    return [name for name in dir(value) if not name.startswith("_") and not re.fullmatch(r".*x(2|8|16|32|64)", name)]


def is_namespace(value):
    return inspect.ismodule(value) or type(value).__name__.endswith("Namespace") or inspect.isclass(value) and not callable(value)


def value_of(name):
    from tvm.script import ir, relax, tirx

    root, *path = name.split(".")
    value = {"R": relax, "T": tirx, "I": ir}[root]
    for part in path:
        value = getattr(value, part)
    return value


def parameters(name):
    """Returns the parameters of the function called `name`: `(name, kind, has a default)`."""
    value = value_of(name)
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return [("args", inspect.Parameter.VAR_POSITIONAL, False)]
    return [(p.name, p.kind, p.default is not p.empty) for p in signature.parameters.values() if p.name not in SKIPPED]


def pool(root, parameter):
    pools, default = (RELAX_POOLS, TENSORS) if root == "R" else (TIR_POOLS, EXPRESSIONS)
    if parameter in pools:
        return pools[parameter]
    for name, values in pools.items():
        if parameter.endswith("_" + name) or parameter.endswith(name + "s"):
            return values
    return default + (INTS if root == "R" else ["A", "A[0]", "p", '"f"', "[1, 2]", "None"])


def wrap(name, text):
    """Yields the modules that can contain a form."""
    root = name.split(".")[0]
    call = text.replace("\n", " ")
    if root == "R":
        indent = " " * 8
        bare = f"{indent}z = {call}"
        yield RELAX.format(body=bare, result="z")
        yield RELAX.format(body=f"{indent}with R.dataflow():\n{indent}    z = {call}\n{indent}    R.output(z)", result="z")
        yield IMPURE.format(body=bare, result="z")
        yield IMPURE.format(body=f"{indent}{call}", result="x")
        yield RELAX.format(body=f"{indent}z: {call} = x", result="z")
        return
    indent = " " * 12
    for line in (f"A[i] = {call}", f"B[i] = {call}", f"D[i] = {call}", f"L[i] = {call}", f"T.evaluate({call})", f"{call}",
                 f"z = {call}", f"z: T.let = {call}", f"for z in {call}:\n{indent}    A[i] = T.float32(0)",
                 f"with {call}:\n{indent}    A[i] = T.float32(0)", f"with {call} as z:\n{indent}    A[i] = T.float32(0)"):
        yield TIR.format(body=indent + line)
    inner = " " * 16
    yield BLOCK.format(body=inner + call)
    yield BLOCK.format(body=f"{inner}v = {call}")


def spelled(name, given, by_name=()):
    """Formats a call; `given` has pairs `(parameter, text)`."""
    parts = [f"{parameter}={text}" if parameter in by_name else text for parameter, text in given]
    return f"{name}({', '.join(parts)})"


def bases(name, known, readable):
    """Returns the first argument lists that TVM accepts for `name`, shortest first, each with the frame in which TVM
    parsed it."""
    root, found = name.split(".")[0], []
    needed = [(p, kind) for p, kind, default in known
              if not default and kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)]
    stars = [p for p, kind, _ in known if kind == inspect.Parameter.VAR_POSITIONAL]
    only = {p for p, kind, _ in known if kind == inspect.Parameter.KEYWORD_ONLY}
    lists = [[p for p, _ in needed] + stars * n for n in (range(4) if stars else [0])]
    for wanted in lists:
        pools = [pool(root, p) for p in wanted]
        # All parameters vary together first, then each pool by itself.
        alike = [tuple(values[k % len(values)] for values in pools) for k in range(max(map(len, pools), default=1))]
        mixed = itertools.islice(itertools.product(*(values[:4] for values in pools)), 24)
        hits = 0
        for at, values in enumerate(dict.fromkeys(itertools.chain(alike, mixed))):
            given = list(zip(wanted, values))
            text = spelled(name, given, only)
            frames = list(enumerate(wrap(name, text)))
            # The first few argument lists show whether the form is an expression.
            frames = frames if at < 6 or root == "R" else frames[:6]
            frame = next((k for k, module in frames if readable(module)), None)
            if frame is not None:
                found.append((given, frame))
                hits += 1
            if hits >= 3:
                break
    return found, only


def forms(name, readable):
    """Returns the forms of `name` that TVM accepts: `(form, module)`."""
    value = value_of(name)
    known = parameters(name) if callable(value) else []
    found = {}

    def keep(text, frame=None):
        for k, module in enumerate(wrap(name, text)):
            if (frame is None or k == frame) and text + str(k) not in found and readable(module):
                found[text + str(k)] = (text, module)

    keep(name)
    if not callable(value):
        return list(found.values())
    lists, only = bases(name, known, readable)
    for given, frame in lists:
        keep(spelled(name, given, only))
        root = name.split(".")[0]
        keep(spelled(name, given, {p for p, _ in given[-1:]} | only), frame)
        keep(spelled(name, given, {p for p, _ in given} | only), frame)
        for at, (p, _) in enumerate(given):
            for other in pool(root, p)[:9]:
                keep(spelled(name, given[:at] + [(p, other)] + given[at + 1:], only), frame)
    for given, frame in lists[:2]:
        here = {p for p, _ in given}
        more = []
        for p, kind, default in known:
            if default and p not in here and kind != inspect.Parameter.VAR_KEYWORD:
                for value in pool(name.split(".")[0], p)[:6]:
                    keep(spelled(name, given + [(p, value)], only | {p}), frame)
                more.append((p, pool(name.split(".")[0], p)[0]))
                keep(spelled(name, given + more, only), frame)
    return list(found.values())


def tir(body, indent=12):
    return TIR.format(body="\n".join(" " * indent + line for line in body.splitlines()))


def block(body):
    return BLOCK.format(body="\n".join(" " * 16 + line for line in body.splitlines()))


def relax(body, result="z"):
    return RELAX.format(body="\n".join(" " * 8 + line for line in body.splitlines()), result=result)


def alone(kind, texts):
    return [(text, kind(text)) for text in texts]


SUGAR = {
    "(TIR: operators)": alone(tir, [
        "A[i] = -A[i]", "B[i] = ~B[i]", "B[i] = +B[i]", "B[i] = B[i] ** 2", "A[i] = 2 * A[i] / 3", "B[i] = B[i] // 3 % 5",
        "B[i] = B[i] << 1 | B[i] >> 2 & 3 ^ 1", "D[i] = 0 < B[i] < 5", "D[i] = 0 <= B[i] < n < 7", "D[i] = i == B[i] == n",
        "D[i] = not (B[i] == 1)", "D[i] = B[i] > 0 and B[i] < 4 or D[0]", "D[i] = 1 < 2", "D[i] = 0 < 1 < B[i]",
        "A[i] = A[i] if B[i] > 0 else 0.0", "A[i] = T.float32(1) if True else A[0]", "B[i] = 3 if n > 1 else 4",
        "B[i] = i + m", "A[i] = A[i] + 1", "A[i] = H[i] * 2.0", "A[i] = A[i] + H[i]", "B[i] = abs(B[i])", "A[i] = abs(A[i])",
        "A[i] = round(A[i])", "B[i] = min(3, 4)", "B[i] = max(1, 2)", "B[i] = int(3)", "A[i] = float(3)", "A[i] = float(\"inf\")",
        "A[i] = pow(A[i], 2.0)", "B[i] = len([1, 2])", "D[i] = n is None", "D[i] = B[i] in [1, 2]", "B[i] = (1, 2)[0]", "B[i] = 2 ** 3",
        "B[i] = sum([1, 2])", "B[i] = 7 // 2 + 7 % 4", "A[i] = 7 / 2", "B[i] = -7 // 2", "B[i] = 1 << 4", "D[i] = True and B[i] > 0",
        "D[i] = B[i] > 0 or False", "D[i] = not True", "B[i] = ~3", "B[i] = -(-3)", "B[i] = 1_000", "B[i] = 0x10", "B[i] = 0b11", "A[i] = 1e-3",
        "A[i] = 1e30", "L[i] = 1 << 40", "L[i] = 4294967296", "B[i] = True", "D[i] = 1", "D[i] = B[i]", "A[i] = D[i]", "H[i] = A[i]",
        "B[i] = A[i]", "A[i] = B[i]", "A[i] = A[i].astype(\"float32\")", "H[i] = A[i].astype(\"float16\")", "B[i] = B[i].astype(\"int64\")",
        "D[i] = B[i].equal(1)", "A[i] = A[B[i]]", "A[i] = A[i - 1]", "A[i] = C[i // 4, i % 4]", "D[i] = A[i] == T.float32(0)",
    ]),
    "(TIR: assignments)": alone(tir, [
        "A[i] += 1", "A[i] -= 1.0", "A[i] *= A[i]", "A[i] /= 2.0", "B[i] //= 2", "B[i] %= 3", "B[i] <<= 1", "B[i] |= 1", "B[i] &= 1", "B[i] ^= 1",
        "B[i] >>= 1", "C[0, i] += 1.0", "k = 3", "k = B[i]\nB[i] = k", "k = B[i]\nk = k + 1\nB[i] = k", "k = 1.5\nA[i] = k", "k = True\nD[i] = k",
        "k: T.int32\nk = 3\nB[i] = k", "k: T.int32 = B[i]\nB[i] = k", "k: T.float32 = 0\nk += 1\nA[i] = k", "k: T.let = B[i]\nB[i] = k",
        "k: T.let[T.int32] = B[i] + 1\nB[i] = k", "k, l = B[i], B[0]\nB[i] = k + l", "k, l = 1, 2\nB[i] = k + l", "k = l = 1\nB[i] = k",
        "k = A\nA[i] = k[0]", "k = A.data", "(k, l) = (1, 2)\nB[i] = k", "[k, l] = [1, 2]\nB[i] = k", "k: T.int32 = 0\nB[i] = k.source[0]",
        "k: T.int32 = 0\nq = T.decl_buffer((1,), \"int32\", data=k.source.data, scope=\"local\")\nq[0] = 1", "k: T.int32 = 0\nT.evaluate(k.source.data)",
        "k: T.int64 = 3\nL[i] = k", "k: T.float16\nk = 1.0\nH[i] = k", "k = T.alloc_buffer((1,), \"int32\")\nk = 3\nB[i] = k[0]",
        "k = T.alloc_buffer((1,), \"int32\")\nk[0] = 3\nB[i] = k[0]", "k = T.alloc_local((1,), \"int32\")\nk[0] = 3\nB[i] = k[0]",
        "k = T.alloc_scalar(\"int32\")\nk = 3\nB[i] = k", "k = T.local_scalar(\"int32\")\nk = 3\nB[i] = k", "k = T.int32(3)\nB[i] = k",
        "A[i] = 1", "B[i] = 1.5", "D[i] = 2", "k = n\nB[i] = k", "_ = B[i]", "k: T.int32 = 3.7\nB[i] = k", "del A",
        "k = \"s\"", "k = A[i:i + 4]", "k = None", "k = A[0:4]\nA[0:4] = k[0:4]", "T.Bind(B[i])", "k = T.bind(B[i])\nB[i] = k",
    ]),
    "(TIR: statements)": alone(tir, [
        "\"\"\"A docstring.\"\"\"\nA[i] = 1.0", "# a comment\nA[i] = 1.0  # another", "pass", "A[i] = 1.0; A[0] = 2.0",
        "for k in range(4):\n    A[k] = 1.0", "for k in range(1, 4):\n    A[k] = 1.0", "for k in range(0, 8, 2):\n    A[k] = 1.0",
        "for k in range(n):\n    A[k] = 1.0", "for k in range(n, 16):\n    A[k] = 1.0", "for k in range(1, n, 3):\n    A[k] = 1.0",
        "for k in T.serial(4):\n    A[k] = 1.0", "for k in T.serial(0, 4):\n    A[k] = 1.0", "for k in T.serial(0, stop=4):\n    A[k] = 1.0",
        "for k in T.serial(1, 4, step=2):\n    A[k] = 1.0", "for k in T.unroll(4):\n    A[k] = 1.0", "for k in T.vectorized(4):\n    A[k] = 1.0",
        "for k in T.parallel(4):\n    A[k] = 1.0", "for k in T.parallel(0, 4, annotations={\"a\": 1}):\n    A[k] = 1.0",
        "for k in T.thread_binding(4, thread=\"threadIdx.x\"):\n    A[k] = 1.0", "for k in T.thread_binding(0, 4, \"threadIdx.x\"):\n    A[k] = 1.0",
        "for k in T.thread_binding(4, \"threadIdx.x\"):\n    A[k] = 1.0", "for k, l in T.grid(4, 4):\n    C[k, l] = 1.0", "for k in T.grid(4):\n    A[k] = 1.0",
        "for (k, l) in T.grid(4, 4):\n    C[k, l] = 1.0", "for k, *l in T.grid(4, 4):\n    A[k] = 1.0", "for k in T.grid(4, 4):\n    C[k[0], k[1]] = 1.0",
        "for k in range(T.int64(4)):\n    A[k] = 1.0", "for k in range(m):\n    A[k] = 1.0", "for k in range(4, 4):\n    A[k] = 1.0", "for k in range(-1, 4):\n    A[k + 1] = 1.0",
        "for _ in range(4):\n    A[i] = 1.0", "while B[i] > 0:\n    B[i] = B[i] - 1", "while B[i] > 0 and n > 0:\n    B[i] -= 1\n    if B[i] == 3:\n        break",
        "for k in range(4):\n    if k == 2:\n        continue\n    A[k] = 1.0", "while True:\n    break", "while 1:\n    B[i] = 1",
        "if B[i] > 0:\n    A[i] = 1.0", "if B[i] > 0:\n    A[i] = 1.0\nelse:\n    A[i] = 2.0", "if B[i] > 0:\n    A[i] = 1.0\nelif B[i] < 0:\n    A[i] = 2.0\nelse:\n    A[i] = 3.0",
        "if True:\n    A[i] = 1.0", "if False:\n    A[i] = 1.0\nelse:\n    A[i] = 2.0", "if D[i]:\n    A[i] = 1.0", "if not D[i]:\n    A[i] = 1.0", "if 0 < B[i] < 4:\n    A[i] = 1.0",
        "if B[i]:\n    A[i] = 1.0", "if 1:\n    A[i] = 1.0", "if n:\n    A[i] = 1.0", "if B[i] > 0 and D[i]:\n    A[i] = 1.0", "if B[i] > 0: A[i] = 1.0", "if 1 < 2:\n    A[i] = 1.0",
        "if T.likely(B[i] > 0):\n    A[i] = 1.0", "assert B[i] > 0", "assert B[i] > 0, \"wrong\"", "assert B[i] > 0, (\"ValueError\", [\"a\", \"b\"])", "assert B[i] > 0, (\"ValueError\", \"a\")",
        "with T.attr(A, \"k\", 1):\n    A[i] = 1.0", "T.attr(A, \"k\", 1)\nA[i] = 1.0", "with T.attr({\"a\": 1, \"b\": 2}):\n    A[i] = 1.0", "with T.launch_thread(\"threadIdx.x\", 4) as k:\n    A[k] = 1.0",
        "k = T.launch_thread(\"threadIdx.x\", 4)\nA[k] = 1.0", "k = T.env_thread(\"threadIdx.x\")\nwith T.launch_thread(k, 4):\n    A[k] = 1.0", "k = T.env_thread(\"threadIdx.x\")\nT.launch_thread(k, 4)\nA[k] = 1.0",
        "with T.Assert(B[i] > 0, \"wrong\"):\n    A[i] = 1.0", "T.Assert(B[i] > 0, \"wrong\")\nA[i] = 1.0", "with T.If(B[i] > 0):\n    with T.Then():\n        A[i] = 1.0\n    with T.Else():\n        A[i] = 2.0", "with T.While(B[i] > 0):\n    B[i] -= 1",
        "return", "return 1", "return T.int32(0)", "T.ret(0)", "T.evaluate(0)", "T.evaluate(A[i])", "B[i]", "0", "T.call_extern(\"int32\", \"f\", A.data, 1)", "Module.main", "...",
        "with T.sblock(\"k\"):\n    v = T.axis.spatial(16, i)\n    A[v] = 1.0", "with T.sblock():\n    A[i] = 1.0", "with T.sblock(\"k\"), T.sblock(\"l\"):\n    A[i] = 1.0",
        "try:\n    A[i] = 1.0\nexcept Exception:\n    pass", "import math", "global A", "def g():\n    pass", "x: int = 3\nB[i] = x", "B[i] = (k := 3)", "lambda: 1", "for k in [1, 2]:\n    A[k] = 1.0",
    ]),
    "(TIR: buffers)": alone(tir, [
        "A[0:4] = T.Broadcast(T.float32(1), 4)", "A[0:4] = A[4:8]", "A[i:i + 4] = A[0:4]", "A[T.Ramp(0, 1, 4)] = A[T.Ramp(4, 1, 4)]", "A[0:8:2] = A[8:16:2]", "A[15:7:-1] = A[0:8]", "A[T.Ramp(15, -1, 8)] = A[0:8]",
        "A[T.Ramp(15 - i, -1, 8)] = A[T.Ramp(0, 2, 8)]", "A[T.ramp(0, 1, 4)] = A[0:4]", "A[0:4] = T.broadcast(T.float32(1), 4)", "A[0] = A[0:4][0]", "A[:] = A[:]", "A[0:] = A[0:]", "A[:4] = A[:4]", "A[...] = A[...]", "A[-1] = 1.0", "A[True] = 1.0",
        "C[0, 0:4] = C[1, 0:4]", "C[0][1] = 1.0", "C[(0, 1)] = 1.0", "k = A.view(4, 4)\nk[0, 0] = 1.0", "k = A.view((4, 4))\nk[0, 0] = 1.0", "k = A.view(\"int32\")\nk[0] = 1", "k = A.view(\"float16\")\nk[0] = T.float16(1)", "k = A.view(-1)\nk[0] = 1.0",
        "k = C.view(16)\nk[0] = 1.0", "k = C.local(4)\nk[0] = 1.0", "k = C.permute(1, 0)\nk[0, 0] = 1.0", "T.evaluate(A.access_ptr(\"r\"))", "T.evaluate(A.access_ptr(\"rw\", offset=4))", "T.evaluate(A.access_ptr(\"w\", content_lanes=4))", "T.evaluate(A.access_ptr(3))", "T.evaluate(A.access_ptr(\"r\", \"handle\"))",
        "T.evaluate(A.access_ptr(\"r\", extent=4))", "T.evaluate(C.access_ptr(\"r\", offset=n))", "T.evaluate(A.ptr_to([0]))", "T.evaluate(C.ptr_to([0, i]))", "T.evaluate(A.data)", "T.evaluate(T.address_of(A[0]))", "B[0] = A.shape[0]", "B[0] = A.elem_offset", "L[0] = C.shape[1]", "B[0] = A.strides[0]", "B[0] = A.offset_of([3])[0]",
        "T.evaluate(A.dtype)", "A[i] = A.vload([i])", "A.vstore([i], A.vload([0]))", "A.vstore([0], A.vload([4], \"float32x4\"))", "A[i] = A.vload(i)", "A.vstore(0, T.float32(1))", "A[i] = A.vload([i], dtype=\"float32\")", "A[0:4] = A.vload([T.Ramp(0, 1, 4)], predicate=T.Broadcast(T.bool(True), 4))",
        "B[0] = A.scope()", "for k in T.grid(*C.shape):\n    A[0] = 1.0", "for k, l in T.grid(*C.shape):\n    C[k, l] = 1.0", "for k in range(A.shape[0]):\n    A[k] = 1.0", "k = T.Buffer((16,), \"float32\", data=A.data)\nk[0] = 1.0", "k = T.decl_buffer((4, 4), \"float32\", data=A.data)\nk[0, 0] = 1.0", "k = T.decl_buffer([4, 4], dtype=\"float32\", data=A.data)\nk[0, 0] = 1.0", "k = T.decl_buffer((16,), \"float32\", A.data)\nk[0] = 1.0",
        "k = T.match_buffer(A[0:4], (4,))\nk[0] = 1.0", "k = T.match_buffer(p, (4,), \"float32\")\nk[0] = 1.0", "k = T.alloc_buffer((4, 4), \"float32\", scope=\"shared\")\nk[0, 0] = 1.0", "k = T.alloc_buffer([4], \"int8\")\nk[0] = 1", "k = T.alloc_shared((4,), \"float32\")\nk[0] = 1.0", "k = T.sblock_alloc_buffer((4,), \"float32\")\nk[0] = 1.0", "k = T.buffer((16,), \"float32\")\nk[0] = 1.0", "k = T.alloc_buffer(4)\nk[0] = 1.0", "k = T.alloc_buffer((n,))\nk[0] = 1.0",
    ]),
    "(TIR: blocks)": alone(block, [
        "vi, vj = T.axis.remap(\"SS\", [i, j])\nT.reads(A[0], C[vi, vj])\nT.writes(A[0])", "vi, vj = T.axis.remap(\"SR\", (i, j))", "vi = T.axis.spatial(4, i)", "vi = T.axis.S(4, i)", "vi = T.axis.R(4, i)", "vi = T.axis.reduce(4, i)", "vi = T.axis.scan(4, i)", "vi = T.axis.opaque(4, i)", "vi = T.axis.spatial((1, 4), i)", "vi = T.axis.spatial(4, i + j)",
        "vi = T.axis.remap(\"S\", [i])", "vi, *vs = T.axis.remap(\"SS\", [i, j])", "v = T.axis.remap(\"SS\", [i, j])\nC[v[0], v[1]] = 1.0", "vi = T.axis.spatial(4, i, dtype=\"int64\")", "vi = T.axis.spatial(T.int64(4), T.int64(1))", "vi = T.axis.spatial(dom=4, binding=i)", "T.where(i < 3)", "T.where(i < 3 and j < 2)", "T.where(0 < i < 3)", "T.reads()\nT.writes(A[0])", "T.reads([A[0:4]])\nT.writes([A[0]])", "T.reads(A[:])\nT.writes(A[0])", "T.reads(A)\nT.writes(A)", "T.reads(A[0:16], C[0:4, j])\nT.writes(A[0])", "T.reads(C[i, 0:4])\nT.writes(A[0:1])", "T.reads(A[i])\nT.writes(A[0], C[i, :])",
        "T.reads(C[i])\nT.writes(A[0])", "T.reads(A[i:])\nT.writes(A[0])", "T.sblock_attr({\"a\": 1, \"b\": \"s\"})", "T.sblock_attr({\"a\": [1, 2], \"b\": 1.5, \"c\": True, \"d\": None})", "with T.init():\n    A[0] = 0.0", "k = T.sblock_alloc_buffer((4,))\nk[0] = 1.0", "k = T.sblock_alloc_buffer([4], dtype=\"int32\", scope=\"local\")\nk[0] = 1", "k = T.match_buffer(C[i, 0:4], (4,))\nk[0] = 1.0", "k = T.match_buffer(C[0:4, 0:4], (4, 4), \"float32\", strides=(\"s\", 1), offset_factor=1)\nk[0, 0] = 1.0", "k = T.match_buffer(C[0:4, 0:4], (16,))\nk[0] = 1.0", "k = T.match_buffer(C[0:2, 0:4], (4, 4))\nk[0, 0] = 1.0",
        "k: T.int32 = B[i]\nB[i] = k", "x: T.int32 = 0\nwith T.sblock(\"c\"):\n    T.reads(x.source[0])\n    T.writes(B[i])\n    B[i] = x", "T.block_attr({\"a\": 1})",
    ]),
    "(TIR: functions)": [(text, HEADER + text) for text in [
        "@T.prim_func\ndef f(A: T.Buffer((16,), \"float32\")):\n    A[0] = 1.0\n", "@T.prim_func(private=True)\ndef f(A: T.Buffer((16,), \"float32\")) -> None:\n    A[0] = 1.0\n", "@T.prim_func(s_tir=True, private=False)\ndef f(A: T.Buffer(16, \"float32\")):\n    A[0] = 1.0\n", "@T.prim_func(s_tir=True)\ndef f(A: T.Buffer([16], dtype=\"float32\")):\n    A[0] = 1.0\n", "@T.prim_func(s_tir=True)\ndef f(A: T.buffer((4, 4), \"float32\")):\n    A[0, 0] = 1.0\n",
        "@T.prim_func(s_tir=True)\ndef f(A: T.Buffer((4, 4))):\n    A[0, 0] = 1.0\n", "@T.prim_func(s_tir=True)\ndef f(a: T.handle):\n    A = T.match_buffer(a, (4, 4), \"float32\")\n    A[0, 0] = 1.0\n", "@T.prim_func(s_tir=True)\ndef f(a: T.handle):\n    n = T.int32()\n    A = T.match_buffer(a, (n, n), \"float32\")\n    A[0, 0] = 1.0\n", "@T.prim_func(s_tir=True)\ndef f(a: T.handle, n: T.int32):\n    A = T.match_buffer(a, [n], dtype=\"int8\")\n    A[0] = 1\n", "@T.prim_func(s_tir=True)\ndef f(var_A: T.handle, var_B: T.handle):\n    m, n = T.int64(), T.int64()\n    A = T.match_buffer(var_A, (m, n))\n    B = T.match_buffer(var_B, (n, m))\n    B[0, 0] = A[0, 0]\n",
        "@T.prim_func(s_tir=True)\ndef f(A: T.Buffer((\"n\", 4), \"float32\"), n: T.int32):\n    A[n, 0] = 1.0\n", "@T.prim_func(s_tir=True)\ndef f(n: T.int32, A: T.Buffer((n, n + 1), \"float32\")):\n    A[n, 0] = 1.0\n", "@T.prim_func(s_tir=True)\ndef f(x: T.int32, y: T.float32, z: T.bool) -> T.int32:\n    return x\n", "@T.prim_func(s_tir=True)\ndef f(A: T.Buffer((16,), \"float32\", strides=[1], elem_offset=0, scope=\"shared\", align=128, offset_factor=4)):\n    A[0] = 1.0\n", "@T.prim_func(s_tir=True)\ndef f(A: T.Buffer((), \"float32\")):\n    A[()] = 1.0\n",
        "@T.prim_func(s_tir=True)\ndef f(A: T.Buffer((16,), \"float32\")):\n    T.func_attr({\"global_symbol\": \"g\", \"tirx.noalias\": True, \"a\": [1, 2], \"b\": {\"c\": 1.5}, \"d\": None})\n    A[0] = 1.0\n", "@T.prim_func(s_tir=True)\ndef f(A: T.Buffer((16,), \"float32\")):\n    T.func_attr({\"global_symbol\": \"f\"})\n    A[0] = 1.0\n", "@T.prim_func(s_tir=True)\ndef f(p: T.handle(\"float32\"), q: T.handle(\"float32\", \"shared\")):\n    T.evaluate(p)\n", "@T.prim_func(s_tir=True)\ndef f(p: T.ptr(\"float32\")):\n    T.evaluate(p)\n", "@T.prim_func(s_tir=True)\ndef f(p: T.Ptr[T.float32]):\n    T.evaluate(p)\n", "@T.prim_func(s_tir=True)\ndef f(x: \"T.int32\"):\n    T.evaluate(x)\n", "@T.prim_func(s_tir=True)\ndef f(A: T.Buffer((16,), T.float32)):\n    A[0] = 1.0\n", "@T.prim_func(s_tir=True)\ndef f(x: int):\n    T.evaluate(x)\n",
        "@T.prim_func(s_tir=True)\ndef f(a: T.Buffer((\"n\", \"n * 2\"), \"float32\")):\n    a[0, 0] = 1.0\n", "@T.prim_func(s_tir=True)\ndef f(A: T.Buffer(shape=(16,), dtype=\"float32\")):\n    A[0] = 1.0\n", "@T.prim_func(s_tir=True)\ndef f(A: T.Buffer((T.int64(16),), \"float32\")):\n    for i in range(T.int64(16)):\n        A[i] = 1.0\n", "@T.prim_func(s_tir=True)\ndef f(A: T.Buffer((128 * 2, 1 << 3), \"float32\")):\n    A[0, 0] = 1.0\n", "@T.prim_func(s_tir=True)\ndef f():\n    T.evaluate(0)\n", "@T.prim_func(s_tir=True)\ndef f():\n    pass\n", "@T.prim_func(s_tir=True)\ndef f(A: T.Buffer((16,), \"float32\")):\n    \"\"\"Doc.\"\"\"\n    A[0] = 1.0\n", "@T.prim_func(s_tir=True)\ndef f(A: T.Buffer((16,), \"float32\"), B: T.Buffer((16,), \"float32\")): B[0] = A[0]\n",
        "@T.prim_func(s_tir=True)\ndef f[k](a: T.Buffer((k, 4), \"float32\")):\n    a[0, 0] = 1.0\n", "@T.prim_func(s_tir=True)\ndef f[m, n](a: T.Buffer((m, n), \"float32\"), b: T.Buffer((n, m), \"float32\")):\n    for i, j in T.grid(m, n):\n        b[j, i] = a[i, j]\n", "@I.ir_module\nclass M:\n    @T.prim_func(s_tir=True)\n    def f(A: T.Buffer((16,), \"float32\")):\n        A[0] = 1.0\n", "@I.ir_module(check_well_formed=False)\nclass Module:\n    @T.prim_func(s_tir=True)\n    def f(A: T.Buffer((16,), \"float32\")):\n        A[0] = 1.0\n", "@tvm.script.ir_module\nclass Module:\n    @T.prim_func(s_tir=True)\n    def f(A: T.Buffer((16,), \"float32\")):\n        A[0] = 1.0\n", "@I.ir_module\nclass Module:\n    \"\"\"Doc.\"\"\"\n    I.module_attrs({\"a\": 1, \"b\": [1, 2], \"c\": {\"d\": \"e\"}})\n    @T.prim_func(s_tir=True)\n    def f(A: T.Buffer((16,), \"float32\")):\n        A[0] = 1.0\n", "@I.ir_module\nclass Module:\n    pass\n", "@I.ir_module\nclass Module:\n    @T.prim_func(s_tir=True)\n    def f(A: T.Buffer((16,), \"float32\")):\n        A[0] = 1.0\n\n    @T.prim_func(s_tir=True)\n    def g(A: T.Buffer((16,), \"float32\")):\n        Module.f(A.data)\n",
    ]],
    "(Relax: operators)": alone(relax, [
        "z = x + y", "z = x - y", "z = x * y", "z = x / y", "z = x // y", "z = x % y", "z = x ** y", "z = -x", "z = x + 1.0", "z = x + R.const(1.0, \"float32\")", "z = 2.0 * x", "z = x < y", "z = x <= y", "z = x > y", "z = x >= y", "z = x == y", "z = x != y", "z = abs(x)", "z = x @ y", "z = x & y", "z = k & k", "z = k | k", "z = k ^ k", "z = k << k", "z = ~k", "z = x[0]", "z = t[0]", "z = t[1]", "z = x[0:2]", "z = x.astype(\"float16\")", "z = not b", "z = b and b", "z = n + 1", "z = n * m", "z = 0 < n < 4", "z = x < y < x",
        "z = x + y * x - y", "z = (x + y) * 2.0", "z = -x + -y", "z = x ** 2.0", "z = 1.0 - x", "z = x + T.float32(1)", "z = x + 1", "z = x if True else y", "z = R.prim_value(n + 1)", "z = R.prim_value(0 < n < 4)", "z = x.shape", "z = cls.f", "z = +x", "z = t[-1]", "z = R.add(x, y) + x", "z = R.add(x, R.multiply(x, y))", "z = R.add(x, 1)", "z = R.add(1.0, x)", "z = R.add(lhs=x, rhs=y)",
    ]),
    "(Relax: bindings)": alone(relax, [
        "z = x", "z: R.Tensor = x", "z: R.Tensor((4, 6), \"float32\") = x", "z: R.Tensor(ndim=2) = x", "z: R.Tensor(\"float32\", ndim=2) = x", "z: R.Any = x", "z: R.Object = x", "z = 1", "z = 1.5", "z = True", "z = \"s\"", "z: R.Prim(\"int64\") = 3", "z = T.int64(3)", "z = T.float32(3)", "z = n", "z = (x, y)", "z = x, y", "z = (x,)", "z = ()", "z = [x, y]", "z = R.tuple(x, y)", "z, w2 = x, y", "z, w2 = t", "z, w2 = R.split(x, 2, axis=1)", "z = R.shape([4, n])", "z = R.shape((4, n))", "z = R.str(\"a\")", "z = R.dtype(\"float32\")", "z = R.const(1, \"int32\")", "z = R.const(1)", "z = R.const(1.5)", "z = R.const([1, 2])", "z = R.const([1.0, 2.0], \"float16\")", "z = R.const(True)", "z = R.const(\"inf\", \"float32\")", "z = R.const(float(\"inf\"), \"float32\")",
        "z = R.match_cast(e, R.Tensor((n, m), \"float32\"))", "z = R.match_cast(e, R.Tensor((4, 6)))", "p = T.int64()\nz = R.match_cast(e, R.Tensor((p, m), \"float32\"))", "z = R.call_tir(cls.f, (x,), out_ty=R.Tensor((4, 6), \"float32\"))", "z = R.call_tir(cls.f, x, R.Tensor((4, 6), \"float32\"))", "z = R.call_tir(cls.f, [x], R.Tensor((4, 6), dtype=\"float32\"))", "z = R.call_tir(Module.f, (x,), out_ty=[R.Tensor((4, 6), \"float32\")])", "z = R.call_dps_packed(\"f\", (x,), out_ty=R.Tensor((4, 6), \"float32\"))", "z = R.call_dps_packed(\"f\", x, out_ty=R.Tensor((4, 6), \"float32\"))", "z = R.call_pure_packed(\"f\", x, ty_args=(R.Tensor((4, 6), \"float32\"),))", "z = R.call_pure_packed(\"f\", x, ty_args=R.Tensor((4, 6), \"float32\"))", "z = R.call_pure_packed(\"f\", x, 1, \"s\", ty_args=[R.Any])", "z = R.call_pure_packed(\"f\", x, R.prim_value(1), R.str(\"s\"), ty_args=(R.Any,))",
        "z = x\nz = R.add(z, y)", "\"\"\"Doc.\"\"\"\nz = x", "# comment\nz = x  # another", "z = x; z = y", "with R.dataflow():\n    lv = R.add(x, y)\n    z = R.multiply(lv, y)\n    R.output(z)", "with R.dataflow():\n    z = x\n    R.output(z)", "with R.dataflow():\n    a, z = t\n    R.output(z)", "with R.dataflow():\n    lv = x + y\n    R.output(lv)\nz = lv", "with R.dataflow():\n    a1 = R.add(x, y)\n    z = R.add(a1, a1)\n    R.output(a1, z)", "z = h", "lv = R.shape_of(e)\nz: R.Tensor(lv, \"float32\") = e", "lv = R.shape_of(e)\nz: R.Tensor(lv, dtype=\"float32\", ndim=2) = R.zeros(lv, \"float32\")", "lv = R.shape_of(x)\nz = R.match_cast(e, R.Tensor(lv, \"float32\"))", "lv = R.shape([4, 6])\nz: R.Tensor(lv) = x", "z: R.Tensor(h, \"float32\") = e", "z: R.Shape([n, m]) = h", "z: R.Shape = h", "z: R.Shape(ndim=2) = h", "z: R.Tuple = t", "z: R.Tuple(R.Tensor, R.Tensor) = t", "z: R.Tuple([R.Tensor, R.Tensor]) = t",
        "z = R.func_attr({\"a\": 1})", "R.func_attr({\"a\": 1, \"b\": \"c\", \"d\": [1, 2]})\nz = x", "z = R.arange(5)", "z = R.arange(0, 10, 2, \"float32\")", "z = R.arange(1, 5)", "z = R.arange(n)", "z = R.arange(0.0, 1.0, 0.1, \"float32\")", "z = R.zeros((4, 6), \"float32\")", "z = R.zeros([4, n], \"float32\")", "z = R.ones(R.shape([4]), \"float32\")", "z = R.full((2,), R.const(1.0, \"float32\"), \"float32\")", "z = R.full((2,), 1.0)", "z = R.reshape(x, (24,))", "z = R.reshape(x, [2, 12])", "z = R.reshape(x, (-1,))", "z = R.reshape(x, (0, -1))", "z = R.reshape(e, (n * m,))", "z = R.permute_dims(x, [1, 0])", "z = R.permute_dims(x)", "z = R.sum(x)", "z = R.sum(x, 1)", "z = R.sum(x, [0, 1], True)", "z = R.sum(x, axis=(0, 1))", "z = R.nn.conv2d(w, u)", "z = R.nn.conv2d(w, u, 2, 1)", "z = R.nn.conv2d(w, u, strides=(2, 2), padding=[1, 1, 1, 1], data_layout=\"NCHW\")", "z = R.nn.softmax(x)", "z = R.nn.softmax(x, 0)", "z = R.concat((x, y))", "z = R.concat([x, y], 1)", "z = R.concat((x, y), axis=None)", "z = R.split(x, 2)", "z = R.split(x, [1, 2], -1)", "z = R.image.resize2d(w, (16, 16), layout=\"NCHW\", method=\"linear\", coordinate_transformation_mode=\"half_pixel\")", "z = R.image.resize2d(w, 16)", "z = R.take(x, l)", "z = R.take(x, l, 1)", "z = R.strided_slice(x, [0], [0], [2])", "z = R.strided_slice(x, axes=[0, 1], begin=[0, 1], end=[2, 3], strides=[1, 2])", "z = R.strided_slice(x, (0,), (1,), (-1,))", "z = R.clip(x, 0, 6)", "z = R.clip(x, min=-1.5, max=1.5)", "z = R.where(b, x, y)", "z = R.where(b, x, 0.0)", "z = R.layout_transform(x, index_map=lambda i, j: (j, i))", "z = R.layout_transform(x, lambda i, j: (j // 2, i, j % 2))", "z = R.layout_transform(x, index_map=T.index_map(lambda i, j: (i, j // 4, j % 4)), pad_value=T.float32(2))", "z = R.layout_transform(x, lambda i, j: (i, j // 4, j % 4), pad_value=2.0)", "z = R.einsum((x, y), \"ij,ij->ij\")", "z = R.einsum((x, y), subscripts=\"ij,kj->ik\")", "z = R.shape([T.Cast(\"int64\", T.float32(40.0))])", "z = R.shape([T.Cast(\"int64\", T.int32(4)), n])", "z = R.zeros((T.Cast(\"int64\", T.float32(4.0)),), \"float32\")", "z = R.shape([T.max(n, 4), T.min(n, m)])", "z = R.shape([T.ceildiv(n, 4)])", "z = R.shape([(n + 3) // 4, n % 2])", "z = R.shape([T.if_then_else(n > 4, n, m)])", "z = R.const(3.4e38, \"bfloat16\")", "z = R.const(-3.3895313892515355e+38, \"bfloat16\")",
    ]),
    "(Relax: functions)": [(text, HEADER + text) for text in [
        "@R.function\ndef f(x: R.Tensor((4,), \"float32\")):\n    return x\n", "@R.function(private=True)\ndef f(x: R.Tensor((4,), \"float32\")) -> R.Tensor((4,), \"float32\"):\n    return x\n", "@R.function(pure=False)\ndef f(x: R.Tensor):\n    R.print(x, format=\"{}\")\n    return x\n", "@R.function\ndef f(x: R.Tensor((\"n\", 4), \"float32\")):\n    return R.add(x, x)\n", "@R.function\ndef f(x: R.Tensor((\"n\", \"n + 1\"), \"float32\")) -> R.Tensor((\"n\", \"n + 1\")):\n    return x\n", "@R.function\ndef f[n](x: R.Tensor((n, 4), \"float32\")) -> R.Tensor((n, 4), \"float32\"):\n    y = R.add(x, x)\n    return y\n", "@R.function\ndef f[n, m](x: R.Tensor((n, m), \"float32\")):\n    return R.reshape(x, (n * m,))\n", "@R.function\ndef f(x: R.Tensor((4,), \"float32\"), y: R.Tensor((4,), \"float32\")):\n    return x, y\n", "@R.function\ndef f(x: R.Tensor((4,), \"float32\")):\n    return (x, (x, x))\n", "@R.function\ndef f() -> R.Tuple():\n    return R.tuple()\n", "@R.function\ndef f(x: R.Tensor([4, 4], dtype=\"float32\", ndim=2)):\n    return x\n", "@R.function\ndef f(x: R.Prim(\"int64\"), y: R.Prim(value=\"n\")):\n    return x\n", "@R.function\ndef f(x: T.int64, y: R.Tensor((x, 4))):\n    return y\n", "@R.function\ndef f(c: R.Tensor((), \"bool\"), x: R.Tensor((4,), \"float32\")):\n    if c:\n        y = R.add(x, x)\n    else:\n        y = R.multiply(x, x)\n    return y\n", "@R.function\ndef f(c: R.Tensor((), \"bool\"), x: R.Tensor((4,), \"float32\")):\n    if c:\n        y = x\n    elif c:\n        y = R.add(x, x)\n    else:\n        y = R.multiply(x, x)\n    return y\n",
        "@R.function\ndef f(x: R.Tensor((4,), \"float32\")):\n    @R.function\n    def g(y: R.Tensor((4,), \"float32\")) -> R.Tensor((4,), \"float32\"):\n        return R.add(y, x)\n    return g(x)\n", "@R.function\ndef f(x: R.Callable((R.Tensor,), R.Tensor), y: R.Callable):\n    return x\n", "@R.function\ndef f(x: R.Tuple(R.Tensor((4,)), R.Shape([4]), R.Any)):\n    return x[0]\n", "@I.ir_module\nclass Module:\n    I.module_global_infos({\"vdevice\": [I.vdevice(\"llvm\"), I.vdevice({\"kind\": \"cuda\"}, 0, \"global\")]})\n    @R.function\n    def main(x: R.Tensor((4,), \"float32\", \"llvm\")):\n        return x\n", "@I.ir_module\nclass Module:\n    I.module_global_infos({\"vdevice\": [I.vdevice(\"llvm\", 0, \"global\")]})\n    @R.function\n    def main(x: R.Tensor((4,), \"float32\", \"llvm:0:global\")):\n        return x\n", "@I.ir_module\nclass Module:\n    @R.function\n    def main(x: R.Tensor((4,), \"float32\")):\n        gv = Module.g(x)\n        return gv\n\n    @R.function\n    def g(x: R.Tensor((4,), \"float32\")) -> R.Tensor((4,), \"float32\"):\n        return x\n", "@I.ir_module\nclass Module:\n    @R.function\n    def main(x: R.Tensor((4,), \"float32\")):\n        \"\"\"Doc.\"\"\"\n        return x\n", "@R.function\ndef f(x: R.Tensor((4,), \"float32\")) -> R.Tensor:\n    return x\n", "@R.function\ndef f(x: R.Tensor(None, \"float32\", ndim=2)):\n    return x\n", "@R.function\ndef f(x: R.Tensor((4, T.int64(4)), \"float32\")):\n    return x\n", "@R.function\ndef f(x: R.Tensor((2 * 3, 4), \"float32\")):\n    return x\n", "@R.function\ndef f(x: R.Tensor((4,), \"float32\")):\n    R.func_attr({\"relax.force_pure\": True, \"a\": {\"b\": [1, 2.5, \"c\", None]}})\n    return x\n", "@R.function\ndef f(x: R.Tensor((4,), \"float32\")):\n    return -x\n", "@R.function\ndef f(x: R.Tensor((4,), \"float32\")):\n    return\n", "@R.function\ndef f(x: R.Tensor((4,), \"float32\")):\n    with R.dataflow():\n        y = R.add(x, x)\n        R.output(y)\n    return y\n", "@R.function\ndef f(x: R.Tensor((4,), \"float32\")):\n    with R.dataflow():\n        y = R.add(x, x)\n        gv = y\n        R.output(gv)\n    return gv\n",
    ]],
}

SUGAR |= written_forms.groups(HEADER)
