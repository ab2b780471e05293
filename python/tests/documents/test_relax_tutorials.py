"""Tests the examples in the Relax tutorials: visitors, mutators, and two convolutions from the block builder to
execution."""

import numpy as np

import passhost
from passhost import relax, s_tir, te
from passhost.relax import PyExprMutator, PyExprVisitor
from passhost.transform import Sequential, module_pass


@relax.expr_functor.visitor
class CallChecker(PyExprVisitor):
    """Counts the calls of each operator."""

    def __init__(self):
        super().__init__()
        self.calls = {}

    def visit_call_(self, call):
        super().visit_call_(call)
        self.calls[call.op.name] = self.calls.get(call.op.name, 0) + 1


def test_the_call_checker(mod):
    checker = CallChecker()
    checker.visit_expr(mod["main"])
    assert checker.calls == {"relax.add": 1, "relax.multiply": 1, "relax.nn.relu": 1}


@relax.expr_functor.mutator
class IfCollapser(PyExprMutator):
    """Replaces an If whose condition is constant with the branch that is taken."""

    def visit_if_(self, choice):
        if not isinstance(choice.cond, passhost.ir.GenericConst):
            return super().visit_if_(choice)
        return self.visit_expr(choice.true_branch if choice.cond.data.numpy() else choice.false_branch)


def test_the_if_collapser():
    mod = passhost.script.from_source("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((3,), "float32"):
        if R.const(False, "bool"):
            y = R.add(x, x)
        else:
            y = R.multiply(x, R.const(3.0))
        if c:
            z = R.exp(y)
        else:
            z = R.negative(y)
        return z
""")
    collapser = IfCollapser(mod)
    function = collapser.visit_expr(mod["main"])
    collapser.builder_.update_func(mod.get_global_var("main"), function)
    made = collapser.builder_.get()
    relax.analysis.well_formed(made)
    checker = CallChecker()
    checker.visit_expr(made["main"])
    assert checker.calls == {"relax.multiply": 1, "relax.exp": 1, "relax.negative": 1}
    x = np.array([1, 2, 3], "float32")
    np.testing.assert_array_equal(passhost.exec(made, x, np.array(False)).numpy(), -3 * x)


@relax.expr_functor.mutator
class TupleMutator(PyExprMutator):
    """Replaces an element of a literal tuple with the element itself."""

    def visit_tuple_getitem_(self, item):
        value = self.visit_expr(item.tuple_value)
        written = self.lookup_binding(value) if isinstance(value, relax.Var) else value
        if isinstance(written, relax.Tuple):
            return written.fields[item.index]
        return super().visit_tuple_getitem_(item)


def test_the_tuple_mutator():
    mod = passhost.script.from_source("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), "float32"), y: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        pair = (x, y)
        second = pair[1]
        z = R.nn.relu(second)
        return z
""")
    mutator = TupleMutator(mod)
    mutator.builder_.update_func(mod.get_global_var("main"), mutator.visit_expr(mod["main"]))
    made = Sequential([relax.transform.CanonicalizeBindings(), relax.transform.DeadCodeElimination()])(
        mutator.builder_.get()
    )
    expected = passhost.script.from_source("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), "float32"), y: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        z = R.nn.relu(y)
        return z
""")
    passhost.ir.assert_structural_equal(made, expected)


def convolution(data, weight):
    """Returns a convolution without padding, as a tensor expression."""
    _, channels, height, width = weight.shape
    batch, outputs = data.shape[0], weight.shape[0]
    c, y, x = te.reduce_axis((0, channels)), te.reduce_axis((0, height)), te.reduce_axis((0, width))
    shape = (batch, outputs, data.shape[2] - height + 1, data.shape[3] - width + 1)
    return te.compute(
        shape,
        lambda n, o, i, j: te.sum(data[n, c, i + y, j + x] * weight[o, c, y, x], axis=[c, y, x]),
        name="convolution",
    )


def two_convolutions():
    """Returns a module with two convolutions and a relu, each a PrimFunc created by `emit_te`."""
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([1, 3, 8, 8], "float32"))
    first = relax.Var("first", relax.TensorType([4, 3, 3, 3], "float32"))
    second = relax.Var("second", relax.TensorType([2, 4, 3, 3], "float32"))
    mark = {"my_op_kind": "convolution"}
    with bb.function("main", [x, first, second]):
        with bb.dataflow():
            a = bb.emit_te(convolution, x, first, primfunc_name_hint="conv_first", primfunc_attrs=mark)
            b = bb.emit_te(convolution, a, second, primfunc_name_hint="conv_second", primfunc_attrs=mark)
            c = bb.emit_output(bb.emit(relax.op.nn.relu(b)))
        bb.emit_func_output(c)
    return bb.get()


@relax.expr_functor.mutator
class Grouped(PyExprMutator):
    """Replaces two successive convolutions with a call of a function that contains both."""

    def __init__(self, mod):
        super().__init__(mod)
        self.mod = mod
        self.groups = 0

    def _is_convolution(self, value):
        """Returns true if a value is a call of a PrimFunc that is marked as a convolution."""
        if not isinstance(value, relax.Call) or value.op.name != "relax.call_tir":
            return False
        return self.mod[value.args[0]].attrs.get("my_op_kind") == "convolution"

    def visit_call_(self, call):
        call = super().visit_call_(call)
        if not self._is_convolution(call):
            return call
        data, weight = call.args[1].fields
        inner = self.lookup_binding(data)
        if not self._is_convolution(inner):
            return call
        values = [*inner.args[1].fields, weight]
        params = [relax.Var(f"p{at}", value.ty) for at, value in enumerate(values)]
        bb = relax.BlockBuilder()
        with bb.function("fused_conv_conv", params, attrs={"Primitive": True}, private=True):
            with bb.dataflow():
                a = bb.emit(relax.call_tir(self.var(inner), params[:2], inner.ty_args[0]))
                b = bb.emit_output(relax.call_tir(self.var(call), [a, params[2]], call.ty_args[0]))
            bb.emit_func_output(b)
        self.groups += 1
        fused = self.builder_.add_func(bb.get()["fused_conv_conv"], "fused_conv_conv")
        return relax.Call(fused, values)

    def var(self, call):
        """Returns the PrimFunc of a call."""
        return self.mod.get_global_var(call.args[0].name_hint)


@module_pass(opt_level=0, name="demo.GroupConvolutions", required=["relax.Normalize"])
def group(mod, ctx):
    """Groups convolutions, in Python."""
    grouped = Grouped(mod)
    for var, function in mod.functions_items():
        if isinstance(function, relax.Function):
            grouped.builder_.update_func(var, grouped.visit_expr(function))
    assert grouped.groups == 1
    return grouped.builder_.get()


def test_two_convolutions_grouped_in_python_and_by_a_plugin():
    mod = two_convolutions()
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(shape).astype("float32") for shape in [(1, 3, 8, 8), (4, 3, 3, 3), (2, 4, 3, 3)]]
    plain = passhost.exec(mod, *inputs).numpy()
    assert plain.shape == (1, 2, 4, 4)
    assert 0 < np.count_nonzero(plain) < plain.size

    tidy = [relax.transform.DeadCodeElimination()]
    in_python = Sequential([group, *tidy])(mod)
    by_plugin = Sequential([passhost.passes.acme.GroupConvolutions(), *tidy])(mod)
    for made in (in_python, by_plugin):
        relax.analysis.well_formed(made)
        names = {var.name_hint for var in made.get_global_vars()}
        assert names == {"conv_first", "conv_second", "fused_conv_conv", "main"}
        np.testing.assert_array_equal(passhost.exec(made, *inputs).numpy(), plain)
    passhost.ir.assert_structural_equal(in_python, by_plugin)

    fused = relax.transform.FuseTIR()(by_plugin)
    np.testing.assert_array_equal(passhost.exec(fused, *inputs).numpy(), plain)
    scheduled = schedule(fused)
    assert not passhost.ir.structural_equal(scheduled, fused)
    for backend in ("llvm", "interpreter"):
        np.testing.assert_array_equal(passhost.exec(scheduled, *inputs, backend=backend).numpy(), plain)


def schedule(mod):
    """Moves the rows of the second convolution innermost, so that the first convolution computes only the elements that
    a row needs."""
    sch = s_tir.Schedule(mod)
    sch.work_on("fused_conv_conv")
    first, second = sch.get_block("convolution"), sch.get_block("convolution1")
    n, o, i, j, c, y, x = sch.get_loops(second)
    sch.reorder(n, i, o, c, y, x, j)
    sch.compute_at(first, i)
    return sch.mod
