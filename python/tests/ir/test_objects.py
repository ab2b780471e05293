"""Tests the conversion of host functions to Python objects, and back."""

import copy
import gc
import multiprocessing
import pickle

import pytest

import passhost
from passhost import ir, relax, tirx
from passhost.error import IllFormedError

TEXT = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 2), "float32"), p: R.Prim("int64")) -> R.Tensor(("n", 2), "float32"):
        n = T.int64()
        with R.dataflow():
            lv = R.add(x, R.const(1.0, "float32"))
            gv = R.multiply(lv, x)
            R.output(gv)
        s = R.shape([n, p + 1])
        return gv

    @R.function(private=True)
    def choice(c: R.Tensor((), "bool"), x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        if c:
            y = R.exp(x)
            z = R.add(y, x)
        else:
            z = R.nn.relu(x)
        return z

    @R.function
    def local(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        @R.function
        def inner(y: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            w = R.add(x, y)
            return w
        t = (x, inner(x))
        u = t[1]
        return u
"""


@pytest.fixture
def mod():
    return passhost.script.from_source(TEXT)


def test_a_function_is_the_same_object_as_long_as_it_is_the_same_function(mod):
    assert mod["main"] is mod["main"]
    f = mod["main"]
    same = passhost.passes.relax.Normalize()(mod)
    assert same["main"] is f
    assert same["main"].params[0] is f.params[0]


def test_functions_of_modules_that_nobody_uses_are_forgotten():
    from passhost.relax.expr import _FUNCTIONS

    gc.collect()
    before = len(_FUNCTIONS)
    mod = passhost.script.from_source(TEXT)
    first = mod["main"].params[0]
    assert mod["main"].params[0] is first
    del mod, first
    gc.collect()
    assert len(_FUNCTIONS) <= before


def test_fields_are_those_of_tvm(mod):
    f = mod["main"]
    block = f.body.blocks[0]
    assert isinstance(block, relax.DataflowBlock)
    lv, gv = (binding.var for binding in block.bindings)
    assert isinstance(lv, relax.DataflowVar) and not isinstance(gv, relax.DataflowVar)
    call = block.bindings[0].value
    assert call.op is ir.Op.get("relax.add") and call.args[0] is f.params[0]
    assert call.args[1].value.numpy().item() == 1.0
    assert f.body.body is gv
    assert f.attrs["global_symbol"] == "main" and f.is_pure
    n = f.params[0].ty.shape[0]
    assert isinstance(n, tirx.Var) and f.ret_ty.shape[0] is n
    shape = f.body.blocks[1].bindings[0].value
    assert shape.values[0] is n and shape.values[1].a is f.params[1]


@pytest.mark.parametrize("name", ["main", "choice", "local"])
def test_what_is_built_anew_of_the_same_objects_is_equal(mod, name):
    f = mod[name]
    again = relax.Function(f.params, f.body, f.ret_ty, f.is_pure, f.attrs)
    ir.assert_structural_equal(again, f)
    assert ir.structural_hash(again) == ir.structural_hash(f)
    assert again.script() == f.script()


def test_objects_cannot_be_changed(mod):
    f = mod["main"]
    with pytest.raises(AttributeError):
        f.params = ()
    with pytest.raises(AttributeError):
        f.body.blocks[0].bindings[0].value.args = ()


def test_the_difference_is_shown(mod):
    other = passhost.script.from_source(TEXT.replace("R.exp", "R.log"))
    with pytest.raises(ValueError, match=r"-.*R\.exp\(x\)\n.*\+.*R\.log\(x\)"):
        ir.assert_structural_equal(mod, other)


def test_a_variable_that_nothing_defines():
    x = relax.Var("x", relax.TensorType([2], "float32"))
    y = relax.Var("y", relax.TensorType([2], "float32"))
    f = relax.Function([x], y, relax.TensorType([2], "float32"))
    with pytest.raises(IllFormedError, match="Var y is not defined"):
        ir.IRModule({"main": f}).script()


def test_deep_expressions_are_an_error():
    x = relax.Var("x", relax.TensorType([2], "float32"))
    deep = x
    for _ in range(100_000):
        deep = relax.op.exp(deep)
    with pytest.raises(IllFormedError, match="nested more than"):
        ir.IRModule({"main": relax.Function([x], deep, relax.TensorType([2], "float32"))}).script()


def test_shared_expressions_are_an_error_where_they_are_too_many():
    x = relax.Var("x", relax.TensorType([2], "float32"))
    y = x
    for _ in range(60):
        y = relax.op.add(y, y)
    with pytest.raises(IllFormedError, match="too many"):
        relax.Function([x], y, relax.TensorType([2], "float32"))._seal("main")


def test_modules_are_edited(mod):
    f = mod["choice"]
    other = mod.clone()
    other["again"] = f
    assert "again" in other and "again" not in mod and len(other) == 4
    assert other.get_global_var("again").name_hint == "again"
    del other["again"]
    ir.assert_structural_equal(other, mod)
    with pytest.raises(AttributeError, match="nothing"):
        mod["nothing"]
    with pytest.raises(TypeError):
        mod["x"] = 1
    attrs = mod.with_attr("key", [1, "a"])
    assert list(attrs.attrs["key"]) == [1, "a"] and not mod.attrs
    assert passhost.passes.relax.Normalize()(attrs).attrs["key"] == (1, "a")
    assert list(ir.IRModule.from_expr(mod["main"]).functions) == [ir.GlobalVar("main")]


@pytest.mark.parametrize("wrong", [1, "x", None, [1], object()])
def test_arguments_of_wrong_types(wrong):
    with pytest.raises(TypeError):
        ir.Call(wrong, []) if wrong != "x" else ir.Call(ir.Op.get("relax.add"), [object()])
    with pytest.raises(TypeError):
        relax.VarBinding(wrong, relax.const(1))
    with pytest.raises(TypeError):
        relax.SeqExpr([wrong], relax.const(1))
    with pytest.raises((TypeError, ValueError)):
        relax.Var("x", wrong) if wrong is not None else relax.Var(None)


def test_constants_keep_their_bytes():
    import numpy as np

    array = np.arange(6, dtype="float16").reshape(2, 3)
    x = relax.Var("x", relax.TensorType([2, 3], "float16"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(relax.op.add(x, relax.const(array))))
    mod = passhost.passes.relax.Normalize()(bb.get())
    found = ir.IRModule._of(mod._handle())["main"].body.blocks[0].bindings[0].value.args[1]
    assert (found.value.numpy() == array).all() and not found.value.numpy().flags.writeable


def test_a_function_that_calls_itself():
    mod = passhost.script.from_source("""
@I.ir_module
class Module:
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        if c:
            y = Module.main(c, x)
        else:
            y = R.add(x, x)
        return y
""")
    f = mod["main"]
    again = relax.Function(f.params, f.body, f.ret_ty, f.is_pure, f.attrs)
    ir.assert_structural_equal(ir.IRModule({"main": again}), mod)


def test_a_pass_keeps_variables(mod):
    function = mod["main"]
    symbols = {var.name: var for block in function.body.blocks for var in (b.var for b in block.bindings)}
    after = passhost.passes.relax.DeadCodeElimination()(mod)["main"]
    assert after is not function
    assert after.params[0] is function.params[0]
    for block in after.body.blocks:
        for binding in block.bindings:
            assert binding.var is symbols[binding.var.name]


def test_a_pass_keeps_symbolic_variables():
    mod = passhost.script.from_source("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32")):
        y = R.add(x, x)
        return y
""")
    before = mod["main"]
    n = before.params[0].ty.shape[0]
    lowered = passhost.passes.relax.LegalizeOps()(mod)["main"]
    assert lowered.params[0].ty.shape[0] is n
    call = lowered.body.blocks[0].bindings[0].value
    assert call.ty_args[0].shape[0] is n


def test_calls_of_external_functions():
    mod = passhost.script.from_source("""
@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Tensor((2,), "float32")):
        y = R.call_packed("test.f", x, ty_args=(R.Tensor((2,), "float32"),))
        return y
""")
    call = mod["main"].body.blocks[0].bindings[0].value
    assert isinstance(call.op, relax.ExternFunc)
    assert (call.op.global_symbol, len(call.args)) == ("test.f", 1)
    assert repr(call) == 'R.call_packed("test.f", x, ty_args=R.Tensor((2,), dtype="float32"))'
    x = relax.Var("x", call.args[0].ty)
    builder = relax.BlockBuilder()
    with builder.function("main", [x], pure=False):
        builder.emit_func_output(builder.emit(relax.op.call_packed("test.f", x, ty_args=call.ty_args[0])))
    passhost.ir.assert_structural_equal(builder.get(), mod)


def test_copies_are_the_object_itself():
    main = passhost.script.from_source(TEXT)["main"]
    for node in (main, main.params[0], main.params[0].ty, main.body, main.body.blocks[0]):
        assert copy.copy(node) is node
        assert copy.deepcopy([node])[0] is node


def test_modules_and_functions_are_pickled():
    mod = passhost.script.from_source(TEXT).with_attr("author", "me")
    mod["data"] = relax.Function([], relax.const([1.5, 2.5], "float32"))
    lowered = passhost.passes.relax.LegalizeOps()(mod)
    for node in (mod, lowered, mod["main"], mod["data"], lowered["add"], lowered["local"]):
        found = pickle.loads(pickle.dumps(node))
        assert type(found) is type(node)
        ir.assert_structural_equal(node, found)
    assert pickle.loads(pickle.dumps(mod)).attrs == {"author": "me"}
    called = ir.load_json(ir.save_json(lowered["local"]))
    ir.assert_structural_equal(called, lowered["local"])
    assert [var.name_hint for var in relax.analysis.all_global_vars(called)] == ["add"]


def test_a_module_that_contradicts_itself_is_pickled():
    text = TEXT.replace("w = R.add(x, y)", "w = R.add(x, R.const(1, 'int32'))")
    wrong = passhost.script.from_source(text, check_well_formed=False)
    found = pickle.loads(pickle.dumps(wrong))
    assert found.script() == wrong.script()
    with pytest.raises(IllFormedError, match="float32 and int32 differ"):
        relax.analysis.well_formed(found)


def test_other_nodes_are_not_pickled():
    main = passhost.script.from_source(TEXT)["main"]
    with pytest.raises(TypeError, match="a Var alone cannot be pickled; pickle the function or module that it is in"):
        pickle.dumps(main.params[0])
    with pytest.raises(TypeError, match="a SeqExpr alone cannot be pickled"):
        pickle.dumps({"body": main.body})


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_modules_go_to_other_processes(method):
    mod = passhost.script.from_source(TEXT)
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.map(len, [mod]) == [len(mod)]
        [found] = pool.map(copy.copy, [mod])
    ir.assert_structural_equal(mod, found)
