import numpy as np
import pytest

import passhost
from passhost.relax import op
from passhost.relax.expr_functor import PyExprMutator, mutator
from passhost.transform import PassContext, Sequential, module_pass

relax = passhost.passes.relax


@mutator
class Wrong(PyExprMutator):
    """Subtracts where the module adds."""

    def visit_call_(self, call):
        return op.subtract(*call.args) if call.op.name == "relax.add" else call


@module_pass(opt_level=0, name="test.Wrong")
def wrong(mod, ctx):
    changed = mod.clone()
    changed["main"] = Wrong(mod).visit_expr(mod["main"])
    return changed


def test_standard_passes_preserve_values(mod):
    checked = passhost.validate(mod, [relax.DeadCodeElimination(), relax.LegalizeOps(), relax.Normalize()])
    assert checked.is_same and not checked.different
    assert [one.name for one in checked.verdicts] == [
        "relax.DeadCodeElimination",
        "relax.LegalizeOps",
        "relax.Normalize",
    ]
    assert [one.verdict for one in checked.verdicts] == ["same", "same", "unchanged"]
    assert checked.verdicts[0].facts["functions"] == 1
    assert "call_tir" in checked.mod.script()


def test_a_wrong_pass_is_found_with_its_binding(mod):
    checked = passhost.validate(mod, Sequential([relax.DeadCodeElimination(), wrong]), seed=3)
    assert not checked.is_same
    [found] = checked.different
    assert found.name == "test.Wrong"
    assert found.facts["function"] == "main"
    assert "R.subtract(x, x)" in found.facts["binding"]["text"]
    assert "test.Wrong: different" in str(checked)
    assert "<td" in checked._repr_html_()


def test_the_context_hears_of_the_run(mod):
    with PassContext(opt_level=3) as context:
        passhost.validate(mod, relax.DeadCodeElimination())
    assert [step.name for step in context.steps] == ["relax.DeadCodeElimination"]


def test_what_validate_refuses(mod):
    with pytest.raises(TypeError, match="only an IRModule can be validated, not int"):
        passhost.validate(3, relax.Normalize())
    with pytest.raises(ValueError, match="the module does not have a function `other`"):
        passhost.validate(mod, relax.Normalize(), function="other")
    with pytest.raises(ValueError, match="the parameters of the module do not have a symbolic dimension `n`"):
        passhost.validate(mod, relax.Normalize(), dims={"n": 3})
    with pytest.raises(TypeError, match="Expected passes to be a list of Pass objects"):
        passhost.validate(mod, [3])
    symbolic = passhost.script.from_source(
        "@I.ir_module\nclass M:\n    @R.function\n"
        "    def main(x: R.Tensor(('n',), 'float32')):\n        return R.add(x, x)\n"
    )
    with pytest.raises(ValueError, match="cannot have the extent -1"):
        passhost.validate(symbolic, relax.LegalizeOps(), dims={"n": -1})
    assert passhost.validate(symbolic, relax.LegalizeOps(), dims={"n": 3}).is_same


def test_a_pass_that_fails_ends_the_validation(mod):
    @module_pass(opt_level=0, name="test.Fails")
    def fails(mod, ctx):
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        passhost.validate(mod, [relax.DeadCodeElimination(), fails])


def test_what_validation_takes(mod):
    passes = passhost.passes.relax.LegalizeOps()
    with pytest.raises(TypeError, match="seed must be an integer, not 'x'"):
        passhost.validate(mod, passes, seed="x")
    with pytest.raises(ValueError, match="limit_work must be an integer from 0"):
        passhost.validate(mod, passes, limit_work=-1)
    with pytest.raises(TypeError, match="dims must be a dict that maps dimension names to extents, not 3"):
        passhost.validate(mod, passes, dims=3)
    assert passhost.validate(mod, passes, seed=np.int64(3)).is_same


@module_pass(opt_level=0, name="test.Rare")
def rare(mod, ctx):
    """Gives wrong results for elements from 40.25 to 40.5, which no random input contains."""
    changed = mod.clone()
    changed["main"] = passhost.script.from_source(RARE)["main"]
    return changed


COPY = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        y: R.Tensor((3,), "float32") = R.negative(R.negative(x))
        return y
"""
RARE = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        y: R.Tensor((3,), "float32") = R.where(
            R.equal(R.floor(R.multiply(x, R.const(4, "float32"))), R.const(161, "float32")),
            R.const(0, "float32"),
            x,
        )
        return y
"""


def test_given_inputs_are_one_more_input():
    mod = passhost.script.from_source(COPY)
    array = np.array([1, 40.25, 3], "float32")
    found = passhost.validate(mod, rare, inputs={"x": array}).different
    assert [one.name for one in found] == ["test.Rare"]
    assert passhost.validate(mod, rare).is_same, "only the given array exposes the fault"
    same = passhost.validate(mod, relax.LegalizeOps(), inputs={"x": array})
    usual = passhost.validate(mod, relax.LegalizeOps())
    assert same.verdicts[0].facts["inputs"] == usual.verdicts[0].facts["inputs"] + 1


def test_ranges_confine_random_values():
    mod = passhost.script.from_source(COPY)
    [found] = passhost.validate(mod, rare, ranges={"x": (40.26, 40.49)}).different
    assert 40.25 < float(found.facts["output"]["before"]) < 40.5
    assert passhost.validate(mod, relax.LegalizeOps(), ranges=(0, 1)).is_same


def test_inputs_for_each_size():
    mod = passhost.script.from_source(COPY)
    facts = [passhost.validate(mod, relax.LegalizeOps(), inputs_per_size=n, seed=5).verdicts[0].facts for n in (1, 3)]
    assert facts[1]["inputs"] == 3 * facts[0]["inputs"]


def test_what_the_options_of_inputs_refuse():
    mod, passes = passhost.script.from_source(COPY), relax.LegalizeOps()
    with pytest.raises(ValueError, match="the functions of the module do not have a parameter `z`"):
        passhost.validate(mod, passes, inputs={"z": np.zeros(3, "float32")})
    with pytest.raises(ValueError, match="the functions of the module do not have a parameter `z`"):
        passhost.validate(mod, passes, ranges={"z": (0, 1)})
    with pytest.raises(TypeError, match="inputs must be a dict that maps"):
        passhost.validate(mod, passes, inputs=[1])
    with pytest.raises(TypeError, match="ranges must be a pair of numbers"):
        passhost.validate(mod, passes, ranges=3)
    with pytest.raises(ValueError, match=r"ranges\['x'\] must be a pair of numbers"):
        passhost.validate(mod, passes, ranges={"x": (1, 0)})
    with pytest.raises(ValueError, match="inputs_per_size must be an integer from 1 to 1000, not 0"):
        passhost.validate(mod, passes, inputs_per_size=0)
    checked = passhost.validate(mod, passes, inputs={"x": np.zeros(4, "float32")})
    assert checked.verdicts[0].verdict == "not_validated"
    assert "the given arrays cannot be used" in checked.verdicts[0].what
