"""Tests BlockBuilder, visitors, mutators and passes over functions."""

import numpy as np
import pytest

import passhost
from passhost import ir, relax, tirx
from passhost.script import ir as I
from passhost.script import relax as R
from passhost.transform import Sequential


def build(length=3):
    bb = relax.BlockBuilder()
    n = tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType([n, 4], "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            y = x
            for _ in range(length):
                y = bb.emit(relax.op.nn.relu(relax.op.add(y, x)))
            y = bb.emit_output(y)
        bb.emit_func_output(y)
    return bb.get()


def test_nested_calls_become_bindings():
    names = [binding.var.name for binding in build(2)["main"].body.blocks[0].bindings]
    assert names == ["lv", "lv1", "lv2", "lv3", "gv"]


def test_types_are_inferred():
    bb = relax.BlockBuilder()
    m, n = tirx.Var("m", "int64"), tirx.Var("n", "int64")
    x, y = relax.Var("x", relax.TensorType([m, 1])), relax.Var("y", relax.TensorType([n]))
    with bb.function("main", [x, y]):
        z = bb.emit(x + y)
        assert z.ty == relax.TensorType([m, n])
        with pytest.raises(ValueError, match=r"relax\.matmul"):
            bb.emit(relax.op.matmul(x, relax.Var("w", relax.TensorType([3, 3]))))
        bb.emit_func_output(z)


@pytest.mark.parametrize("nested", [True, False])
def test_functions_end_with_one_output(nested):
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([2]))
    with pytest.raises(RuntimeError), bb.function("main", [x]):
        if nested:
            with bb.function("other", [x]):
                pass
    assert relax.BlockBuilder.current() is None


class Doubled(relax.PyExprMutator):
    """Replaces relu with relu of a sum."""

    def visit_call_(self, call):
        call = super().visit_call_(call)
        if call.op.name == "relax.nn.relu":
            return relax.op.nn.relu(relax.op.add(call.args[0], call.args[0]))
        return call


def test_a_mutator():
    mod = build(1)
    made = Doubled(mod).visit_expr(mod["main"])
    calls = [b.value.op.name for b in made.body.blocks[0].bindings if isinstance(b.value, relax.Call)]
    assert calls == ["relax.add", "relax.add", "relax.nn.relu"]
    relax.analysis.well_formed(ir.IRModule.from_expr(made))


def test_what_a_mutator_leaves_alone_is_the_same_object():
    mod = passhost.passes.relax.Normalize()(build(5))
    f = mod["main"]
    assert relax.PyExprMutator(mod).visit_expr(f) is f


def test_passes_over_functions_and_blocks_among_others():
    seen = []

    @relax.transform.function_pass(opt_level=0)
    def double(func, mod, ctx):
        return Doubled(mod).visit_expr(func)

    @relax.transform.dataflowblock_pass(opt_level=0)
    def count(block, mod, ctx):
        seen.append(len(block.bindings))
        return block

    made = Sequential([double, count, relax.transform.CanonicalizeBindings(), count])(build(1))
    assert seen == [4, 3]
    relax.analysis.well_formed(made)


def test_a_pass_that_returns_nothing():
    @relax.transform.function_pass(opt_level=0)
    def nothing(func, mod, ctx):
        return None

    with pytest.raises(TypeError, match="nothing returned NoneType"):
        nothing(build(1))


K = 4


def test_scripts_with_captured_values():
    dtype = "float16"

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", K), dtype)):
            return R.nn.relu(x)

    assert Module["main"].params[0].ty.dtype == "float16"
    assert int(Module["main"].params[0].ty.shape[1]) == 4

    @R.function(private=True)
    def f(x: R.Tensor((K, K * 2), dtype)):
        return R.permute_dims(x)

    assert [int(dim) for dim in f.ret_ty.shape] == [8, 4]


def test_operators_have_signatures():
    import inspect

    assert list(inspect.signature(relax.op.nn.conv2d).parameters)[:3] == ["data", "weight", "strides"]
    x = relax.Var("x", relax.TensorType([2, 3]))
    assert relax.op.sum(x, axis=1).attrs.axis == (1,)
    with pytest.raises(TypeError, match="keepdims"):
        relax.op.sum(x, keepdims="yes")
    with pytest.raises(AttributeError, match="relax.nn.gelo"):
        _ = relax.op.nn.gelo
    with pytest.raises(TypeError):
        relax.op.add(x)
    with pytest.raises(TypeError):
        relax.op.add(x, object())


def test_bind_params():
    import numpy as np

    mod = build(1)
    bound = relax.transform.BindParams("main", {"x": np.ones((2, 4), "float32")})(mod)
    assert bound["main"].params == () and [int(dim) for dim in bound["main"].ret_ty.shape] == [2, 4]
    relax.analysis.well_formed(bound)
    with pytest.raises(ValueError, match="no parameter is named y"):
        relax.transform.BindParams("main", {"y": np.ones((2, 4))})(mod)


def test_expressions_that_are_nested_too_deeply():
    x = relax.Var("x", relax.TensorType((2,), "float32"))
    deep, other = x, x
    for _ in range(10_000):
        deep, other = relax.Tuple([deep]), relax.Tuple([other])
    for use in (
        relax.PyExprVisitor().visit_expr,
        relax.PyExprMutator().visit_expr,
        relax.BlockBuilder().normalize,
        relax.analysis.free_vars,
        repr,
        passhost.ir.structural_hash,
        lambda expr: passhost.ir.structural_equal(expr, other),
    ):
        with pytest.raises(passhost.error.NestedTooDeepError, match="bind nested expressions to variables"):
            use(deep)


def test_types_of_calls_are_checked_unless_told_otherwise():
    x = relax.Var("x", relax.TensorType((2,), "float32"))
    y = relax.Var("y", relax.TensorType((3,), "float32"))
    call = relax.Call(relax.op.add(x, x).op, [x, x], ret_ty=y.ty)
    block = relax.BindingBlock([relax.VarBinding(y, call)])
    function = relax.Function([x], relax.SeqExpr([block], y), y.ty)
    assert not relax.analysis.check_well_formed(function)
    assert relax.analysis.check_well_formed(function, check_ty=False)
    free = relax.Function([x], relax.SeqExpr([block], relax.Var("z", y.ty)), y.ty)
    assert not relax.analysis.check_well_formed(free, check_ty=False)


def test_finished_modules_have_public_names():
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([2], "float32"))
    with bb.function("main", [x], private=True):
        inner = bb.emit_func_output(bb.emit(relax.op.exp(x)))
    y = relax.Var("y", relax.TensorType([2], "float32"))
    with bb.function("main", [y]):
        outer = bb.emit_func_output(bb.emit(relax.Call(inner, [y])))
    assert (inner.name_hint, outer.name_hint) == ("main", "main1")
    with pytest.raises(ValueError, match="global_symbol"):
        relax.analysis.well_formed(bb.get())
    mod = bb.finalize()
    relax.analysis.well_formed(mod)
    assert [var.name_hint for var in mod.get_global_vars()] == ["main", "main2"]
    assert mod["main"].body.blocks[0].bindings[0].value.op.name_hint == "main2"


def test_variables_of_dataflow_blocks_are_not_used_in_plain_blocks():
    bb = relax.BlockBuilder()
    with bb.function("main", []):
        with bb.dataflow():
            inner = bb.emit(relax.const(1.0))
            bb.emit_output(inner)
        bb.emit(relax.op.exp(inner))
        with pytest.raises(RuntimeError, match="is a DataflowVar"):
            bb.emit_func_output(relax.const(1.0))


def test_a_choice_needs_a_type():
    x = relax.Var("x", relax.TensorType([2], "float32"))
    c = relax.Var("c", relax.TensorType([], "bool"))
    function = relax.Function([c, x], relax.If(c, x, x), x.ty)
    for _ in range(2):
        with pytest.raises(ValueError, match="is unknown: normalize"):
            relax.analysis.well_formed(function)
        function._seal()


def test_functions_alone_are_checked_with_what_they_say_of_others():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            return Module.other(x)

        @R.function(private=True)
        def other(x: R.Tensor((2,), "float32")):
            return R.exp(x)

    relax.analysis.well_formed(Module["main"])


def test_dimensions_are_integers():
    with pytest.raises(RuntimeError, match="int64: dim is a float32"):
        relax.TensorType([tirx.Var("dim", "float32")], "float32")


def test_a_nested_output_is_bound():
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([2], "float32"))
    with bb.function("main", [x]):
        bb.emit_func_output([relax.op.exp(x), relax.op.sin(relax.op.exp(x))])
    assert len(bb.get()["main"].body.blocks[0].bindings) == 3


def test_operators_of_vision_have_short_names():
    assert relax.op.roi_align.operator == relax.op.vision.roi_align.operator == "relax.vision.roi_align"
    assert {"get_valid_counts", "masked_fill", "call_py_func"} <= set(dir(relax.op))


def test_masked_elements_are_filled():
    bb = relax.BlockBuilder()
    x, mask = relax.Var("x", relax.TensorType([2], "float32")), relax.Var("mask", relax.TensorType([2], "bool"))
    with bb.function("main", [x, mask]):
        bb.emit_func_output(bb.emit(relax.op.masked_fill(x, mask, relax.const(3.0, "float32"))))
    filled = passhost.exec(bb.get(), np.array([1, 2], "float32"), np.array([True, False]))
    assert filled.numpy().tolist() == [3.0, 2.0]


def test_a_python_function_is_called_by_name():
    x = relax.Var("x", relax.TensorType([2], "float32"))
    call = relax.op.call_py_func("f", (x,), relax.TensorType([2], "float32"))
    assert [ty.dtype for ty in call.ty_args] == ["float32"] and call.args[0].value == "f"


def test_functions_take_parameters_in_the_order_of_tvm():
    q, starts, most = (relax.Var(name, relax.TensorType([2], "int32")) for name in ("q", "starts", "most"))
    ends, more = relax.Var("ends", relax.TensorType([2], "int32")), relax.Var("more", relax.TensorType([], "int32"))
    nn = relax.op.nn
    assert list(nn.attention_var_len(q, q, q, starts, most).args) == [q, q, q, starts, starts, most, most]
    given = nn.attention_var_len(q, q, q, starts, most, ends, more, 0.5, "TopLeft", 4)
    assert list(given.args) == [q, q, q, starts, ends, most, more]
    assert (given.attrs["causal_mask"], given.attrs["window_size"]) == ("TopLeft", 4)
    assert nn.attention(q, q, q).op.name == nn.attention_bias(q, q, q).op.name == "relax.nn.attention"
    assert nn.attention(q, q, q, starts).op.name == "relax.nn.attention_bias"
    pooled = nn.max_pool2d(q, (3, 3), (2, 2), (1, 1), (1, 2), True)
    assert (pooled.attrs["padding"], pooled.attrs["dilation"]) == ((1, 1, 1, 1), (1, 2))
    padded = nn.pad(q, [1, 1], "reflect")
    assert (padded.attrs["pad_mode"], padded.attrs["pad_value"]) == ("reflect", 0.0)
    scaled = relax.op.quantize(q, q, q, 1, "uint8")
    assert (scaled.attrs["axis"], scaled.attrs["out_dtype"]) == (1, "uint8")


def test_functions_have_the_defaults_of_tvm():
    x = relax.Var("x", relax.TensorType([1, 3, 4, 4], "float32"))
    assert [arg.value for arg in relax.op.eye(3).args] == [3, 3, 0]
    assert relax.op.tril(x).args[1].value == relax.op.triu(x).args[1].value == relax.op.eye_like(x).args[1].value == 0
    assert [arg.value for arg in relax.op.unique(x).args[1:]] == [1, 0, 0, 0]
    resized = relax.op.image.resize2d(x, 8)
    assert (list(resized.args[1].values), resized.attrs["roi"]) == ([8, 8], (0.0, 0.0, 0.0, 0.0))
    assert [arg.value for arg in relax.op.nn.relu6(x).args[1:]] == [0, 6]
    assert str(relax.op.linear(x, x, x)).startswith("R.add(R.matmul(x, R.permute_dims(x")
    tensor = relax.op.memory.alloc_tensor(x, 0, (2,), "float32")
    assert [type(arg).__name__ for arg in tensor.args] == ["Var", "IntImm", "ShapeExpr", "DataTypeImm", "IntImm"]
    checked = relax.op.assert_op(x, [x], "is {}")
    assert [type(arg).__name__ for arg in checked.args] == ["Var", "StringImm", "Var"]
    with pytest.raises(TypeError):
        relax.op.zeros((2,))
