"""Tests TVM names that programs use but TVM's documents do not mention."""

import numpy as np
import pytest

import passhost
from passhost import relax, s_tir, tirx
from passhost.error import PassFailedError
from passhost.ir.expr import Var
from passhost.relax import DataflowBlock, DataflowVar, MatchCast, TensorType, VarBinding
from passhost.transform import PassInfo

SOURCE = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        with R.dataflow():
            y = R.exp(x)
            z = R.add(y, y)
            R.output(z)
        return z
"""


def test_pipelines_by_name():
    mod = passhost.script.from_source(SOURCE)
    x = np.array([0, 1, 2], "float32")
    before = passhost.exec(mod, x).numpy()
    for name in ("zero", "default_build", "default"):
        made = relax.get_pipeline(name)(mod)
        assert "call_tir" in made.script() or "T.prim_func" in made.script()
        np.testing.assert_allclose(passhost.exec(made, x).numpy(), before, rtol=1e-6)
    assert any(var.name_hint.startswith("fused") for var in relax.get_pipeline("zero")(mod).get_global_vars())
    with pytest.raises(ValueError, match="unknown pipeline 'none'; candidates are: zero"):
        relax.get_pipeline("none")
    with pytest.raises(ValueError, match="already registered"):
        relax.register_pipeline("zero")


def test_passes_over_prim_funcs_by_name():
    lowered = relax.transform.LegalizeOps()(passhost.script.from_source(SOURCE))
    alone = lowered.clone()
    del alone["main"]
    for _ in range(2):
        kept = tirx.transform.Filter(lambda func: "T.exp" in func.script())(alone)
    assert [var.name_hint for var in kept.get_global_vars()] == ["tir_exp"]
    marked = tirx.transform.Apply(lambda func: func.with_attr("seen", 1))(lowered)
    seen = {var.name_hint: function.attrs.get("seen") for var, function in marked.functions_items()}
    assert seen == {"add": 1, "main": None, "tir_exp": 1}
    opaque = s_tir.transform.LowerOpaqueBlock()(s_tir.transform.ConvertBlocksToOpaque()(lowered))
    assert "T.sblock(" not in opaque.script()
    with pytest.raises(AttributeError, match="no pass s_tir.Nothing"):
        s_tir.transform.Nothing()


def test_functions_of_scalars():
    x = tirx.Var("x", "float32")
    assert str(tirx.exp(x)) == "T.exp(x)"
    assert str(tirx.isnan(x).ty.dtype) == "bool"
    assert str(tirx.bitwise_and(tirx.var("n"), 3)) == "n & 3"
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = tirx.nothing


def test_what_is_visible_after_a_block_stays():
    source, data = Var("source", "int64"), Var("data", TensorType(None, "float32", ndim=1))
    extent = Var("extent", "int64")
    ty = TensorType([extent], "float32")
    block = DataflowBlock([VarBinding(extent, source), MatchCast(DataflowVar("matched", ty), data, ty)])
    func = relax.Function([source, data], relax.SeqExpr([block], extent))
    mod = relax.transform.Normalize()(passhost.IRModule.from_expr(func))

    @relax.transform.dataflowblock_pass(opt_level=0)
    def deletes(block, mod, ctx):
        return DataflowBlock([block.bindings[1]])

    with pytest.raises(PassFailedError, match="deleted the global-scope Var extent"):
        deletes(mod)


def test_facts_of_a_pass_as_text():
    assert repr(PassInfo(1, "my.Pass", ["a", "b"])) == 'PassInfo(opt_level=1, name="my.Pass", required=["a", "b"])'


@pytest.mark.parametrize("result", [np.zeros((3, 3), "float32"), np.zeros((2, 4)), None, "x", 1.0])
def test_packed_functions_return_what_the_call_says(result):
    @passhost.runtime.register_global_func("test.returns", override=True)
    def returns(x):
        return result if not isinstance(result, np.ndarray) else passhost.runtime.tensor(result)

    mod = passhost.script.from_source("""
@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Tensor((2, 4), "float32")):
        y = R.call_packed("test.returns", x, ty_args=(R.Tensor((2, 4), "float32"),))
        return y
""")
    with pytest.raises(passhost.error.ExecutionError, match=r"the result of `test.returns`"):
        passhost.exec(mod, passhost.runtime.tensor(np.zeros((2, 4), "float32")))


def test_packed_functions_write_to_their_arguments():
    @passhost.runtime.register_global_func("test.written", override=True)
    def written(a, b):
        b[:] = a.numpy() + 1
        return a

    mod = passhost.script.from_source("""
@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")):
        z = R.add(y, y)
        same = z
        _ = R.call_packed("test.written", x, same, ty_args=(R.Tensor((3,), "float32"),))
        _1 = R.call_packed("test.written", x, y, ty_args=(R.Tensor((3,), "float32"),))
        return R.add(z, y)
""")
    x, y = passhost.runtime.tensor(np.arange(3, dtype="float32")), passhost.runtime.tensor(np.zeros(3, "float32"))
    assert passhost.exec(mod, x, y).numpy().tolist() == [2, 4, 6]
    assert y.numpy().tolist() == [1, 2, 3]
    assert x.numpy().tolist() == [0, 1, 2]
