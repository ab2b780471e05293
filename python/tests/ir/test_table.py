import gc
import weakref

import numpy as np
import pytest

import passhost
from passhost import _passhost
from passhost.ir import table

SOURCE = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 4), "float32")) -> R.Tensor((2, 4), "float32"):
        return R.add(x, x)
"""


@pytest.mark.parametrize("name", ["Kind", "Flag", "Leaf", "TypeKind"])
def test_kinds_are_those_of_the_host(name):
    known = dict(_passhost.record_kinds())[name]
    assert [(member.name, member.value) for member in getattr(table, name)] == known


def test_a_table_shares_the_memory_of_the_function(mod):
    nodes = mod["main"].table()
    again = mod["main"].table("nodes")
    assert nodes.ctypes.data == again.ctypes.data
    assert np.shares_memory(nodes, again)
    address, is_read_only = nodes.base.__array_interface__["data"]
    assert (address, is_read_only) == (nodes.ctypes.data, True)
    assert nodes.dtype.names == ("kind", "flags", "ty", "ops", "n_ops", "attrs", "a")
    assert nodes.dtype.itemsize == 24


def test_a_table_cannot_be_written(mod):
    nodes = mod["main"].table()
    assert not nodes.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        nodes["kind"][0] = 0
    with pytest.raises(ValueError, match="WRITEABLE"):
        nodes.flags.writeable = True
    assert mod["main"].script() == passhost.script.from_source(mod.script())["main"].script()


def test_every_table_has_rows_of_its_columns(mod):
    names = (
        "nodes operands leaves types lists prims strs str_bytes dicts attrs consts buffers names name_bytes var_names"
    )
    rows = {name: mod["main"].table(name) for name in names.split()}
    assert all(rows[name].ndim == 1 for name in rows)
    assert len(rows["names"]) == len(rows["nodes"])
    calls = rows["nodes"][rows["nodes"]["kind"] == table.Kind.CALL]
    assert len(calls) == mod["main"].table()["kind"].tolist().count(table.Kind.CALL) == 3
    assert table.operators(mod["main"]) == {"relax.add": 1, "relax.multiply": 1, "relax.nn.relu": 1}
    with pytest.raises(ValueError, match='unknown table "edges"; a function has nodes, operands'):
        mod["main"].table("edges")


def test_functions_of_tir_have_tables():
    lowered = passhost.script.from_source("""
@I.ir_module
class Module:
    @T.prim_func
    def f(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        for i in range(4):
            y[i] = x[i] + T.float32(1)
""")
    kinds = lowered["f"].table()["kind"]
    assert kinds[0] == table.Kind.PRIM_FUNC
    assert table.Kind.STORE in kinds and table.Kind.LOAD in kinds
    assert len(lowered["f"].table("buffers")) >= 1


def test_a_table_outlives_its_module():
    mod = passhost.script.from_source(SOURCE)
    function = mod["main"]
    nodes, copy = function.table(), function.table().copy()
    gone = weakref.ref(function)
    del mod, function
    gc.collect()
    for _ in range(100):
        passhost.script.from_source("@R.function\ndef f(x: R.Tensor((2,), 'float32')):\n    return R.add(x, x)")
    assert gone() is None
    assert (nodes == copy).all()


def test_a_function_made_in_python_has_a_table():
    builder = passhost.relax.BlockBuilder()
    x = passhost.relax.Var("x", passhost.relax.TensorType((4,), "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(passhost.relax.op.add(x, x)))
    assert table.operators(builder.finalize()["main"]) == {"relax.add": 1}
