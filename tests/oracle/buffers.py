"""Writes TVM's result for each way to declare a buffer: `script/tests/buffers.txt`, which `script/tests/buffers.rs`
reads.

Each line contains a statement in a function with or without `s_tir`, and after an arrow the type of the declared
buffer `C`: its shape, strides and offset with their data types, offset factor, alignment, scope, and the presence of a
layout. `refused` means that TVM rejects the statement.
"""

import pathlib

import tvm
import tvm_ffi

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = "# from tvm.script import ir as I\n# from tvm.script import tirx as T\n@I.ir_module\nclass Module:\n"
PARAMETERS = (
    'h: T.handle, n: T.int32, m: T.int64, A: T.Buffer((16, 4), "float32"), B: T.Buffer((16, T.int64(4)), "float32"), '
    'D: T.Buffer((T.int64(16), 4), "float32"), E: T.Buffer((T.int64(16), T.int64(4)), "float32"), '
    'F: T.Buffer((16, 4), "float32", elem_offset=4), G: T.Buffer((16, 4), "float32", offset_factor=2), '
    'H: T.Buffer((16, 4), "float32", strides=(8, 1))'
)
SHAPES = ["(16, 4)", "(16, T.int64(4))", "(T.int64(16), 4)", "(n + 1, 4)", "(m, 4)", "()"]
# Arguments after the shape and the data type.
OPTIONS = [
    "",
    ", offset_factor=4",
    ", offset_factor=1",
    ", elem_offset=0",
    ", elem_offset=4",
    ", elem_offset=T.int64(0)",
    ", elem_offset=T.int64(4)",
    ", elem_offset=n",
    ", elem_offset=m * T.int64(2)",
    ", elem_offset=0, offset_factor=4",
    ", elem_offset=n, offset_factor=1",
    ', strides=("s", "t")',
    ', strides=("s", 1)',
    ", strides=(4, 1)",
    ", strides=(T.int64(4), T.int64(1))",
    ", strides=(n, 1)",
    ", strides=(m, T.int64(1)), offset_factor=8",
    ', strides=("s", "t"), offset_factor=16',
    ", align=16",
    ", align=16, offset_factor=2",
    ', scope="shared"',
    ", layout=None",
]
# Each way to declare a buffer, with True if it is valid only in blocks.
WAYS = [
    ("T.match_buffer(h, {}{})", False),
    ("T.match_buffer(A[0:16, 0:4], {}{})", True),
    ("T.match_buffer(E[0:16, 0:4], {}{})", True),
    ("T.decl_buffer({}{}, data=A.data)", False),
    ("T.decl_buffer({}{}, data=E.data)", False),
    ("T.decl_buffer({}{})", False),
    ("T.alloc_buffer({}{})", False),
    ("T.Buffer({}{})", False),
    ("T.sblock_alloc_buffer({}{})", True),
]
VIEWED = ["64", "T.int64(64)", "8, 8", "T.int64(8), T.int64(8)", "8, T.int64(8)", "-1, 8", "-1", "16, 4", "n", "m, 2", '"float32"', '"int32"', '"float16"', '"float64"', '"int8"']


def statements():
    """Yields `(statement, whether it is in a block)`."""
    for way, block in WAYS:
        for shape in SHAPES:
            for option in OPTIONS:
                yield way.format(shape, ', "float32"' + option), block
        yield way.format("(16, 4)", ""), block
    for parent in "ABDEFGH":
        for viewed in VIEWED:
            yield f"{parent}.view({viewed})", False


def text_of(statement, block, s_tir):
    """Returns a module with the statement and a use of the buffer."""
    header = f"    @T.prim_func(private=True{', s_tir=True' if s_tir else ''})\n    def f({PARAMETERS}):\n"
    lines = [f"C = {statement}", "T.evaluate(C.data)"]
    if block:
        reads = ["T.reads(A[0:16, 0:4], E[0:16, 0:4])", "T.writes()"]
        lines = ['with T.sblock("b"):', *("    " + line for line in reads + lines)]
    return HEADER + header + "".join(f"        {line}\n" for line in lines)


def parts(node, seen, found):
    """Adds all variables with a buffer type below a node."""
    if isinstance(node, (list, tuple, tvm_ffi.Array)):
        for item in node:
            parts(item, seen, found)
    if not isinstance(node, tvm_ffi.Object) or node.__chandle__() in seen:
        return
    seen[node.__chandle__()] = node
    if isinstance(node, tvm.ir.Var) and type(node.ty).__name__ == "BufferType":
        found[node.name] = node.ty
    for kind in type(node).__mro__:
        info = getattr(kind, "__tvm_ffi_type_info__", None)
        for field in info.fields if info else []:
            parts(getattr(node, field.name, None), seen, found)


def dimension(dim):
    """Formats a dimension with its data type: a number, `var`, or `sum` for anything else."""
    kind = {"IntImm": lambda: str(dim.value), "Var": lambda: "var"}.get(type(dim).__name__, lambda: "sum")()
    return f"{kind}:{dim.ty.dtype if hasattr(dim.ty, 'dtype') else dim.ty}"


def described(ty):
    dims = lambda items: " ".join(map(dimension, items)) or "none"
    facts = f"factor {ty.offset_factor}, align {ty.data_alignment}, {ty.storage_scope}"
    layout = "a layout" if ty.layout is not None else "no layout"
    return f"{ty.dtype} {dims(ty.shape)}, strides {dims(ty.strides)}, offset {dimension(ty.elem_offset)}, {facts}, {layout}"


def read(text):
    try:
        module = tvm.script.from_source(text, check_well_formed=False)
    except Exception:
        return "refused"
    found = {}
    for _, function in module.functions_items():
        parts(function, {}, found)
    return described(found["C"])


def main():
    lines = []
    for s_tir in [False, True]:
        for statement, block in statements():
            # The kind of function affects only the layout.
            if s_tir and not block and "=" in statement.replace("data=", "") and "layout" not in statement:
                continue
            where = ("block" if block else "body") + (" s_tir" if s_tir else "")
            lines.append(f"{where}: {statement} => {read(text_of(statement, block, s_tir))}\n")
    (ROOT / "script/tests/buffers.txt").write_text("".join(lines))
    print(len(lines), "declarations")


if __name__ == "__main__":
    main()
