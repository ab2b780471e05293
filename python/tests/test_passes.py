"""Tests passes from plugins and Python functions, alone and in Sequentials."""

import gc
import inspect
import subprocess
import sys
import weakref

import numpy as np
import pytest

import passhost
import passhost.tvm
from passhost.error import NameNotFoundError, PassFailedError, PlanError
from passhost.transform import ModulePass, PassContext, PassInfo, PrintIR, Sequential, module_pass

relax = passhost.passes.relax


def test_a_pass_of_a_plugin(mod):
    assert "unused" not in relax.DeadCodeElimination()(mod).script()
    assert "unused" in mod.script()


def test_a_pass_that_changes_nothing_returns_the_same_module(mod):
    assert relax.Normalize()(mod) is mod


def test_passes_are_documented_by_their_metadata():
    assert "Groups two successive convolutions" in passhost.passes.acme.GroupConvolutions.__doc__
    signature = inspect.signature(relax.FuseOps)
    assert signature.parameters["fuse_opt_level"].default == -1
    assert "acme" in dir(passhost.passes)
    assert "GroupConvolutions" in dir(passhost.passes.acme)


def test_options_are_checked():
    with pytest.raises(TypeError, match="unexpected keyword argument 'level'"):
        relax.FuseOps(level=2)
    with pytest.raises(TypeError, match="fuse_opt_level must be of type int, not 'x'"):
        relax.FuseOps(fuse_opt_level="x")
    with pytest.raises(TypeError, match="an element of through must be of type str, not 3"):
        passhost.passes.acme.GroupConvolutions(through=[3])
    with pytest.raises(TypeError, match="fuse_opt_level must be of type int, not True"):
        relax.FuseOps(fuse_opt_level=True)


def test_options_have_64_bits_and_may_be_of_numpy(mod):
    with pytest.raises(ValueError, match="fuse_opt_level must be an integer from .*, not 9223372036854775808"):
        relax.FuseOps(fuse_opt_level=2**63)
    with pytest.raises(TypeError, match="FuseOps: fuse_opt_level must be of type int, not 'x'"):
        passhost.relax.transform.FuseOps("x")
    assert repr(relax.FuseOps(fuse_opt_level=np.int64(1))) == "relax.FuseOps(fuse_opt_level=1)"
    with pytest.raises(TypeError, match="fuse_opt_level must be of type int, not .*2.0"):
        relax.FuseOps(fuse_opt_level=np.float32(2))
    assert "R.add" in relax.FuseOps(fuse_opt_level=np.int64(1))(mod).script()


def nothing(mod, ctx):
    return mod


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"name": 3}, TypeError, "the name of a pass must be a string, not 3"),
        ({"required": [3]}, TypeError, "required of pass 'nothing' must be a list of names, but 3 is a int"),
        ({"required": 3}, TypeError, "Required is expected to be the type of list/tuple"),
        ({"opt_level": 2**40}, ValueError, "opt_level of pass 'nothing' must be an integer from"),
        *[({"name": name}, ValueError, "is not a valid pass name") for name in ("深", "1a", "a.1", "a..b", ".a", "é")],
    ],
)
def test_what_a_python_pass_cannot_be(given, kind, message):
    with pytest.raises(kind, match=message) as caught:
        module_pass(nothing, **{"opt_level": 0, **given})
    assert not isinstance(caught.value, passhost.error.PasshostError)


def test_names_with_other_characters(mod):
    made = module_pass(nothing, opt_level=np.int64(0), name="my own-pass")
    assert made.info == PassInfo(0, "my own-pass")
    assert made.plan().steps[0].name == "python.my_own_pass"


def test_tvm_takes_any_name(mod, monkeypatch):
    monkeypatch.setattr(passhost._context.Compat, "tvm", True)
    for name in ("深", "1abc", "a.1", "a..b", ".深", "two\nlines"):
        made = module_pass(nothing, opt_level=0, name=name)
        assert made.info.name == name
        assert Sequential([made, made])(mod) is mod


def test_unknown_passes_have_neighbours():
    with pytest.raises(NameNotFoundError, match="did you mean `relax.FuseOps`"):
        _ = relax.FuseOp
    assert not hasattr(relax, "FuseOp")


def test_python_and_plugins_in_one_plan(mod):
    seen = []

    @module_pass(opt_level=0, required=["relax.DeadCodeElimination"])
    def look(mod, ctx):
        seen.append((mod.script(), ctx))
        return mod

    plan = Sequential([look, relax.LegalizeOps()]).plan()
    assert [step.name for step in plan.steps] == [
        "sequential",
        "relax.DeadCodeElimination",
        plan.steps[2].name,
        "relax.LegalizeOps",
    ]
    assert plan.steps[1].reason.startswith("required by python.look")
    with PassContext(opt_level=1) as context:
        Sequential([look, relax.LegalizeOps()])(mod)
    [(script, found)] = seen
    assert "unused" not in script
    assert found is context
    assert [step.outcome for step in context.steps if step.name == "relax.LegalizeOps"] == ["changed"]


def test_what_a_pass_of_a_plugin_requires_can_be_a_python_pass(mod):
    ran = []

    @module_pass(opt_level=0, name="test.First")
    def first(mod, ctx):
        ran.append("first")
        return mod

    @module_pass(opt_level=0, required=["test.First"])
    def second(mod, ctx):
        ran.append("second")
        return mod

    second(mod)
    assert ran == ["first", "second"]
    with pytest.raises(PlanError, match=r"test\.First.* is disabled"), PassContext(disabled_pass=["test.First"]):
        second(mod)


def test_a_pass_that_is_made_again_takes_the_place_of_the_first(mod):
    ran = []

    def made(word, level):
        @module_pass(opt_level=level, name="test.Again")
        def again(mod, ctx):
            ran.append(word)
            return mod

        return again

    first = made("first", 0)
    before = Sequential([first])
    before(mod)
    second = made("second", 1)
    assert passhost._passhost.pass_facts("test.Again")["opt_level"] == 1
    user = module_pass(opt_level=0, required=["test.Again"], name="test.UsesAgain")(lambda mod, ctx: mod)
    user(mod)
    # An object that is still in use keeps its behavior, under a different name.
    before(mod)
    first(mod)
    Sequential([second])(mod)
    assert ran == ["first", "second", "first", "first", "second"]
    steps = Sequential([first, second]).plan().steps
    assert [step.name for step in steps] == ["sequential", "test.Again_2", "test.Again"]
    with pytest.raises(NameNotFoundError, match=r"relax\.Normalize"):
        module_pass(opt_level=0, name="relax.Normalize")(lambda mod, ctx: mod)


def test_classes_are_passes(mod):
    @module_pass(opt_level=2)
    class Remember:
        """Remembers modules."""

        def __init__(self, limit):
            self.limit = limit
            self.seen = []

        def transform_module(self, mod, ctx):
            self.seen.append(mod)
            return mod

    remember = Remember(3)
    assert isinstance(remember, ModulePass)
    assert remember.info == PassInfo(2, "Remember")
    assert remember.limit == 3
    assert remember(mod) is mod
    assert len(remember.seen) == 1
    assert Remember.__doc__ == "Remembers modules."
    with pytest.raises(TypeError, match="class Nothing lacks the method transform_module"):
        module_pass(opt_level=0)(type("Nothing", (), {}))


def test_decorators_need_an_opt_level():
    with pytest.raises(ValueError, match="opt_level"):
        module_pass(lambda mod, ctx: mod)
    with pytest.raises(TypeError, match="Required is expected to be the type of list/tuple"):
        module_pass(lambda mod, ctx: mod, opt_level=1, required="relax.Normalize")
    with pytest.raises(TypeError, match="opt_level of pass"):
        module_pass(lambda mod, ctx: mod, opt_level="1")


def returns_none(mod, ctx):
    return None


def raises(mod, ctx):
    raise KeyError("lost")


def leaves(mod, ctx):
    sys.exit(7)


def runs_itself(mod, ctx):
    return relax.DeadCodeElimination()(mod)


@pytest.mark.parametrize(
    ("function", "kind", "message"),
    [
        (returns_none, TypeError, "pass returns_none returned NoneType; it must return an IRModule"),
        (raises, KeyError, "lost"),
        (leaves, PassFailedError, r"pass leaves called sys.exit\(7\)"),
    ],
)
def test_a_python_pass_that_fails(mod, function, kind, message):
    before = mod.script()
    with pytest.raises(kind, match=message) as caught:
        Sequential([relax.DeadCodeElimination(), module_pass(function, opt_level=0)])(mod)
    assert any("step 3" in note and f"python.{function.__name__}" in note for note in caught.value.__notes__)
    assert caught.traceback[-1].path.name in ("test_passes.py", "_passes.py")
    assert mod.script() == before


def test_a_python_pass_runs_others(mod):
    assert "unused" not in module_pass(runs_itself, opt_level=0)(mod).script()


def test_a_thousand_runs_leave_nothing_behind(mod):
    nothing = module_pass(lambda mod, ctx: mod, opt_level=0, name="nothing")
    for _ in range(1_000):
        assert nothing(mod) is mod


def test_print_ir(mod, capsys):
    assert PrintIR("here")(mod) is mod
    out = capsys.readouterr().out
    assert out.startswith("PrintIR(here):\n")
    assert "R.add(x, x)" in out


def test_what_is_not_a_module_or_pass(mod):
    with pytest.raises(TypeError, match="takes an IRModule, not int"):
        relax.Normalize()(3)
    with pytest.raises(TypeError, match="Expected passes to be a list of Pass objects"):
        Sequential([lambda mod: mod])
    with pytest.raises(TypeError, match="Expected passes to be a list of Pass objects, but found an object of int"):
        Sequential(3)
    with pytest.raises(TypeError, match=r"item 1 is relax.Normalize, which creates a pass when called"):
        Sequential([relax.Normalize(), passhost.passes.relax.Normalize])
    with pytest.raises(TypeError, match="the name of a pass must be a string, not None"):
        passhost.tvm.tvm_pass(None)
    with pytest.raises(TypeError, match="from_tvm takes a TVM IRModule, not 3"):
        passhost.tvm.from_tvm(3)
    with pytest.raises(TypeError, match="source must be the text of a module, not None"):
        passhost.script.from_source(None)


THREADS = """
import os, passhost, threading, traceback
def failed(args):
    traceback.print_exception(args.exc_value)
    os._exit(1)
threading.excepthook = failed
from passhost.transform import module_pass, PassContext, Sequential
source = "@I.ir_module\\nclass M:\\n" + "".join(
    f"    @R.function\\n    def f{i}(x: R.Tensor((2,), 'float32')):\\n        y = R.add(x, x)\\n        return y\\n"
    for i in range(1000))
mod = passhost.script.from_source(source)
@module_pass(opt_level=0)
def look(mod, ctx):
    return passhost.passes.relax.LegalizeOps()(mod)
with PassContext(jobs=4):
    both = Sequential([passhost.passes.relax.DeadCodeElimination(), look, passhost.passes.relax.FuseOps()])
    assert "add" in both(mod).script()
def own(level):
    with PassContext(opt_level=level) as context:
        assert PassContext.current() is context
        passhost.passes.relax.DeadCodeElimination()(mod)
        assert PassContext.current().opt_level == level
threads = [threading.Thread(target=own, args=(level,)) for level in range(1000)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print("done")
"""


def test_threads_and_python_passes_do_not_wait_for_each_other():
    ran = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, timeout=240, check=False)
    assert ran.stdout == "done\n", ran.stderr


INTERRUPTED = """
import os, signal, passhost
# A test that a shell starts in the background inherits ignored signals.
signal.signal(signal.SIGINT, signal.default_int_handler)
from passhost.transform import module_pass, Sequential
@module_pass(opt_level=0)
def press(mod, ctx):
    signal.raise_signal(signal.SIGINT)
    return mod
@module_pass(opt_level=0)
def later(mod, ctx):
    print("later")
    return mod
mod = passhost.script.from_source(
    "@I.ir_module\\nclass M:\\n    @R.function\\n    def main(x: R.Tensor((2,), 'float32')):\\n        return x"
)
try:
    Sequential([press, passhost.passes.relax.Normalize(), later])(mod)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_ends_a_run_between_passes():
    ran = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60, check=False)
    assert ran.stdout == "interrupted\n", ran.stderr


class Sees(passhost.instrument.PassInstrument):
    """Does nothing, but its presence makes the host run a Python pass that would otherwise be called directly."""

    def run_before_pass(self, mod, info):
        pass


def returns_it(mod, ctx):
    return mod


def looks(mod, ctx):
    assert "R.add" in mod.script() and mod["main"].body
    return mod


def copies(mod, ctx):
    return mod.clone()


def adds(mod, ctx):
    mod = mod.clone()
    mod["second"] = mod["main"].with_attr("global_symbol", "second")
    return mod


def adds_in_place(mod, ctx):
    mod["second"] = mod["main"].with_attr("global_symbol", "second")
    return mod


def attributed(mod, ctx):
    return mod.with_attr("author", 1)


def breaks(mod, ctx):
    other = passhost.relax.Var("other", passhost.relax.TensorType((2,), "float32"))
    mod["main"] = passhost.relax.Function([], other)
    return mod


def without_an_operator(mod, ctx):
    mod["main"] = passhost.relax.Function([], passhost.relax.op.add(passhost.relax.const(1), passhost.relax.const(1.0)))
    return mod


def outcome(made, mod, **settings):
    """Returns the outcome of a pass: steps without times, text or exception, diagnostics."""
    try:
        with PassContext(**settings) as context:
            result = made(mod)
    except BaseException as error:
        return type(error), str(error), [note.replace("\n", " ") for note in getattr(error, "__notes__", ())]
    steps = [(step.depth, step.name, step.outcome, step.reason, step.bindings) for step in context.steps]
    assert all(0 <= step.seconds < 60 for step in context.steps)
    return steps, result.script(), result is mod, [str(diagnostic) for diagnostic in context.diagnostics]


FUNCTIONS = [
    returns_it,
    looks,
    copies,
    adds,
    adds_in_place,
    attributed,
    breaks,
    without_an_operator,
    returns_none,
    raises,
    leaves,
    runs_itself,
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_python_pass_that_is_called_alone_is_as_in_a_run(mod, function):
    """Without an instrument, the pass is called directly, and the host gets the result. With an instrument, the host
    calls the pass."""
    text = mod.script()
    made = module_pass(function, opt_level=1)
    found = outcome(made, mod)
    assert found == outcome(made, mod, instruments=[Sees()])
    assert mod.script() == text


@pytest.mark.parametrize(
    "settings",
    [
        {"opt_level": 0},
        {"opt_level": 0, "required_pass": ["test.Settings"]},
        {"disabled_pass": ["test.Settings"]},
        {"disabled_pass": ["relax.FuseOps"]},
        {"required_pass": ["relax.Nothing"]},
        {"target": "{"},
        {"opt_level": 0, "tvm_compat": True},
        {"config": {"relax.FuseOps.max_depth": 3}},
    ],
)
def test_contexts_decide_about_a_pass_that_is_called_alone(mod, settings):
    made = CALLED.get("made") or CALLED.setdefault("made", module_pass(returns_it, opt_level=1, name="test.Settings"))
    found = outcome(made, mod, **settings)
    assert found == outcome(made, mod, instruments=[Sees()], **settings)


CALLED = {}


def test_a_pass_that_is_called_alone_is_verified_and_called_once(mod):
    calls = []

    @module_pass(opt_level=0)
    def once(mod, ctx):
        calls.append(ctx)
        return adds_in_place(mod, ctx)

    with PassContext() as context:
        assert len(once(mod)) == 2
    assert calls == [context]
    assert [(step.outcome, step.bindings) for step in context.steps] == [("changed", (3, 6))]
    with pytest.raises(passhost.error.PasshostError, match="other"):
        module_pass(breaks, opt_level=0)(mod)


def test_steps_keep_no_module_alive(mod):
    own = passhost.script.from_source(mod.script())
    kept = weakref.ref(own)
    nothing = module_pass(returns_it, opt_level=0)
    with PassContext() as context:
        nothing(own)
    del own
    gc.collect()
    assert kept() is None
    assert context.steps[0].bindings == (3, 3)
