"""Tests the order of visits, the methods that a mutator calls, and shared expressions, as in TVM 0.27."""

import threading

import numpy as np
import pytest

import passhost
from passhost import relax, script
from passhost.error import IllFormedError
from passhost.relax import PyExprMutator, PyExprVisitor

SOURCE = """
# from tvm.script import ir as I
# from tvm.script import relax as R
# from tvm.script import tirx as T

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32")) -> R.Tensor(("n", 4), "float32"):
        n = T.int64()
        with R.dataflow():
            a = R.add(x, x)
            z = R.match_cast(a, R.Tensor((n, 4), "float32"))
            b = R.exp(a)
            R.output(b, z)
        return b
"""


@pytest.fixture
def module():
    return script.from_source(SOURCE)


class Seen(PyExprVisitor):
    def __init__(self):
        super().__init__()
        self.names = []


def test_a_visitor_sees_the_variables_and_shapes_in_the_types_of_what_is_used(module):
    class Names(Seen):
        def visit_var_(self, op):
            self.names.append(op.name)

        def visit_shape_expr_(self, op):
            self.names.append("shape")

    visitor = Names()
    visitor.visit_expr(module["main"])
    # Shapes in order of visits: the first call, `a`, the match_cast, `a` again, the second call, the sequence.
    assert visitor.names == ["x", "x", *["shape"] * 5, "b", "shape"]


def test_a_visitor_of_variables_is_not_called_for_those_of_dataflow_blocks(module):
    class Names(Seen):
        def visit_var_(self, op):
            self.names.append(op.name)

        def visit_dataflow_var_(self, op):
            self.names.append(f"dataflow {op.name}")

    visitor = Names()
    visitor.visit_expr(module["main"])
    assert visitor.names == ["x", "x", "n", "dataflow a", "n", "dataflow a", "n", "b", "n"]


def test_a_mutator_that_defines_other_variables_does_so_in_dataflow_blocks_too(module):
    class Renamed(PyExprMutator):
        def visit_var_def_(self, var):
            made = type(var)(f"new_{var.name}", var.ty)
            self.set_var_remap(var, made)
            return made

    made = Renamed().visit_expr(module["main"])
    assert [binding.var.name for binding in made.body.blocks[0].bindings] == ["new_a", "new_z", "new_b"]


def test_a_method_with_type_of_a_mutator_is_asked_for_each_binding(module):
    class Renamed(PyExprMutator):
        def with_type(self, var, ty):
            var = super().with_type(var, ty)
            return type(var)(f"new_{var.name}", var.ty)

        def visit_call_(self, call):
            call = self.visit_expr_post_order(call)
            return relax.op.exp(*call.args[:1])

    made = Renamed().visit_expr(module["main"])
    assert [binding.var.name for binding in made.body.blocks[0].bindings] == ["new_a", "new_z", "new_b"]


def test_bindings_before_a_sequence_in_a_dataflow_block_are_kept(module):
    class Sequences(PyExprMutator):
        inner = ()

        def visit_call_(self, call):
            call = self.visit_expr_post_order(call)
            if call.op.name != "relax.exp":
                return call
            return relax.SeqExpr([relax.BindingBlock(self.inner)], relax.op.sin(call.args[0]))

    made = Sequences(module).visit_expr(module["main"])
    assert [binding.var.name for binding in made.body.blocks[0].bindings] == ["a", "z", "b"]

    class Filled(Sequences):
        inner = (relax.VarBinding(relax.Var("w", relax.TensorType([1], "float32")), relax.const([1.0])),)

    with pytest.raises(IllFormedError, match="cannot go into the dataflow block"):
        Filled(module).visit_expr(module["main"])


def test_a_call_of_another_function_has_the_type_of_that():
    bb = relax.BlockBuilder()
    n = relax.Var("n", passhost.ir.PrimType("int64"))
    with bb.function("number", [n]):
        number = bb.emit_func_output(n)
    x = relax.Var("m", passhost.ir.PrimType("int64"))
    with bb.function("tensor", [x]):
        tensor = bb.emit_func_output(relax.const([1.0]))
    y = relax.Var("y", passhost.ir.PrimType("int64"))
    with bb.function("main", [y]):
        bb.emit_func_output(bb.emit(number(y)))
    module = bb.get()

    class Other(PyExprMutator):
        def visit_global_var_(self, op):
            return tensor

    made = Other(module).visit_expr(module["main"])
    assert made.body.blocks[0].bindings[0].value.ty == relax.TensorType([1], "float32")


def test_what_is_shared_is_bound_once():
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([2], "float32"))
    with bb.function("main", [x]):
        value = x
        for _ in range(40):
            value = relax.op.add(value, value)
        bb.emit_func_output(bb.emit(value))
    assert len(bb.get()["main"].body.blocks[0].bindings) == 40


def test_a_dataflow_block_is_closed_by_an_exception_and_does_not_nest():
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([2], "float32"))
    with bb.function("main", [x]):
        try:
            with bb.dataflow():
                bb.emit_output(relax.op.exp(x))
                raise KeyError("in the block")
        except KeyError:
            pass
        y = bb.emit(relax.op.sin(x))
        with bb.dataflow(), pytest.raises(RuntimeError, match="do not nest"), bb.dataflow():
            pass
        bb.emit_func_output(y)
        with pytest.raises(RuntimeError, match="already has its output"):
            bb.emit(relax.op.exp(x))
    assert [type(block).__name__ for block in bb.get()["main"].body.blocks] == ["DataflowBlock", "BindingBlock"]


def test_a_deep_expression_is_refused_with_a_remedy():
    bb = relax.BlockBuilder()
    x = value = relax.Var("x", relax.TensorType([2], "float32"))
    for _ in range(5000):
        value = relax.op.exp(value)
    with bb.function("main", [x]):
        with pytest.raises(passhost.error.NestedTooDeepError):
            bb.emit(value)
        bb.emit_func_output(x)


def test_threads_see_the_same_objects_of_a_function():
    text = build_text(300)
    for _ in range(20):
        module = script.from_source(text)
        found, start = [], threading.Barrier(8)

        def look(module=module, found=found, start=start):
            start.wait()
            function = module["main"]
            found.append((id(function.params[0]), id(function.body), function.ty))

        threads = [threading.Thread(target=look) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({one[:2] for one in found}) == 1


def build_text(length):
    bb = relax.BlockBuilder()
    x = value = relax.Var("x", relax.TensorType([2], "float32"))
    with bb.function("main", [x]):
        for _ in range(length):
            value = bb.emit(relax.op.add(value, x))
        bb.emit_func_output(value)
    return bb.get().script()


def test_a_dimension_that_is_left_is_worked_out():
    n = relax.Var("n", passhost.ir.PrimType("int64"))
    x = relax.Var("x", relax.TensorType([4, 6], "float32"))
    y = relax.Var("y", relax.TensorType([n, 6], "float32"))

    def shape(tensor, dims):
        return list(relax.op.reshape(tensor, dims).args[1].values)

    assert shape(x, (3, -1)) == [3, 8]
    assert shape(x, [0, 2, 3]) == [4, 2, 3]
    assert shape(x, (-1,)) == [24]
    assert repr(shape(y, (3, -1))) == "[T.int64(3), n * T.int64(2)]"
    assert shape(y, (n, -1))[1] == 6
    for dims, why in (((5, -1), "do not fit"), ((-1, -1), "more than one"), ((2, 3, 4, 0), "has 2 dimensions")):
        with pytest.raises(ValueError, match=why):
            relax.op.reshape(x, dims)
    with pytest.raises(ValueError, match="the shape of the tensor is unknown"):
        relax.op.reshape(relax.Var("z", relax.TensorType(ndim=2, dtype="float32")), (3, -1))


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (np.ones(3), "float32"),
        (np.float64(2.5), "float32"),
        (np.arange(3), "int32"),
        (np.ones(2, "float16"), "float16"),
        (np.uint64(3), "uint64"),
        (passhost.runtime.tensor(np.ones(3)), "float64"),
    ],
)
def test_a_constant_of_an_array_has_the_type_of_tvm(value, dtype):
    assert relax.const(value).ty.dtype == dtype


@pytest.mark.parametrize("value", [float("nan"), 2**40, 300, [1, -200]])
def test_a_constant_that_its_type_does_not_have_is_refused(value):
    with pytest.raises(ValueError, match="from -128 to 127"):
        relax.const(value, "int8")


def test_axes_are_integers():
    x = relax.Var("x", relax.TensorType([2, 3], "float32"))
    assert relax.op.sum(x, axis=np.int64(1)).attrs["axis"] == (1,)
    assert relax.op.nn.softmax(x, axis=np.int64(1)).attrs["axis"] == 1
    for axis in (2.5, 1j, float("inf"), [b"a"]):
        with pytest.raises(TypeError, match="axis must be a list of int"):
            relax.op.sum(x, axis=axis)
