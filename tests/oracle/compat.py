"""Runs the same scenarios with TVM and with `passhost run --tvm-compat`, and compares the sequences of calls."""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import tvm
from tvm.ir.instrument import pass_instrument
from tvm.script import ir as I
from tvm.script import relax as R

ROOT = pathlib.Path(__file__).resolve().parents[2]

# The passes of tests/bad-plugins/zoo/examples/zoo_{instruments,required}.rs: opt_level and required.
PASSES = {
    "zoo.First": (0, []),
    "zoo.Second": (1, ["zoo.First"]),
    "zoo.Third": (2, ["zoo.Second"]),
    "zoo.Adds": (0, []),
    "zoo.Fails": (0, []),
    "zoo.High": (9, []),
    "zoo.NeedsHigh": (0, ["zoo.High"]),
    "zoo.Unmet": (0, ["zoo.Nowhere"]),
}
BOTH = (1, ["zoo.High"], ["zoo.Second", "zoo.Adds"])


class Seq:
    """A Sequential in the pipeline."""

    def __init__(self, *members, name=None, level=0, required=()):
        self.members, self.name, self.level, self.required = members, name, level, list(required)


@I.ir_module
class Small:
    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32")) -> R.Tensor((2, 3), dtype="float32"):
        return x


TEXT = """@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32")) -> R.Tensor((2, 3), dtype="float32"):
        return x
"""

LOG = []


def make(name):
    """Returns a TVM pass with the name, level and requirements of the plugin's pass."""
    if name == "zoo.Both":
        level, required, members = BOTH
        return tvm.transform.Sequential([make(m) for m in members], opt_level=level, name=name, required=required)
    level, required = PASSES[name]

    def run(module, _):
        LOG.append(f"{name} runs")
        if name == "zoo.Fails":
            raise ValueError("this pass always fails")
        return module

    return tvm.transform.module_pass(run, opt_level=level, name=name, required=required)


for known in [*PASSES, "zoo.Both"]:
    tvm.register_global_func(f"transform.{known}", lambda known=known: make(known))


def instrument(name, fails, vetoes):
    def told(event, what=""):
        LOG.append(f"{name}.{event} {what}".strip())
        if event == fails:
            raise ValueError(f"{name} does not like it")

    @pass_instrument
    class Recorder:
        def enter_pass_ctx(self):
            told("enter")

        def exit_pass_ctx(self):
            told("exit")

        def should_run(self, _, info):
            told("should_run", info.name)
            return info.name not in vetoes

        def run_before_pass(self, _, info):
            told("run_before", info.name)

        def run_after_pass(self, _, info):
            told("run_after", info.name)

    return Recorder()


def as_tvm(item):
    if isinstance(item, str):
        return make(item)
    name = {} if item.name is None else {"name": item.name}
    members = [as_tvm(m) for m in item.members]
    return tvm.transform.Sequential(members, opt_level=item.level, required=item.required, **name)


def as_text(item):
    if isinstance(item, str):
        return item
    options = [f"name={item.name}"] * (item.name is not None) + [f"opt_level={item.level}"] * (item.level != 0)
    options += [f"required=[{','.join(item.required)}]"] * (item.required != [])
    head = f"({','.join(options)})" if options else ""
    return f"Sequential{head}[{','.join(as_text(m) for m in item.members)}]"


def on_tvm(case):
    LOG.clear()
    items = case["run"]
    called = as_tvm(items[0]) if len(items) == 1 else as_tvm(Seq(*items))
    context = tvm.transform.PassContext(
        opt_level=case.get("level", 2),
        disabled_pass=case.get("disabled", []),
        required_pass=case.get("required", []),
        instruments=[instrument(*each) for each in case.get("instruments", [])],
    )
    try:
        with context:
            called(Small)
    except Exception:  # TVM raises errors of several classes
        LOG.append("an error")
    return list(LOG)


def on_passhost(case, binary, plugins, folder):
    log = folder / "log"
    log.unlink(missing_ok=True)
    (folder / "passes.toml").write_text("".join(f'[[plugin]]\npath = "{plugin}"\n' for plugin in plugins))
    command = [str(binary), "run", "-", "--tvm-compat", "--passes", ",".join(map(as_text, case["run"]))]
    command += ["--opt-level", str(case.get("level", 2))]
    for name in case.get("disabled", []):
        command += ["--disable", name]
    for name in case.get("required", []):
        command += ["--require", name]
    for name, fails, vetoes in case.get("instruments", []):
        command += ["--instrument", f'zoo.Recorder{{name={name}, fails="{fails}", vetoes=[{", ".join(vetoes)}]}}']
    environment = {**os.environ, "ZOO_LOG": str(log), "XDG_CACHE_HOME": str(folder / "cache")}
    done = subprocess.run(command, input=TEXT, capture_output=True, text=True, cwd=folder, env=environment)
    lines = log.read_text().splitlines() if log.exists() else []
    lines = [re.sub(r" \(step .*", "", line) for line in lines]
    lines = [line for line in lines if not re.match(r"\w+\.(new|drop)\b", line)]
    if done.returncode not in (0, 2, 3):
        lines.append(f"exit code {done.returncode}: {done.stderr}")
    return lines + ["an error"] * (done.returncode in (2, 3)), done.stderr


A, B, C = ("a", "", []), ("b", "", []), ("c", "", [])


def fails(event):
    return [A, ("b", event, []), C]


TWO = ["zoo.First", "zoo.Adds"]
SEES = [A, B]
SCENARIOS = {
    "two passes": {"run": TWO, "instruments": SEES},
    "no pass": {"run": [], "instruments": SEES},
    "no instrument": {"run": TWO},
    "levels": {"run": ["zoo.First", "zoo.Second", "zoo.Third", "zoo.High"], "instruments": [A]},
    "level -1": {"run": TWO, "level": -1, "instruments": [A]},
    "level 0": {"run": ["zoo.First", "zoo.Second"], "level": 0, "instruments": [A]},
    "required by the context": {"run": ["zoo.High", "zoo.First"], "required": ["zoo.High"], "instruments": [A]},
    "disabled": {"run": TWO, "disabled": ["zoo.First"], "instruments": [A]},
    "disabled and required": {"run": TWO, "disabled": ["zoo.First"], "required": ["zoo.First"], "instruments": [A]},
    "unknown names": {"run": TWO, "disabled": ["nope", "First"], "required": ["zoo.Nope"], "instruments": [A]},
    "called alone, disabled": {"run": ["zoo.First"], "disabled": ["zoo.First"], "instruments": [A]},
    "called alone, with a high opt_level": {"run": ["zoo.High"], "level": 0, "instruments": [A]},
    "called alone, with required": {"run": ["zoo.Third"], "instruments": [A]},
    "called alone, vetoed": {"run": ["zoo.First"], "instruments": [A, ("b", "", ["zoo.First"])]},
    "a Sequential with one pass": {"run": [Seq("zoo.High")], "instruments": [A]},
    "a Sequential called alone": {"run": [Seq(*TWO, name="late", level=9)], "disabled": ["late"], "instruments": [A]},
    "nested": {"run": ["zoo.First", Seq("zoo.Adds", name="late")], "instruments": SEES},
    "nested, with a high opt_level": {"run": ["zoo.First", Seq("zoo.Adds", name="late", level=3)], "instruments": [A]},
    "nested, disabled": {"run": ["zoo.First", Seq("zoo.Adds", name="late")], "disabled": ["late"], "instruments": [A]},
    "nested, required": {
        "run": [Seq("zoo.Adds", name="late", level=3), "zoo.First"], "required": ["late"], "instruments": [A],
    },
    "nested without a name, disabled": {
        "run": ["zoo.First", Seq("zoo.Adds")], "disabled": ["sequential"], "instruments": [A],
    },
    "nested, vetoed": {"run": ["zoo.First", Seq("zoo.Adds", name="late")], "instruments": [("a", "", ["late"]), B]},
    "nested, with required": {
        "run": ["zoo.First", Seq("zoo.Adds", name="late", required=["zoo.Third", "zoo.High"])], "instruments": [A],
    },
    "nested, with required, vetoed": {
        "run": ["zoo.First", Seq("zoo.Adds", name="late", required=["zoo.Third"])],
        "instruments": [A, ("b", "", ["late"])],
    },
    "nested, required by an unused name": {
        "run": ["zoo.First", Seq("zoo.Adds", name="late", required=["Nowhere"])], "instruments": [A],
    },
    "nested, with a high opt_level, required by an unused name": {
        "run": ["zoo.First", Seq("zoo.Adds", name="late", level=3, required=["zoo.Nowhere"])], "instruments": [A],
    },
    "a Sequential called alone, with required": {
        "run": [Seq("zoo.Adds", name="late", required=["zoo.First"])], "instruments": [A],
    },
    "three deep": {"run": ["zoo.First", Seq(Seq("zoo.Third", name="in"), "zoo.Adds", name="out")], "instruments": [A]},
    "required before every owner": {"run": ["zoo.Second", "zoo.Second"], "instruments": SEES},
    "required is not recursive": {"run": ["zoo.Third", "zoo.Adds"], "instruments": [A]},
    "required and disabled": {"run": ["zoo.Second", "zoo.Adds"], "disabled": ["zoo.First"], "instruments": [A]},
    "required, with a high opt_level": {"run": ["zoo.NeedsHigh", "zoo.Adds"], "level": 0, "instruments": [A]},
    "required, vetoed": {"run": ["zoo.Second", "zoo.Adds"], "instruments": [A, ("b", "", ["zoo.First"])]},
    "owner vetoed": {"run": ["zoo.Second", "zoo.Adds"], "instruments": [A, ("b", "", ["zoo.Second"])]},
    "owner disabled": {"run": ["zoo.Second", "zoo.Unmet"], "disabled": ["zoo.Second", "zoo.Unmet"], "instruments": [A]},
    "required by an unused name": {"run": ["zoo.First", "zoo.Unmet", "zoo.Adds"], "instruments": [A]},
    "an unused name, called alone": {"run": ["zoo.Unmet"], "instruments": [A]},
    "all vetoed": {"run": TWO, "instruments": [A, ("b", "", ["sequential"])]},
    "context beats veto": {"run": TWO, "required": ["zoo.First"], "instruments": [A, ("b", "", ["zoo.First"])]},
    "context beats veto of all": {"run": TWO, "required": ["sequential"], "instruments": [("a", "", ["sequential"])]},
    "context and required": {
        "run": ["zoo.Second", "zoo.Adds"], "required": ["zoo.First"], "instruments": [("a", "", ["zoo.First"])],
    },
    "composite": {"run": ["zoo.First", "zoo.Both"], "instruments": [A]},
    "composite, called alone": {"run": ["zoo.Both"], "level": 0, "instruments": [A]},
    "composite, with a high opt_level": {"run": ["zoo.First", "zoo.Both"], "level": 0, "instruments": [A]},
    "composite, vetoed": {"run": ["zoo.First", "zoo.Both"], "instruments": [A, ("b", "", ["zoo.Both"])]},
    "fails in enter": {"run": TWO, "instruments": fails("enter")},
    "fails in exit": {"run": TWO, "instruments": fails("exit")},
    "fails in should_run": {"run": TWO, "instruments": fails("should_run")},
    "fails in run_before": {"run": TWO, "instruments": fails("run_before")},
    "fails in run_after": {"run": TWO, "instruments": fails("run_after")},
    "the last instrument fails in enter": {"run": TWO, "instruments": [A, B, ("c", "enter", [])]},
    "the pass fails": {"run": ["zoo.First", "zoo.Fails", "zoo.Adds"], "instruments": SEES},
    "a pass fails in a nested Sequential": {"run": ["zoo.First", Seq("zoo.Fails", name="late")], "instruments": SEES},
    "pass and exit fail": {"run": ["zoo.First", "zoo.Fails"], "instruments": fails("exit")},
    "the pass fails, called alone": {"run": ["zoo.Fails"], "instruments": SEES},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default=ROOT / "target/debug/passhost", type=pathlib.Path)
    args = parser.parse_args()
    binary = args.binary.resolve()
    plugins = [binary.parent / f"examples/libzoo_{name}.so" for name in ("instruments", "required")]
    differ = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, case in SCENARIOS.items():
            theirs = on_tvm(case)
            ours, said = on_passhost(case, binary, plugins, pathlib.Path(folder))
            if theirs != ours:
                differ += 1
                print(f"{name}: DIFFERS\n  TVM      {' | '.join(theirs)}\n  passhost {' | '.join(ours)}\n{said}")
    total = len(SCENARIOS)
    print(f"{total - differ} of {total} scenarios have the same order of calls")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
