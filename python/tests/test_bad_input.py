"""Tests mistakes in passes written in Python: each raises an exception, and the module is unchanged."""

import gc
import subprocess
import sys
import threading
import time

import pytest

import passhost
from passhost.error import IllFormedError, PassFailedError, PasshostError, ScriptError
from passhost.relax import op
from passhost.relax.expr_functor import PyExprMutator, PyExprVisitor, mutator, visitor
from passhost.relax.transform import dataflowblock_pass, function_pass
from passhost.transform import PassContext, Sequential, module_pass

relax = passhost.passes.relax

OTHER = """
@I.ir_module
class Module:
    @R.function
    def main(a: R.Tensor((5,), "int64"), b: R.Tensor((5,), "int64")) -> R.Tensor((5,), "int64"):
        cls = Module
        return cls.helper(a, b)

    @R.function(private=True)
    def helper(a: R.Tensor((5,), "int64"), b: R.Tensor((5,), "int64")) -> R.Tensor((5,), "int64"):
        return R.add(a, b)
"""


def refused(made, mod, kind, message):
    """Returns the exception that a pass raises; the pass must leave the module unchanged."""
    before = mod.script()
    with pytest.raises(kind, match=message) as caught:
        Sequential([relax.Normalize(), made])(mod)
    assert mod.script() == before
    assert relax.DeadCodeElimination()(mod) is not mod
    return caught.value


def test_what_is_no_source_of_a_module():
    for source in ["def @x", "\0", "", "class"]:
        with pytest.raises(ScriptError):
            passhost.script.from_source(source)
    with pytest.raises(TypeError, match=r"not an object of builtins.bytes; decode it"):
        passhost.script.from_source(b"class")
    family = type("Module", (), {"__module__": "torch.nn.modules.module"})
    with pytest.raises(TypeError, match=r"convert it with tvm.relax.frontend.torch"):
        passhost.script.from_source(type("Own", (family,), {})())


def test_a_pass_that_returns_none(mod):
    found = refused(
        module_pass(lambda mod, ctx: None, opt_level=0, name="test.None"), mod, TypeError, "returned NoneType"
    )
    assert "test.None" in str(found)
    refused(function_pass(lambda func, mod, ctx: None, opt_level=0), mod, TypeError, "returned NoneType")


def test_a_pass_that_returns_a_function_instead_of_a_module(mod):
    refused(module_pass(lambda mod, ctx: mod["main"], opt_level=0), mod, TypeError, "returned Function; it must return")


def test_a_pass_that_returns_the_body_of_another_function(mod):
    """The pass returns a function from a different module; it calls a function that this module lacks."""
    other = passhost.script.from_source(OTHER)
    stolen = function_pass(lambda func, mod, ctx: other["main"], opt_level=0, name="test.Stolen")
    refused(stolen, mod, (IllFormedError, PassFailedError), "helper")


def test_a_pass_that_mixes_the_body_of_another_function(mod):
    """The pass combines the parameters of one function with the body of another, so the body's variables are
    undefined."""
    other = passhost.script.from_source(OTHER)

    def mixed(func, mod, ctx):
        return passhost.relax.Function(func.params, other["helper"].body, attrs=func.attrs)

    refused(function_pass(mixed, opt_level=0), mod, (IllFormedError, PassFailedError), "a")


def test_a_pass_whose_result_has_another_type(mod):
    def other_type(func, mod, ctx):
        x = passhost.relax.Var("x", passhost.relax.TensorType((3,), "int32"))
        return passhost.relax.Function([x], op.add(x, func.params[0]), attrs=func.attrs)

    refused(function_pass(other_type, opt_level=0), mod, PasshostError, ".")


def test_a_view_of_a_dead_module(mod):
    """The pass keeps expressions and tables of modules that no longer exist."""
    kept = []

    @module_pass(opt_level=0)
    def keeps(mod, ctx):
        kept.append((mod, mod["main"], mod["main"].body.blocks[0].bindings[0], mod["main"].table()))
        return relax.LegalizeOps()(mod)

    keeps(mod)
    text = mod.script()
    del mod
    gc.collect()
    [(module, function, binding, nodes)] = kept
    assert module.script() == text
    assert binding.var.name == "y" and "R.add" in str(binding.value)
    assert function.body.blocks[0].bindings[0].value.op.name == "relax.add"
    assert len(nodes) > 3
    kept.clear()
    del module, function
    gc.collect()
    assert "R.add" in str(binding.value) and nodes["kind"][0] == 1


def test_a_pass_that_changes_the_module_during_a_visit(mod):
    """Checks that a change of the module does not affect a visit, because the host treats the changed module as a new
    module."""

    @visitor
    class Deletes(PyExprVisitor):
        def __init__(self, mod):
            super().__init__()
            self.mod, self.seen = mod, []

        def visit_call_(self, call):
            self.seen.append(call.op.name)
            self.mod["main"] = passhost.script.from_source(OTHER)["helper"]

    changed = mod.clone()
    visits = Deletes(changed)
    visits.visit_expr(changed["main"])
    assert visits.seen == ["relax.add", "relax.multiply", "relax.nn.relu"]
    assert "R.nn.relu" in mod.script()
    assert "R.nn.relu" not in changed.script()


def test_objects_cannot_be_written_during_a_visit(mod):
    @mutator
    class Writes(PyExprMutator):
        def visit_call_(self, call):
            call.args = ()
            return call

    writes = module_pass(lambda mod, ctx: Writes(mod).visit_expr(mod["main"]) and mod, opt_level=0)
    refused(writes, mod, AttributeError, "args")
    with pytest.raises(AttributeError):
        del mod["main"].body.blocks


def test_iteration_over_a_module_that_is_changed():
    mod = passhost.script.from_source(OTHER)

    @module_pass(opt_level=0)
    def removes(mod, ctx):
        made = mod.clone()
        for var in made:
            if var.name_hint == "helper":
                del made[var]
        return made

    refused(
        removes,
        passhost.script.from_source(OTHER.replace("return R.add(a, b)", "c = R.add(a, a)\n        return R.add(a, b)")),
        PasshostError,
        "helper",
    )
    assert len(mod) == 2


def test_a_pass_that_calls_the_host(mod):
    @module_pass(opt_level=0, name="test.Inner")
    def inner(mod, ctx):
        with PassContext(opt_level=0, disabled_pass=["relax.FuseOps"]):
            made = Sequential([relax.DeadCodeElimination(), relax.LegalizeOps()])(mod)
        assert PassContext.current() is ctx
        passhost.validate(made, relax.Normalize())
        return passhost.script.from_source(made.script())

    assert "call_tir" in inner(mod).script()


def test_a_pass_that_calls_itself_without_end(mod):
    made = []

    @module_pass(opt_level=0)
    def forever(mod, ctx):
        return made[0](mod)

    made.append(forever)
    found = refused(forever, mod, PasshostError, "a pass that runs other passes must not lead back to itself")
    assert all(len(note) < 100 for note in found.__notes__)


@pytest.mark.parametrize("in_context", [False, True])
def test_a_pass_that_is_called_alone_and_calls_itself_without_end(mod, in_context):
    @module_pass(opt_level=0)
    def forever(mod, ctx):
        if not in_context:
            return forever(mod)
        with PassContext():
            return forever(mod)

    for _ in range(2):
        with pytest.raises(PasshostError, match="a pass that runs other passes must not lead back to itself") as caught:
            forever(mod)
        assert len(caught.value.__notes__) < 40
    assert module_pass(lambda mod, ctx: mod, opt_level=0)(mod) is mod


@pytest.mark.parametrize("leave", [lambda: sys.exit(7), lambda: (_ for _ in ()).throw(SystemExit(1)), lambda: exit(0)])
def test_a_pass_that_exits_the_interpreter(mod, leave):
    refused(module_pass(lambda mod, ctx: leave(), opt_level=0), mod, PassFailedError, "called sys.exit")


def test_a_block_pass_that_returns_something_else(mod):
    source = mod.script().replace("        y:", "        with R.dataflow():\n            y:", 1)
    assert "R.dataflow" in source
    blocks = relax.ConvertToDataflow(min_size=1)(mod)
    made = dataflowblock_pass(lambda block, mod, ctx: 3, opt_level=0)
    refused(made, blocks, TypeError, "int")


def test_a_bare_exception_class(mod):
    class Odd(Exception):
        def __str__(self):
            raise ValueError("no text either")

    def odd(mod, ctx):
        raise Odd

    with pytest.raises(Odd):
        module_pass(odd, opt_level=0)(mod)


@pytest.mark.parametrize(
    "name, value",
    [
        ("fuse_opt_level", "high"),
        ("fuse_opt_level", 1.5),
        ("fuse_opt_level", [1]),
        ("fuse_opt_level", None),
        ("fuse_opt_level", 2**70),
        ("fuse_opt_level", object()),
    ],
)
def test_options_of_wrong_types(mod, name, value):
    with pytest.raises((TypeError, ValueError, OverflowError)) as caught:
        relax.FuseOps(**{name: value})(mod)
    assert len(str(caught.value)) > 10


def in_a_thousand_threads(run):
    """Calls a function in several threads, with the number of the thread; no call may fail."""
    failed = []

    def guarded(number):
        try:
            run(number)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(1_000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failed


def test_a_pass_in_a_thousand_threads_with_contexts_of_their_own(mod):
    levels = set()

    @module_pass(opt_level=0)
    def look(mod, ctx):
        levels.add(ctx.opt_level)
        return mod

    def run(level):
        with PassContext(opt_level=level, config={"relax.FuseOps.max_depth": level + 1}) as context:
            assert PassContext.current() is context
            Sequential([relax.DeadCodeElimination(), look])(mod)
            assert PassContext.current() is context
        assert PassContext.current() is not context

    in_a_thousand_threads(run)
    assert levels == set(range(1_000))


def test_a_pass_that_is_called_alone_in_a_thousand_threads(mod):
    """Calls the pass in separate contexts, and in one shared context."""
    shared = PassContext(opt_level=1)

    @module_pass(opt_level=0)
    def look(mod, ctx):
        assert ctx is PassContext.current()
        assert relax.Normalize()(mod) is mod
        return mod

    def run(number):
        with shared if number % 2 else PassContext(opt_level=number) as context:
            assert look(mod) is mod
            assert context.steps

    in_a_thousand_threads(run)


LATE = """
import passhost, os
from passhost.transform import module_pass, PassContext, Sequential
lines = "".join(
    f"    @R.function\\n    def f{i}(x: R.Tensor((2,), 'float32')):\\n        y = R.add(x, x)\\n        return y\\n"
    for i in range(1000))
mod = passhost.script.from_source("@I.ir_module\\nclass M:\\n" + lines)
from passhost.relax.transform import function_pass
from passhost.relax import op
seen = []
@function_pass(opt_level=0)
def each(func, mod, ctx):
    seen.append(func)
    x = func.params[0]
    return passhost.relax.Function([x], op.multiply(x, x), attrs=func.attrs)
with PassContext(jobs=4):
    made = Sequential([passhost.passes.relax.Normalize(), each, passhost.passes.relax.LegalizeOps()])(mod)
assert len(seen) == 1000 and "R.add" not in made.script()
print("done")
"""


def test_a_python_pass_over_a_thousand_functions_with_four_jobs():
    ran = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, timeout=120, check=False)
    assert (ran.stdout, ran.returncode) == ("done\n", 0), ran.stderr


INTERRUPTED = """
import passhost, signal, time
# A test that a shell starts in the background inherits ignored signals.
signal.signal(signal.SIGINT, signal.default_int_handler)
from passhost.transform import module_pass, Sequential
mod = passhost.script.from_source("@R.function\\ndef main(x: R.Tensor((2,), 'float32')):\\n    return R.add(x, x)")
mod = passhost.IRModule.from_expr(mod) if not isinstance(mod, passhost.IRModule) else mod
@module_pass(opt_level=0)
def slow(mod, ctx):
    time.sleep(0.01)
    return mod
many = Sequential([slow, passhost.passes.relax.Normalize()] * 10_000)
print("ready", flush=True)
try:
    many(mod)
    print("not interrupted")
except KeyboardInterrupt as error:
    print("interrupted", len(error.__notes__))
"""


def test_ctrl_c_from_outside_ends_a_long_run():
    child = subprocess.Popen([sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    time.sleep(1)
    child.send_signal(2)
    rest, _ = child.communicate(timeout=60)
    assert (rest, child.returncode) == ("interrupted 1\n", 0)
