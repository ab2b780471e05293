"""Tests notebook output: HTML must be well-formed and escaped, and long parts must be folded."""

import pickle
from html.parser import HTMLParser

import numpy as np
import pytest

import passhost
from passhost.ir import diff
from passhost.transform import Sequential

relax = passhost.passes.relax

TWO = """
@I.ir_module
class Module:
    @R.function(private=True)
    def helper(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        return R.add(x, x)

    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        cls = Module
        y = cls.helper(x)
        unused = R.multiply(y, R.const(2, "float32"))
        return y
"""


class Checked(HTMLParser):
    """Collects the text of an HTML fragment; fails if an element is not closed properly."""

    def __init__(self, html):
        super().__init__()
        self.open, self.text, self.names = [], [], []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.names.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_a_module_has_a_fold_for_each_function():
    mod = passhost.script.from_source(TWO)
    page = Checked(mod._repr_html_())
    folds = [attrs for tag, attrs in page.names if tag == "details"]
    assert ["open" in attrs for attrs in folds] == [False, True]
    shown = "".join(page.text)
    assert "helper (3 lines)" in shown and "main (" in shown
    for line in mod.script().splitlines():
        assert line.strip() in shown
    colours = {attrs.get("style") for tag, attrs in page.names if tag == "span"}
    assert len(colours) >= 4


def test_a_module_of_one_function_is_not_folded(mod):
    page = Checked(mod._repr_html_())
    assert "details" not in [tag for tag, _ in page.names]
    assert "".join(page.text) == mod.script()


def test_a_function(mod):
    assert "".join(Checked(mod["main"]._repr_html_()).text) == mod["main"].script()


def test_texts_are_escaped():
    mod = passhost.script.from_source("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        R.func_attr({"note": "<script>alert(1)</script> & more"})
        return x
""")
    html = mod._repr_html_()
    assert "<script>" not in html
    assert "<script>alert(1)</script> & more" in "".join(Checked(html).text)


def test_a_plan_is_a_table():
    plan = Sequential([relax.LegalizeOps(), relax.FuseOps()], name="<both>").plan()
    page = Checked(plan._repr_html_())
    assert [tag for tag, _ in page.names].count("tr") == len(plan.steps) + 1
    assert "<both>" in page.text and "relax.FuseOps" in "".join(page.text)


def test_diagnostics():
    with pytest.raises(passhost.error.ScriptError) as caught:
        passhost.script.from_source("@I.ir_module\nclass M:\n    @R.function\n    def f(x):\n        return nothing\n")
    [diagnostic] = caught.value.diagnostics
    page = Checked(diagnostic._repr_html_())
    assert "".join(page.text) == str(diagnostic)
    assert "#cb2431" in page.names[0][1]["style"]


def test_a_diff_has_the_functions_that_differ():
    before = passhost.script.from_source(TWO)
    after = relax.DeadCodeElimination()(before)
    changed = diff(before, after)
    assert [(each.name, each.change) for each in changed] == [("main", "changed")]
    minus = [line for line in changed["main"].text.splitlines() if line.startswith("-") and "---" not in line]
    assert len(minus) == 1 and "R.multiply" in minus[0]
    assert not diff(before, before) and str(diff(before, before)) == "no function differs"
    with pytest.raises(KeyError, match="helper"):
        changed["helper"]
    page = Checked(changed._repr_html_())
    assert any("#ffeef0" in attrs.get("style", "") for tag, attrs in page.names if tag == "div")
    assert "R.multiply" in "".join(page.text)


def test_a_diff_has_functions_that_come_and_go():
    before = passhost.script.from_source(TWO)
    after = before.clone()
    after["other"] = before["helper"].with_attr("global_symbol", "other")
    del after["helper"]
    after["main"] = before["helper"].with_attr("global_symbol", "main")
    changes = {each.name: each.change for each in diff(before, after)}
    assert changes == {"helper": "removed", "main": "changed", "other": "added"}
    Checked(diff(before, after)._repr_html_())
    with pytest.raises(TypeError, match="only modules can be compared, not Function"):
        diff(before, before["main"])


def test_times_are_objects(mod):
    times = passhost.benchmark(mod, np.ones((2, 4), "float32"), number=2, repeat=3)
    assert len(times.results) == 3
    assert 0 < times.min <= times.median <= times.max
    assert "mean" in str(times) and " ms" in str(times)
    Checked(times._repr_html_())
    with pytest.raises(ValueError, match="1 or more"):
        passhost.benchmark(mod, np.ones((2, 4), "float32"), number=0)


def constants(n, value=0.0):
    x = passhost.relax.Var("x", passhost.relax.TensorType([n], "float32"))
    bb = passhost.relax.BlockBuilder()
    with bb.function("main", [x]):
        data = np.arange(n, dtype="float32") + np.float32(value)
        bb.emit_func_output(bb.emit(passhost.relax.op.add(x, passhost.relax.const(data))))
    return bb.get()


def test_texts_omit_large_constants():
    mod = constants(1 << 15)
    for text in (mod.script(), repr(mod), mod["main"].script(), repr(mod["main"])):
        assert len(text) < 1000
        assert 'R.add(x, metadata["ir.GenericConst"][0])' in text
        assert text.endswith("\n# Metadata omitted. Use show_meta=True in script() method to show it.\n")
    assert len(mod._repr_html_()) < 3000
    whole = mod.script(show_meta=True)
    assert len(whole) > 1 << 17
    passhost.ir.assert_structural_equal(passhost.script.from_source(whole), mod)
    assert len(mod["main"].script(show_meta=True)) > 1 << 17


def test_a_text_without_its_constants_is_refused():
    with pytest.raises(ValueError, match=r"lacks the metadata with its constants.*script\(show_meta=True\)"):
        passhost.script.from_source(constants(1 << 15).script())


def test_texts_contain_small_constants():
    mod = constants(1 << 10)
    assert mod.script() == mod.script(show_meta=True)
    passhost.ir.assert_structural_equal(passhost.script.from_source(mod.script()), mod)


def test_what_is_saved_has_its_constants():
    mod = constants(1 << 15)
    for saved in (mod, mod["main"]):
        passhost.ir.assert_structural_equal(passhost.ir.load_json(passhost.ir.save_json(saved)), saved)
        passhost.ir.assert_structural_equal(pickle.loads(pickle.dumps(saved)), saved)


def test_a_difference_of_large_constants_is_said():
    [function] = diff(constants(1 << 15), constants(1 << 15, 1.0)).functions
    assert function.text == "only the data of large constants differs"
    with pytest.raises(ValueError, match="they differ in .*large constants"):
        passhost.ir.assert_structural_equal(constants(1 << 15), constants(1 << 15, 1.0))
