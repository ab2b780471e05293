"""Tests schedules: each primitive has the same effect as in the runtime library, and refusals raise `ScheduleError`."""

import re
from pathlib import Path

import numpy as np
import pytest

import passhost
from passhost import s_tir
from passhost.error import NameNotFoundError, PasshostError
from passhost.s_tir import ScheduleError

CASES = (Path(__file__).parents[3] / "runtime/tests/schedules/cases.txt").read_text(encoding="utf-8")


def module(function):
    lines = "".join(f"    {line}\n" for line in function.rstrip().splitlines())
    return passhost.script.from_source(f"@I.ir_module\nclass Module:\n    @T.prim_func(s_tir=True)\n{lines}")


def cases():
    """Yields the title, function, trace and result of each case of the library."""
    head, *rest = re.split(r"^== ", CASES, flags=re.M)
    functions = dict(re.findall(r"^-- function (\w+)\n(.*?)(?=\n\n-- function |\Z)", head.rstrip(), flags=re.M | re.S))
    for case in rest:
        title, function, trace, after = re.fullmatch(
            r"(.*)\n-- trace (\w+)\n(.*?)\n?-- after\n(.*)", case.rstrip() + "\n", flags=re.S
        ).groups()
        yield pytest.param(functions[function], trace, after, id=title)


def applied(sch, trace):
    """Calls the methods named by the lines of a trace."""
    known = {}
    for line in trace.splitlines():
        outs, call = line.split(" = ", 1) if " = " in line else ("", line)
        name, text = re.fullmatch(r"(\w+)\((.*)\)", call).groups()
        args = list(eval(f"({text},)", {}, known))
        made = getattr(sch, name)(*(args[0] if name in ("reorder", "fuse") else args))
        outs = [out.strip() for out in outs.split(",") if out.strip()]
        known.update(zip(outs, made if isinstance(made, list) else [made], strict=False))
    return sch.mod


@pytest.mark.parametrize(("function", "trace", "after"), list(cases()))
def test_a_primitive_does_what_the_library_does(function, trace, after):
    sch = s_tir.Schedule(module(function))
    if after.startswith("error: "):
        with pytest.raises(ScheduleError) as refused:
            applied(sch, trace)
        # The library puts the line number in the trace before the reason.
        assert after.rstrip().endswith(str(refused.value))
    else:
        passhost.ir.assert_structural_equal(applied(sch, trace), module(after))


SOURCE = """
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def first(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
        B = T.sblock_alloc_buffer((8, 8))
        for i, j in T.grid(8, 8):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for i, j in T.grid(8, 8):
            with T.sblock("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + A[vi, vj]

    @T.prim_func(s_tir=True)
    def second(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.sblock("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] + T.float32(1)

    @R.function
    def main(x: R.Tensor((8, 8), "float32")) -> R.Tensor((8, 8), "float32"):
        cls = Module
        y = R.call_tir(cls.first, (x,), out_ty=R.Tensor((8, 8), "float32"))
        return y
"""


@pytest.fixture
def two():
    """Returns a module with two TIR functions, and a function that calls the first."""
    return passhost.script.from_source(SOURCE)


def test_a_block_is_found_in_a_function(two):
    sch = s_tir.Schedule(two)
    assert sch.func_working_on is None
    with pytest.raises(ValueError, match="work_on or func_name"):
        sch.get_sblock("B")
    assert len(sch.get_loops(sch.get_sblock("B", "first"))) == 2
    sch.work_on("second")
    assert sch.func_working_on.name_hint == "second"
    [loop] = sch.get_loops("B")
    with pytest.raises(ScheduleError, match="several functions: first, second"):
        sch.compute_at(sch.get_sblock("B", "first"), loop)
    with pytest.raises(NameNotFoundError, match="nothing"):
        sch.work_on("nothing")
    with pytest.raises(TypeError, match="is not a TIR function"):
        sch.work_on("main")
    with pytest.raises(ScheduleError, match="block `Bb` does not exist"):
        sch.get_sblock("Bb")
    only = s_tir.Schedule(two["second"])
    assert only.func_working_on.name_hint == "main"


def test_blocks_around_a_block(two):
    sch = s_tir.Schedule(two)
    b, c = sch.get_sblock("B", "first"), sch.get_sblock("C", "first")
    assert (sch.get_producers(c), sch.get_consumers(b)) == ([b], [c])
    assert sch.get_child_blocks(sch.get_loops(c)[0]) == [c]


def test_a_module_changes_where_it_was_scheduled_and_computes_the_same(two):
    sch = s_tir.Schedule(two)
    assert sch.mod is two
    sch.work_on("first")
    b, c = sch.get_sblock("B"), sch.get_sblock("C")
    sch.compute_at(b, sch.get_loops(c)[0])
    passhost.ir.assert_structural_equal(sch.mod["second"], two["second"])
    assert not passhost.ir.structural_equal(sch.mod["first"], two["first"])
    sch.parallel(sch.get_loops(c)[0])
    x = np.arange(64, dtype="float32").reshape(8, 8)
    for backend in ("llvm", "interpreter"):
        np.testing.assert_array_equal(passhost.exec(sch.mod, x, backend=backend).numpy(), 3 * x)


def test_a_trace_is_shown_and_done_again(two, capsys):
    sch = s_tir.Schedule(two)
    i, _ = sch.get_loops(sch.get_sblock("C", "first"))
    sch.split(i, factors=[None, 4])
    assert str(sch.trace).splitlines() == [
        'b0 = get_block("C")',
        "l0, l1 = get_loops(b0)",
        "l2, l3 = split(l0, [None, 4])",
    ]
    again = s_tir.Schedule(two)
    sch.trace.apply_to_schedule(again)
    passhost.ir.assert_structural_equal(again.mod, sch.mod)
    sch.vectorize(sch.get_loops(sch.get_sblock("B", "second"))[0])
    assert [line for line in str(sch.trace).splitlines() if line.startswith("#")] == ["# first", "# second"]
    capsys.readouterr()
    sch.show()
    assert capsys.readouterr().out == f"{sch.mod.script()}\n{sch.trace}\n"
    # A trace that fails partway does not change the schedule: the loop in `again` is already split.
    other = s_tir.Schedule(two["second"])
    with pytest.raises(PasshostError, match="first"):
        sch.trace.apply_to_schedule(other)
    assert str(other.trace) == ""


def test_a_copy_has_the_same_blocks_and_a_life_of_its_own(two):
    sch = s_tir.Schedule(two)
    i, j = sch.get_loops(sch.get_sblock("B", "first"))
    other = sch.copy()
    other.fuse(i, j)
    assert str(sch.trace) == ""
    sch.reorder(j, i)
    with pytest.raises(ScheduleError, match="the loop no longer exists"):
        other.reorder(j, i)


def test_what_is_refused_changes_nothing(two):
    sch = s_tir.Schedule(two)
    b = sch.get_sblock("B", "first")
    before = sch.mod
    with pytest.raises(ScheduleError, match="`compute_at`"):
        sch.compute_at(b, sch.get_loops(b)[0])
    assert isinstance(ScheduleError(""), RuntimeError)
    assert str(sch.trace) == ""
    passhost.ir.assert_structural_equal(sch.mod, before)


def test_dimensions_of_a_buffer_change_their_order(two):
    sch = s_tir.Schedule(two)
    copy = sch.cache_read(sch.get_block("C", "first"), "A", "global")
    by_name = sch.copy()
    sch.transform_layout(copy, ("write", 0), lambda i, j: (j, i))
    assert "A_global[v1, v0] = A[v0, v1]" in sch.mod.script()
    by_name.transform_layout(by_name.get_block("A_global", "first"), "A_global", lambda i, j: [j, i])
    passhost.ir.assert_structural_equal(sch.mod, by_name.mod)
    assert 'transform_layout(b1, "write", 0, [1, 0])' in str(sch.trace)
    for wrong, kind, message in [
        (lambda i, j: (i, i), ScheduleError, "must list each of the 2 dimensions"),
        (lambda i: (i,), ScheduleError, "must list each of the 2 dimensions"),
        (lambda i, j: (i + j, j), ScheduleError, "may only permute the indices"),
        (lambda *all: all, ScheduleError, "a parameter for each index"),
        ([1, 0], TypeError, "index_map must be a function"),
    ]:
        with pytest.raises(kind, match=message):
            sch.transform_layout(copy, ("write", 0), wrong)
    with pytest.raises(ScheduleError, match="callers of the function depend on the layout of `A`"):
        sch.transform_layout(copy, ("read", 0), lambda i, j: (j, i))
    with pytest.raises(TypeError, match="takes"):
        sch.transform_layout(copy, ("out", 0), lambda i, j: (j, i))


def test_a_buffer_is_given_by_its_name(two):
    sch = s_tir.Schedule(two)
    c = sch.get_sblock("C", "first")
    copy = sch.cache_read(c, "A", "local")
    by_position = s_tir.Schedule(two)
    by_position.cache_read(by_position.get_sblock("C", "first"), 1, "local")
    passhost.ir.assert_structural_equal(sch.mod, by_position.mod)
    assert sch.get_consumers(copy) == [sch.get_sblock("B", "first"), sch.get_sblock("C", "first")]
    with pytest.raises(ScheduleError, match="0 of the buffers C have the name `A`"):
        sch.cache_write(c, "A", "local")


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda sch, block, loop: sch.split(block, [None, 2]), TypeError, "split takes a loop from get_loops"),
        (lambda sch, block, loop: sch.split(loop, 2), TypeError, "factors must be a list"),
        (lambda sch, block, loop: sch.split(loop, [2.5]), TypeError, "a factor must be an integer"),
        (
            lambda sch, block, loop: sch.split(loop, [None, 2], disable_predication=True),
            ScheduleError,
            "disable_predication=True is not supported; only False is",
        ),
        (lambda sch, block, loop: sch.compute_at(block, loop, index=0), ScheduleError, "index=0 is not supported"),
        (lambda sch, block, loop: sch.compute_at(block, loop, True), ScheduleError, "preserve_unit_loops=True"),
        (
            lambda sch, block, loop: sch.cache_read(block, 0, "local", [block]),
            ScheduleError,
            "consumer_blocks=.*only None",
        ),
        (lambda sch, block, loop: sch.cache_read(block, -1, "local"), ValueError, "position of a buffer"),
        (lambda sch, block, loop: sch.get_loops(loop), TypeError, "get_loops takes a block"),
        (lambda sch, block, loop: sch.reorder([loop]), TypeError, "reorder takes a loop"),
        (lambda sch, block, loop: sch.fuse(), ValueError, "at least one loop"),
        (lambda sch, block, loop: s_tir.Schedule(sch), TypeError, "an IRModule or a PrimFunc"),
    ],
)
def test_arguments_of_other_kinds(two, call, kind, message):
    sch = s_tir.Schedule(two)
    sch.work_on("second")
    with pytest.raises(kind, match=message):
        call(sch, sch.get_sblock("B"), sch.get_loops("B")[0])


def test_names_of_tvm():
    program = "from passhost.tvm import install; install(); import tvm; from tvm.s_tir.schedule import Schedule; "
    import subprocess
    import sys

    program += "assert tvm.s_tir.Schedule is Schedule and issubclass(tvm.s_tir.ScheduleError, RuntimeError)"
    subprocess.run([sys.executable, "-c", program], check=True)
