"""Tests TIR functions as objects, and functions built from objects."""

import numpy as np
import pytest

import passhost
from passhost import ir, tirx
from passhost.error import IllFormedError
from passhost.tirx import stmt as s

SOURCE = """
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def blocks(a: T.handle, B: T.Buffer((8, 8), "float32"), k: T.int32):
        n = T.int32()
        A = T.match_buffer(a, (n, 8))
        C = T.sblock_alloc_buffer((4,), "float32")
        for i, j in T.grid(n, 8):
            with T.sblock("up"):
                vi, vj = T.axis.remap("SR", [i, j])
                T.where(i < 7)
                T.reads(A[vi, vj])
                T.writes(B[vi, 0:vj])
                T.sblock_attr({"level": 2})
                with T.init():
                    B[vi, vj] = T.float32(0)
                if vi < 3:
                    B[vi, vj] = T.max(B[vi, vj], T.exp(A[vi, vj])) + T.Cast("float32", k)
                else:
                    T.evaluate(k % 3)

    @T.prim_func
    def loops(A: T.Buffer((8,), "float32"), k: T.int32) -> T.int32:
        for i in T.parallel(8):
            A[i] = T.Select(i < k, T.float32(1), A[T.min(i + 1, 7)])
        for t in T.thread_binding(4, thread="threadIdx.x"):
            A[t] = T.float32(2)
        with T.launch_thread("blockIdx.x", 4) as bx:
            A[bx] = T.float32(1)
        B = T.alloc_buffer((3,), "float32")
        B[0] = A[k]
        while A[0] < T.float32(3):
            A[0] = A[0] + T.float32(4)
        y: T.let[T.int32] = k // 2
        assert y < 4, ("RuntimeError", ["too large"])
        for i in range(4, 8):
            if i == y:
                break
            else:
                continue
        T.evaluate(T.call_extern("int32", "f", A.data))
        return y
"""


@pytest.fixture
def functions():
    mod = passhost.script.from_source(SOURCE)
    return mod["blocks"], mod["loops"]


def kinds(stmt):
    """Returns the classes of a statement and its nested statements, outer ones first."""
    found = [type(stmt).__name__]
    for name in ("seq", "body", "block", "init", "then_case", "else_case"):
        inner = getattr(stmt, name, None)
        for one in inner if isinstance(inner, tuple) else [inner] if inner is not None else []:
            found += kinds(one)
    return found


def test_blocks_as_objects(functions):
    function = functions[0]
    a, b, k = function.params
    assert [tirx.is_buffer_var(param) for param in (a, b, k)] == [True, True, False]
    assert [param.name for param in (a, b, k)] == ["A", "B", "k"]
    assert (a.dtype, len(a.shape), b.shape[1].value) == ("float32", 2, 8)
    root = function.body
    assert kinds(root) == [
        *("SBlockRealize", "SBlock", "For", "For", "SBlockRealize", "SBlock"),
        *("IfThenElse", "BufferStore", "Evaluate", "BufferStore"),
    ]
    assert [buffer.name for buffer in root.block.alloc_buffers] == ["C"]
    outer = root.block.body
    assert outer.extent is a.shape[0]
    inner = outer.body.body
    assert [value.name for value in inner.iter_values] == ["i", "j"]
    assert inner.iter_values[0] is outer.loop_var
    assert isinstance(inner.predicate, tirx.LT)
    block = inner.block
    assert [(axis.var.name, axis.iter_type) for axis in block.iter_vars] == [("vi", 0), ("vj", 2)]
    assert block.reads[0].buffer is a
    assert block.writes[0].region[1].extent is block.iter_vars[1].var
    assert block.annotations == {"level": 2}
    store = block.body.then_case
    assert store.buffer is b
    load = store.value.a.a
    assert isinstance(load, s.TensorLoad) and load.buffer is b and load.indices == (load.indices[0], load.indices[1])
    assert store.value.b.value is k
    assert str(block.init) == "B[vi, vj] = T.float32(0.0)"


def test_loops_as_objects(functions):
    function = functions[1]
    assert [type(one).__name__ for one in function.body.seq] == [
        *("For", "For", "AttrStmt", "AllocBuffer", "BufferStore", "While", "Bind", "AssertStmt", "For", "Evaluate"),
        "Return",
    ]
    parallel, threads, launch, *_, between, call, result = function.body.seq
    assert parallel.kind == tirx.ForKind.PARALLEL
    assert threads.kind == tirx.ForKind.THREAD_BINDING
    assert (threads.thread_binding.thread_tag, threads.thread_binding.iter_type) == ("threadIdx.x", 1)
    assert (launch.attr_key, launch.node.thread_tag, launch.value.value) == ("thread_extent", "blockIdx.x", 4)
    assert (between.min.value, between.extent.value) == (4, 4)
    jumps = [between.body.then_case.value.op.name, between.body.else_case.value.op.name]
    assert jumps == ["tirx.break_loop", "tirx.continue_loop"]
    assert call.value.args[1].op.name == "tirx.buffer_data"
    assert result.value is function.body.seq[6].var


def test_functions_of_objects(functions):
    for function in functions:
        returns = [one.value.ty for one in s.stmt_list(function.body) if isinstance(one, tirx.Return)]
        made = tirx.PrimFunc(function.params, function.body, *returns, attrs=function.attrs)
        ir.assert_structural_equal(made, function)
        assert ir.structural_equal(made.body, function.body)
        assert not ir.structural_equal(made.body, functions[0].body if function is functions[1] else functions[1].body)


def test_names_of_variables_do_not_matter():
    def loop(name, start):
        i = tirx.Var(name, "int32")
        return tirx.For(i, start, 4, tirx.ForKind.SERIAL, tirx.Evaluate(i + 1))

    assert ir.structural_equal(loop("i", 0), loop("j", 0))
    assert not ir.structural_equal(loop("i", 0), loop("i", 1))


BLOCK = """
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("block"):
                v = T.axis.spatial(4, i)
                T.reads(A[v], B[v])
                T.writes(C[v])
                C[v] = A[v] + B[v]
"""


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("A", "X", True),
        ('(4,), "float32"), B', '(4,), "float16"), B', False),
        ("= A[v] + B", "= B[v] + B", False),
        ("(A[v], B", "(B[v], B", False),
    ],
)
def test_buffers_become_others_where_a_block_reads_them(before, after, expected):
    """Compares bodies, because a function would define the buffers."""
    body, other = (passhost.script.from_source(text)["main"].body for text in (BLOCK, BLOCK.replace(before, after)))
    assert ir.structural_equal(body, other) is expected
    assert ir.structural_equal(other, body) is expected


def test_a_function_from_nothing_is_executed():
    a, b = (tirx.Var(name, tirx.BufferType((4,), "float32")) for name in ("A", "A"))
    i, j = tirx.Var("i", "int32"), tirx.Var("i", "int32")
    inner = tirx.For(j, 0, 2, tirx.ForKind.SERIAL, tirx.BufferStore(b, tirx.BufferLoad(a, [i + j]) * 2, [i + j]))
    body = tirx.For(i, 0, 4, tirx.ForKind.SERIAL, inner, step=2)
    function = tirx.PrimFunc([a, b], body, attrs={"global_symbol": "double"})
    mod = ir.IRModule({"double": function})
    bb = passhost.relax.BlockBuilder(mod)
    x = passhost.relax.Var("x", passhost.relax.TensorType((4,), "float32"))
    with bb.function("main", [x]):
        call = passhost.relax.op.call_tir(mod.get_global_var("double"), [x], x.ty)
        bb.emit_func_output(bb.emit(call))
    out = passhost.exec(bb.get(), np.arange(4, dtype="float32"))
    assert out.numpy().tolist() == [0, 2, 4, 6]


def test_attributes_of_a_function(functions):
    made = functions[1].with_attr("level", 3)
    assert 'T.func_attr({"level": 3})' in made.script()
    assert made.without_attr("level").attrs.get("level") is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tirx.BufferStore(tirx.Var("x", "int32"), 1, [0]), "a buffer must be a Var"),
        (lambda: tirx.For(tirx.Var("i", "int32"), 0, 4, 0, None), "expected a statement, not"),
        (lambda: tirx.PrimFunc([], 1), "the body of a PrimFunc must be a statement"),
    ],
)
def test_what_is_not_a_statement(make, message):
    with pytest.raises(TypeError, match=message):
        make()


def test_a_variable_that_nothing_defines():
    function = tirx.PrimFunc([], tirx.Evaluate(tirx.Var("x", "int32")))
    with pytest.raises(IllFormedError, match="x"):
        function.script()
