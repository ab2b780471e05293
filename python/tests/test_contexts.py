"""Tests contexts and instruments."""

import sys

import numpy as np
import pytest

import passhost
from passhost.error import ConfigError, PassFailedError, PlanError
from passhost.instrument import (
    DumpIR,
    PassInstrument,
    PassPrintingInstrument,
    PassTimingInstrument,
    PrintAfterAll,
    PrintBeforeAll,
    pass_instrument,
)
from passhost.transform import PassContext, Sequential, module_pass

relax = passhost.passes.relax


def test_contexts_nest():
    outer = PassContext.current()
    assert outer is PassContext.current()
    assert outer.opt_level == 2
    with PassContext(opt_level=0) as first:
        with PassContext(opt_level=3) as second:
            assert PassContext.current() is second
        assert PassContext.current() is first
    assert PassContext.current() is outer


def test_a_context_that_is_left_twice():
    context = PassContext()
    with context:
        pass
    with pytest.raises(RuntimeError, match="not the innermost one"):
        context.__exit__(None, None, None)


def test_what_a_context_takes():
    with pytest.raises(TypeError, match="opt_level must be an integer"):
        PassContext(opt_level="3")
    with pytest.raises(TypeError, match="write \\['relax.FuseOps'\\]"):
        PassContext(disabled_pass="relax.FuseOps")
    with pytest.raises(TypeError, match="an instrument must be a PassInstrument"):
        PassContext(instruments=[3])
    with pytest.raises(ConfigError, match=r"relax\.FuseOps\.max_dept"):
        PassContext(config={"relax.FuseOps.max_dept": 3})
    with pytest.raises(ConfigError, match="x"):
        PassContext(config={"relax.FuseOps.max_depth": "x"})
    assert PassContext(config={"relax": {"FuseOps": {"max_depth": 3}}}).config["relax"]["FuseOps"]["max_depth"] == 3
    assert "relax.FuseOps.max_depth" in PassContext.list_configs()


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"opt_level": 2**70}, ValueError, "opt_level must be an integer from -2147483648 to 2147483647, not"),
        ({"jobs": -1}, ValueError, "jobs must be an integer from 0 to 18446744073709551615, not -1"),
        ({"jobs": "x"}, TypeError, "jobs must be an integer, not 'x'"),
        ({"jobs": 2.5}, TypeError, "jobs must be an integer, not 2.5"),
        ({"missed": "x"}, TypeError, "missed must be True or False, not 'x'"),
        ({"tvm_compat": 1}, TypeError, "tvm_compat must be True or False, not 1"),
        ({"target": 3}, TypeError, "target must be a string, not 3"),
        ({"required_pass": 3}, TypeError, "required_pass must be a list of names, not 3"),
        (
            {"instruments": "timing"},
            TypeError,
            r"instruments must be a list of instruments, not 'timing'; write \['timing'\]",
        ),
        ({"config": 3}, TypeError, "config must be a dict that maps keys to values, not 3"),
        (
            {"config": {"relax.FuseOps.max_depth": None}},
            TypeError,
            "config relax.FuseOps.max_depth must be a bool, int",
        ),
        (
            {"config": {"relax.FuseOps.max_depth": 2**70}},
            ValueError,
            "config relax.FuseOps.max_depth must be an integer from",
        ),
    ],
)
def test_what_a_context_does_not_take(given, kind, message):
    with pytest.raises(kind, match=message):
        PassContext(**given)


def test_a_context_takes_integers_of_numpy(mod):
    config = {"relax": {"FuseOps": {"max_depth": np.int32(3)}}}
    context = PassContext(opt_level=np.int64(0), jobs=np.uint8(1), config=config)
    with context:
        relax.DeadCodeElimination()(mod)
    assert repr(context).startswith("PassContext(opt_level=0")


def test_an_integer_option_takes_true_and_false():
    text = """
@T.prim_func
def main(A: T.Buffer((2,), "float32")):
    for i in range(2):
        A[i] = T.float32(1)
    for i in T.unroll(2):
        A[i] = T.float32(2)
"""
    mod = passhost.script.from_source(text)

    def unrolled(value):
        config = {"tirx.UnrollLoop": {"explicit_unroll": value, "auto_max_step": 16}}
        with PassContext(config=config):
            return passhost.passes.tirx.UnrollLoop()(mod).script()

    assert unrolled(False) == unrolled(0) != unrolled(True)
    assert unrolled(True) == unrolled(1)
    assert "T.unroll(2)" in unrolled(False) and "for i" not in unrolled(True)


def test_levels_and_lists(mod):
    cse = relax.EliminateCommonSubexpr()
    with PassContext(disabled_pass=["relax.DeadCodeElimination"]) as context:
        assert "unused" in Sequential([relax.DeadCodeElimination()])(mod).script()
    assert any("disabled" in step.outcome for step in context.steps)
    with PassContext(opt_level=-1), pytest.raises(PlanError, match="nothing") as caught:
        cse.plan()
        raise PlanError("nothing")
    assert caught.value.exit_code == 3
    with pytest.raises(PlanError, match="NoSuchPass"), PassContext(disabled_pass=["relax.NoSuchPass"]):
        cse(mod)


class Calls(PassInstrument):
    def __init__(self, calls, name, veto=(), fails=""):
        self.calls, self.own, self.veto, self.fails = calls, name, veto, fails

    def tell(self, event):
        self.calls.append(f"{self.own} {event}")
        if self.fails and event.startswith(self.fails):
            raise LookupError(event)

    def enter_pass_ctx(self):
        self.tell("enter")

    def exit_pass_ctx(self):
        self.tell("exit")

    def should_run(self, mod, info):
        self.tell(f"should {info.name}")
        return info.name not in self.veto

    def run_before_pass(self, mod, info):
        self.tell(f"before {info.name}")

    def run_after_pass(self, mod, info):
        self.tell(f"after {info.name}")


def test_all_hooks_are_called_in_order(mod):
    calls = []
    with PassContext(instruments=[Calls(calls, "a"), Calls(calls, "b")]):
        relax.Normalize()(mod)
    events = ["should relax.Normalize", "before relax.Normalize", "after relax.Normalize"]
    expected = [f"{name} {event}" for event in ["enter", *events, "exit"] for name in "ab"]
    assert sorted(calls) == sorted(expected)
    assert calls[:2] == ["a enter", "b enter"]
    assert calls[-2:] == ["a exit", "b exit"]


def test_an_instrument_may_veto(mod):
    calls = []
    with PassContext(instruments=[Calls(calls, "a", veto=("relax.DeadCodeElimination",))]):
        assert "unused" in relax.DeadCodeElimination()(mod).script()
    assert calls == ["a enter", "a should relax.DeadCodeElimination", "a exit"]


def test_override_instruments_exits_and_enters():
    calls = []
    with PassContext(instruments=[Calls(calls, "a")]) as context:
        context.override_instruments([Calls(calls, "b")])
        assert calls == ["a enter", "a exit", "b enter"]
    assert calls[-1] == "b exit"


@pytest.mark.parametrize("event", ["should", "before", "after"])
def test_what_an_instrument_raises_stops_the_run(mod, event):
    with pytest.raises(LookupError, match=event), PassContext(instruments=[Calls([], "a", fails=event)]):
        relax.Normalize()(mod)


@pytest.mark.parametrize("hook", ["should_run", "run_before_pass", "run_after_pass"])
def test_an_instrument_that_calls_sys_exit_is_as_a_pass_that_does(mod, hook):
    leaves = type("Leaves", (PassInstrument,), {hook: lambda self, mod, info: sys.exit(7)})
    with (
        pytest.raises(PassFailedError, match=r"instrument Leaves called sys.exit\(7\)"),
        PassContext(instruments=[leaves()]),
    ):
        relax.Normalize()(mod)


def test_an_instrument_that_fails_to_enter():
    calls = []
    failing = PassContext(instruments=[Calls(calls, "a"), Calls(calls, "b", fails="enter"), Calls(calls, "c")])
    before = PassContext.current()
    with pytest.raises(LookupError), failing:
        pass
    assert calls == ["a enter", "b enter", "a exit"]
    assert PassContext.current() is before
    assert failing.instruments == []


def test_an_instrument_that_fails_to_exit():
    calls = []
    failing = PassContext(instruments=[Calls(calls, "a", fails="exit"), Calls(calls, "b")])
    with pytest.raises(LookupError), failing:
        pass
    assert calls == ["a enter", "b enter", "a exit"]


def test_classes_become_instruments(mod):
    @pass_instrument
    class Names:
        def __init__(self, names):
            self.names = names

        def run_after_pass(self, mod, info):
            self.names.append(info.name)

    names = []
    instrument = Names(names)
    assert isinstance(instrument, PassInstrument)
    assert instrument.name == "Names"
    with PassContext(instruments=[instrument]):
        Sequential([relax.Normalize(), module_pass(lambda mod, ctx: mod, opt_level=0, name="own")])(mod)
    assert names == ["relax.Normalize", "own", "sequential"]
    with pytest.raises(TypeError, match="must be a class"):
        pass_instrument(3)


def test_timing(mod):
    timing = PassTimingInstrument()
    with PassContext(instruments=[timing]):
        Sequential([relax.Normalize(), relax.LegalizeOps()])(mod)
        text = timing.render()
    assert [(depth, name) for depth, name, _ in timing.profiles] == [
        (0, "sequential"),
        (1, "relax.Normalize"),
        (1, "relax.LegalizeOps"),
    ]
    assert all(seconds > 0 for _, _, seconds in timing.profiles)
    assert text.startswith("sequential: ")
    assert "\n    relax.Normalize: " in text
    assert "Total time" in text


def test_printing_and_dumping(mod, capsys, tmp_path):
    with PassContext(instruments=[PrintBeforeAll(), PrintAfterAll()]):
        relax.DeadCodeElimination()(mod)
    out = capsys.readouterr().out
    assert out.index("Before Running Pass:") < out.index("After Running Pass:")
    with PassContext(instruments=[PassPrintingInstrument([], ["relax.Normalize"])]):
        Sequential([relax.Normalize(), relax.LegalizeOps()])(mod)
    assert capsys.readouterr().out.count("Running Pass:") == 1
    with PassContext(instruments=[DumpIR(tmp_path / "dump")]):
        Sequential([relax.Normalize(), relax.LegalizeOps()])(mod)
    names = sorted(path.name for path in (tmp_path / "dump").iterdir())
    assert names == ["000_relax.Normalize.py", "001_relax.LegalizeOps.py", "002_sequential.py"]


def test_diagnostics_are_objects(mod):
    with PassContext(missed=True) as context:
        passhost.passes.acme.GroupConvolutions()(mod)
    assert all(diagnostic.level in ("remark", "missed", "warning") for diagnostic in context.diagnostics)
