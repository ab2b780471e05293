"""Tests the examples in the documents on the pass infrastructure: contexts, passes of each kind, and instruments."""

import pytest

import passhost
from passhost import relax
from passhost.instrument import PassInstrument, pass_instrument
from passhost.transform import PassContext, Sequential, module_pass


def test_a_context_is_current_inside_its_block():
    before = PassContext.current()
    with PassContext(
        opt_level=3, required_pass=["relax.LegalizeOps"], config={"relax.FuseOps.max_depth": 4}
    ) as context:
        assert PassContext.current() is context
        assert context.opt_level == 3
        assert list(context.required_pass) == ["relax.LegalizeOps"]
        assert context.config["relax.FuseOps.max_depth"] == 4
    assert PassContext.current() is before


def test_a_sequential_skips_what_is_above_the_level(mod):
    @module_pass(opt_level=3, name="demo.Expensive")
    def expensive(mod, ctx):
        raise AssertionError("skipped")

    sequence = Sequential([expensive, relax.transform.DeadCodeElimination()])
    with PassContext(opt_level=1):
        assert "unused" not in sequence(mod).script()


def test_a_pass_over_the_module(mod):
    @module_pass(opt_level=2)
    def add_identity(mod, ctx):
        bb = relax.BlockBuilder(mod)
        x = relax.Var("x", relax.TensorType([2], "float32"))
        with bb.function("identity", [x]):
            bb.emit_func_output(x)
        return bb.get()

    assert add_identity.info.name == "add_identity"
    assert add_identity.info.opt_level == 2
    made = add_identity(mod)
    assert [var.name_hint for var in made.get_global_vars()] == ["identity", "main"]
    relax.analysis.well_formed(made)


def test_a_class_that_replaces_every_function(mod):
    x = relax.Var("x", relax.TensorType([2, 4], "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(relax.op.exp(x)))
    wanted = bb.get()["main"]

    @relax.transform.function_pass(opt_level=1)
    class ReplaceWith:
        """Replaces each function with the given function."""

        def __init__(self, function):
            self.function = function

        def transform_function(self, func, mod, ctx):
            return self.function

    made = ReplaceWith(wanted)(mod)
    passhost.ir.assert_structural_equal(made["main"], wanted)
    assert ReplaceWith(wanted).info.name == "ReplaceWith"


def test_a_pass_over_dataflow_blocks(mod):
    lengths = []

    @relax.transform.dataflowblock_pass(opt_level=0, name="demo.Lengths")
    def note(block, mod, ctx):
        lengths.append(len(block.bindings))
        return block

    Sequential([relax.transform.ConvertToDataflow(), note])(mod)
    assert lengths == [3]


def test_a_pass_over_prim_funcs(mod):
    from passhost import tirx

    names = []

    @tirx.transform.prim_func_pass(opt_level=0)
    def note(func, mod, ctx):
        names.append(func.attrs["tirx.noalias"])
        return func.with_attr("seen", True)

    made = Sequential([relax.transform.LegalizeOps(), note])(mod)
    assert names == [True, True, True]
    assert made["relu"].attrs["seen"]


class Told(PassInstrument):
    """Records its calls."""

    def __init__(self, name, told):
        super().__init__()
        self.own = name
        self.told = told

    def enter_pass_ctx(self):
        self.told.append(f"{self.own}: enter")

    def exit_pass_ctx(self):
        self.told.append(f"{self.own}: exit")


def test_override_instruments_leaves_the_old_ones_and_enters_the_new_ones(mod):
    told = []
    with PassContext(instruments=[Told("a", told), Told("b", told)]) as context:
        assert told == ["a: enter", "b: enter"]
        context.override_instruments([Told("c", told)])
        assert told[2:] == ["a: exit", "b: exit", "c: enter"]
    assert told[5:] == ["c: exit"]


def test_an_instrument_with_all_five_hooks(mod):
    told = []

    @pass_instrument
    class Everything:
        def enter_pass_ctx(self):
            told.append("enter")

        def exit_pass_ctx(self):
            told.append("exit")

        def should_run(self, mod, info):
            told.append(f"should run {info.name}?")
            return info.name != "relax.CanonicalizeBindings"

        def run_before_pass(self, mod, info):
            told.append(f"before {info.name}, {len(mod.functions)} function")

        def run_after_pass(self, mod, info):
            told.append(f"after {info.name}, {len(mod.functions)} functions")

    with PassContext(instruments=[Everything()]):
        Sequential([relax.transform.CanonicalizeBindings(), relax.transform.LegalizeOps()], name="both")(mod)
    assert told == [
        "enter",
        "should run both?",
        "before both, 1 function",
        "should run relax.CanonicalizeBindings?",
        "should run relax.LegalizeOps?",
        "before relax.LegalizeOps, 1 function",
        "after relax.LegalizeOps, 4 functions",
        "after both, 4 functions",
        "exit",
    ]


def test_an_instrument_that_counts_operators(mod):
    @pass_instrument
    class Counts:
        def __init__(self):
            self.changes = {}

        def count(self, mod):
            class Calls(relax.PyExprVisitor):
                number = 0

                def visit_call_(self, call):
                    super().visit_call_(call)
                    self.number += 1

            calls = Calls()
            for function in mod.functions.values():
                if isinstance(function, relax.Function):
                    calls.visit_expr(function)
            return calls.number

        def run_before_pass(self, mod, info):
            self.before = self.count(mod)

        def run_after_pass(self, mod, info):
            self.changes[info.name] = self.count(mod) - self.before

    counts = Counts()
    with PassContext(instruments=[counts]):
        relax.transform.DeadCodeElimination()(mod)
    assert counts.changes == {"relax.DeadCodeElimination": -1}


def test_an_instrument_that_fails_while_it_enters_is_left_out():
    told = []

    class Fails(Told):
        def enter_pass_ctx(self):
            super().enter_pass_ctx()
            raise RuntimeError("no")

    context = PassContext(instruments=[Told("a", told), Fails("b", told), Told("c", told)])
    with pytest.raises(RuntimeError, match="no"), context:
        pass
    assert told == ["a: enter", "b: enter", "a: exit"]
