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
    with pytest.raises(TypeError, match="an IRModule is validated, not int"):
        passhost.validate(3, relax.Normalize())
    with pytest.raises(ValueError, match="the module has no function `other`"):
        passhost.validate(mod, relax.Normalize(), function="other")
    with pytest.raises(ValueError, match="no parameter of the module has a symbolic dimension `n`"):
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
    with pytest.raises(TypeError, match="seed is an integer, not 'x'"):
        passhost.validate(mod, passes, seed="x")
    with pytest.raises(ValueError, match="limit_work is an integer from 0"):
        passhost.validate(mod, passes, limit_work=-1)
    with pytest.raises(TypeError, match="dims is a dict of extents by the names of dimensions, not 3"):
        passhost.validate(mod, passes, dims=3)
    assert passhost.validate(mod, passes, seed=np.int64(3)).is_same
