"""Compares passhost's standard passes with TVM's passes on generated modules.

Each seed generates one module that is well-formed for TVM. TVM and passhost run each pass on it, and the results must
be structurally equal. The exit code is 1 if there are differences that README.md does not explain.
"""

import argparse
import collections
import pathlib
import random
import subprocess
import sys

import tvm
from tvm import relax

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENSOR = 'R.Tensor((8, 8), dtype="float32")'
WIDE = 'R.Tensor(ndim=2, dtype="float32")'
PAIR = f"R.Tuple({TENSOR}, {TENSOR})"
HEADER = "# from tvm.script import ir as I\n# from tvm.script import relax as R\n\n@I.ir_module\nclass Module:\n"

FEATURES = {
    "nested": "calls nested in calls",
    "dataflow": "dataflow blocks",
    "if": "If with blocks in its branches",
    "function": "nested functions",
    "capture": "nested functions that use outer variables",
    "module": "module functions that call each other",
    "effect": "calls with side effects",
    "constant": "constants bound to variables",
    "shape": "shapes bound to variables, and reshapes",
    "cast": "match_cast",
    "wide": "annotations that are less precise than the value",
}

# The pass in passhost, the same pass in TVM, and the features that a module must contain for a useful test.
PASSES = {
    "Normalize": (lambda: relax.transform.Normalize(), None),
    "CanonicalizeBindings": (lambda: relax.transform.CanonicalizeBindings(), None),
    "EliminateCommonSubexpr": (lambda: relax.transform.EliminateCommonSubexpr(), None),
    "EliminateCommonSubexpr{call_only=true}": (lambda: relax.transform.EliminateCommonSubexpr(call_only=True), None),
    "DeadCodeElimination": (lambda: relax.transform.DeadCodeElimination(), None),
    "DeadCodeElimination{entry_functions=[g0]}": (lambda: relax.transform.DeadCodeElimination(["g0"]), "module"),
    "ConvertToDataflow": (lambda: relax.transform.ConvertToDataflow(), None),
    "ConvertToDataflow{min_size=1}": (lambda: relax.transform.ConvertToDataflow(min_size=1), None),
    "ConvertToDataflow{min_size=4}": (lambda: relax.transform.ConvertToDataflow(min_size=4), None),
    "ToNonDataflow": (lambda: relax.transform.ToNonDataflow(), None),
}


class Scope:
    """The available variables: tensors, pairs of tensors, and tensors with less precise types."""

    def __init__(self, tensors, pairs=(), wide=()):
        self.tensors, self.pairs, self.wide = list(tensors), list(pairs), list(wide)

    def copy(self):
        return Scope(self.tensors, self.pairs, self.wide)

    def add(self, kind, name):
        if kind != "other":
            getattr(self, kind).append(name)


class Generator:
    """Writes one module."""

    def __init__(self, seed, features):
        self.random = random.Random(seed)
        self.features = features
        self.lines = []
        self.count = 0
        self.effect = False

    def module(self):
        helpers = []
        if "module" in self.features:
            for name in ["g0", "g1", "g2"]:
                self.helper(name, helpers)
                helpers.append(name)
        self.main(helpers)
        return HEADER + "\n".join(self.lines)

    def helper(self, name, callees):
        """Writes a function of one tensor, often private, without effects or branches."""
        features, self.features = self.features, self.features - {"if", "effect"}
        private = "(private=True)" if self.random.random() < 0.7 else ""
        self.count = 0
        self.write(1, f"@R.function{private}")
        self.write(1, f"def {name}(x: {TENSOR}) -> {TENSOR}:")
        self.write(2, "cls = Module")
        scope = Scope(["x", "x"])
        self.blocks(2, scope, self.random.randrange(1, 5), 0, callees)
        self.write(2, f"return {self.random.choice(scope.tensors[-3:])}\n")
        self.features = features

    def main(self, callees):
        self.count, self.effect = 0, False
        outside, self.lines = self.lines, []
        scope = Scope(["x", "y"], ["pair"])
        self.blocks(2, scope, self.random.randrange(3, 14), 0, callees)
        result, ty = self.result(scope)
        self.write(2, f"return {result}\n")
        params = f'x: {TENSOR}, y: {TENSOR}, c: R.Tensor((), dtype="bool"), pair: {PAIR}'
        body, self.lines = self.lines, outside
        self.write(1, "@R.function(pure=False)" if self.effect else "@R.function")
        self.write(1, f"def main({params}) -> {ty}:")
        self.write(2, "cls = Module")
        self.lines += body

    def result(self, scope):
        found = [self.random.choice(scope.tensors[-4:]) for _ in range(3)]
        kind = self.random.random()
        if kind < 0.5:
            return f"({', '.join(found)})", f"R.Tuple({TENSOR}, {TENSOR}, {TENSOR})"
        if kind < 0.6 and "nested" in self.features:
            return self.call(scope), TENSOR
        return found[0], TENSOR

    def blocks(self, indent, scope, bindings, depth, callees):
        """Writes blocks with `bindings` bindings in total. Dataflow variables that are not outputs are not used after
        the block."""
        while bindings > 0:
            size = self.random.randrange(1, 6)
            bindings -= size
            if "dataflow" not in self.features or self.random.random() < 0.5:
                self.bindings(indent, scope, size, False, depth, callees)
                continue
            self.write(indent, "with R.dataflow():")
            inner = scope.copy()
            new = self.bindings(indent + 1, inner, size + 1, True, depth, callees)
            outputs = [variable for variable in new if self.random.random() < 0.4] or new[-1:]
            self.write(indent + 1, f"R.output({', '.join(name for name, _ in outputs)})")
            for name, kind in outputs:
                scope.add(kind, name)

    def bindings(self, indent, scope, n, flows, depth, callees):
        """Writes at least `n` bindings; returns their names and kinds."""
        choices = [(30, self.bind_call), (15, self.bind_alias), (7, self.bind_pair), (10, self.bind_element)]
        if "cast" in self.features:
            choices.append((4, self.bind_cast))
        if "constant" in self.features:
            choices.append((4, self.bind_constant))
        if "shape" in self.features:
            choices.append((4, self.bind_shape))
        if "wide" in self.features:
            choices += [(2, self.bind_wide), (3, self.bind_narrowed)]
        if "module" in self.features and callees:
            choices.append((6, lambda i, s: self.bind_callee(i, s, callees)))
        if "effect" in self.features and not flows:
            choices += [(4, self.bind_packed), (2, self.bind_print)]
        if "if" in self.features and not flows and depth < 2:
            choices.append((4, lambda i, s: self.bind_if(i, s, depth, callees)))
        if "function" in self.features and not flows and depth < 2:
            choices.append((3, lambda i, s: self.bind_function(i, s, depth)))
        weights, makers = zip(*choices)
        new = []
        for maker in self.random.choices(makers, weights, k=n):
            for name, kind in maker(indent, scope):
                scope.add(kind, name)
                new.append((name, kind))
        return new

    def bind_call(self, indent, scope):
        return self.bind(indent, "v", "tensors", self.call(scope))

    def bind_alias(self, indent, scope):
        return self.bind(indent, f"v", "tensors", self.random.choice(scope.tensors), f": {TENSOR}")

    def bind_pair(self, indent, scope):
        items = f"({self.random.choice(scope.tensors)}, {self.random.choice(scope.tensors)})"
        return self.bind(indent, "t", "pairs", items)

    def bind_element(self, indent, scope):
        if not scope.pairs:
            return self.bind_call(indent, scope)
        return self.bind(indent, "v", "tensors", f"{self.random.choice(scope.pairs)}[{self.random.randrange(2)}]")

    def bind_cast(self, indent, scope):
        return self.bind(indent, "v", "tensors", f"R.match_cast({self.random.choice(scope.tensors)}, {TENSOR})")

    def bind_constant(self, indent, scope):
        constant = self.bind(indent, "k", "other", f'R.const({self.random.randrange(2)}.0, "float32")')
        use = f"R.add({self.random.choice(scope.tensors)}, {constant[0][0]})"
        return constant + self.bind(indent, "v", "tensors", use)

    def bind_shape(self, indent, scope):
        shape = self.bind(indent, "s", "other", f"R.shape([{self.random.choice(['8, 8', '64'])}])")
        use = f"R.reshape({self.random.choice(scope.tensors)}, R.shape([64]))"
        return shape + self.bind(indent, "z", "other", use)

    def bind_wide(self, indent, scope):
        wide = self.bind(indent, "w", "wide", self.random.choice(scope.tensors), f": {WIDE}")
        if self.random.random() < 0.5:
            wide += self.bind(indent, "w", "wide", wide[0][0], f": {WIDE}")
        return wide

    def bind_narrowed(self, indent, scope):
        if not scope.wide:
            return self.bind_call(indent, scope)
        return self.bind(indent, "v", "tensors", f"R.match_cast({self.random.choice(scope.wide)}, {TENSOR})")

    def bind_callee(self, indent, scope, callees):
        call = f"cls.{self.random.choice(callees)}({self.random.choice(scope.tensors)})"
        return self.bind(indent, "v", "tensors", call)

    def bind_packed(self, indent, scope):
        self.effect = True
        call = f'R.call_packed("f", {self.random.choice(scope.tensors)}, ty_args=({TENSOR},))'
        return self.bind(indent, "v", "tensors", call)

    def bind_print(self, indent, scope):
        self.effect = True
        return self.bind(indent, "p", "other", f'R.print({self.random.choice(scope.tensors)}, format="{{}}")')

    def bind_if(self, indent, scope, depth, callees):
        name = self.name("i")
        for line in ["if c:", "else:"]:
            self.write(indent, line)
            inner = scope.copy()
            self.blocks(indent + 1, inner, self.random.randrange(1, 5), depth + 1, callees)
            result = self.call(inner) if self.random.random() < 0.6 else self.random.choice(inner.tensors)
            self.write(indent + 1, f"{name} = {result}")
        return [(name, "tensors")]

    def bind_function(self, indent, scope, depth):
        name, param = self.name("f"), self.name("a")
        self.write(indent, "@R.function")
        self.write(indent, f"def {name}({param}: {TENSOR}) -> {TENSOR}:")
        inner = Scope([param] + (scope.tensors if "capture" in self.features else [param]))
        effect, features = self.effect, self.features
        self.features = self.features - {"effect"}
        self.blocks(indent + 1, inner, self.random.randrange(1, 5), depth + 2, [])
        self.effect, self.features = effect, features
        self.write(indent + 1, f"return {self.random.choice(inner.tensors)}")
        return self.bind(indent, "v", "tensors", f"{name}({self.random.choice(scope.tensors)})")

    def bind(self, indent, prefix, kind, value, annotation=""):
        name = self.name(prefix)
        self.write(indent, f"{name}{annotation} = {value}")
        return [(name, kind)]

    def call(self, scope, depth=0):
        def argument():
            if "nested" in self.features and depth < 2 and self.random.random() < 0.3:
                return self.call(scope, depth + 1)
            return self.random.choice(scope.tensors)

        kind = self.random.randrange(4)
        if kind == 0:
            return f"R.nn.relu({argument()})"
        if kind == 1:
            return f"R.multiply({argument()}, {argument()})"
        # There are few operands, so that calls repeat.
        other = argument() if kind == 2 else self.random.choice(scope.tensors[:2])
        return f"R.add({argument()}, {other})"

    def name(self, prefix):
        self.count += 1
        return f"{prefix}{self.count}"

    def write(self, indent, text):
        self.lines.append("    " * indent + text)


def equal(ours, theirs):
    try:
        tvm.ir.assert_structural_equal(ours, theirs)
        return True
    except Exception:  # TVM raises errors of several classes
        return False


def well_formed(module):
    try:
        return relax.analysis.well_formed(module) is not False
    except Exception:
        return False


def compare(binary, name, text):
    """Returns the outcome of one pass on one module, and both results if they differ."""
    module = tvm.script.from_source(text)
    theirs = PASSES[name][0]()(module)
    command = [str(binary), "run", "-", "--opt-level", "9", "--passes", f"relax.{name}"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        return "failed", done.stderr
    ours = tvm.script.from_source(done.stdout)
    outcome, _ = judge(name, PASSES[name][0], ours, theirs)
    return outcome, f"--- theirs\n{theirs.script()}\n--- ours\n{done.stdout}" if outcome == "differs" else None


def judge(name, make_pass, ours, theirs):
    """Compares two results of a pass; returns the kind of the outcome and the reason for a difference."""
    if equal(ours, theirs):
        return "equal", ""
    if not well_formed(theirs):
        return "ill-formed in TVM", ""
    # TVM's own result, printed and parsed again: parsing narrows annotations and drops names.
    try:
        again = tvm.script.from_source(theirs.script(show_meta=True), check_well_formed=False)
    except Exception:
        again = theirs
    if equal(ours, again):
        return "equal once read", ""
    if "DeadCodeElimination" in name and equal(ours, make_pass()(theirs)):
        return "equal to TVM twice", ""
    return "differs", difference(ours, theirs)


def difference(ours, theirs):
    """Returns the first difference between two modules, in TVM's words."""
    try:
        tvm.ir.assert_structural_equal(ours, theirs)
    except Exception as error:
        return str(error)
    return ""


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="features:\n" + "\n".join(f"  {name:10} {doc}" for name, doc in FEATURES.items()),
    )
    parser.add_argument("--seeds", default="0-100", help="FIRST-END, the end not included (default: %(default)s)")
    parser.add_argument("--features", default=",".join(FEATURES), help="parts of the modules, separated by commas (default: all)")
    parser.add_argument("--passes", nargs="*", help="run only passes whose names start with these")
    parser.add_argument("--binary", default=ROOT / "target/release/passhost", type=pathlib.Path)
    parser.add_argument("--show", type=int, default=1, help="maximum number of printed differences for each pass")
    args = parser.parse_args()
    args.first, args.end = map(int, args.seeds.split("-"))
    args.features = set(args.features.split(","))
    if unknown := args.features - FEATURES.keys():
        parser.error(f"no feature {', '.join(sorted(unknown))}; there are {', '.join(FEATURES)}")
    return args


def main():
    args = arguments()
    chosen = [name for name in PASSES if not args.passes or any(name.startswith(start) for start in args.passes)]
    chosen = [name for name in chosen if PASSES[name][1] is None or PASSES[name][1] in args.features]
    counts = {name: collections.Counter() for name in chosen}
    for seed in range(args.first, args.end):
        # TVM prints the module, so that both start from the same text.
        text = tvm.script.from_source(Generator(seed, args.features).module()).script(show_meta=True)
        for name in chosen:
            outcome, detail = compare(args.binary, name, text)
            counts[name][outcome] += 1
            if detail and counts[name][outcome] <= args.show:
                print(f"=== seed {seed}, {name}: {outcome}\n--- before\n{text}\n{detail}")
    columns = ["equal", "equal once read", "equal to TVM twice", "ill-formed in TVM", "differs", "failed"]
    print(f"{'pass':44}" + "".join(f"{column:>20}" for column in columns))
    for name in chosen:
        print(f"{name:44}" + "".join(f"{counts[name][column]:20}" for column in columns))
    sys.exit(any(counts[name][bad] for name in chosen for bad in ["differs", "failed"]))


if __name__ == "__main__":
    main()
