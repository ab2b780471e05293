#!/usr/bin/env python3
"""Runs the inputs in a folder of findings, and reports the wrong answers.

    python3 tests/findings.py FOLDER [--passhost PATH] [--manifest FILE] [--tvm PYTHON] [--only NAME...] [--all]

A finding is a small module in its own file. The first lines of the file contain the command, after `# passhost`; the
table below contains the right answer for each name. The exit code is 1 if an answer is wrong. Arrays are read and
written without NumPy. `--tvm` names a Python interpreter with TVM, which then parses passhost's output where TVM is
expected to parse it. Passes and operators in Rust files are built into a plugin in `target/findings/`.
"""

import argparse
import ast
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TYPES = {"<f4": "f", "<i4": "i", "<i8": "q", "<u8": "Q", "|b1": "?", "|i1": "b", "|u1": "B", "<f8": "d"}


def npz(path, **arrays):
    """Writes arrays, each given by a type, a shape and its elements."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, (descr, shape, elements) in arrays.items():
            head = repr({"descr": descr, "fortran_order": False, "shape": tuple(shape)})
            head += " " * (63 - (len(head) + 10) % 64) + "\n"
            data = struct.pack(f"<{len(elements)}{TYPES[descr]}", *elements)
            archive.writestr(f"{name}.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data)


def arrays(path):
    """Reads arrays; returns the shape and the elements by name."""
    out = {}
    with zipfile.ZipFile(path) as archive:
        for file in archive.namelist():
            data = archive.read(file)
            (length,) = struct.unpack("<H", data[8:10])
            head = ast.literal_eval(data[10 : 10 + length].decode())
            form = TYPES[head["descr"]]
            rest = data[10 + length :]
            elements = struct.unpack(f"<{len(rest) // struct.calcsize(form)}{form}", rest)
            out[file.removesuffix(".npy")] = (head["shape"], list(elements))
    return out


def same_arrays(before, after, rtol, atol):
    """Returns true if two results have the same shapes, and the same elements within a tolerance."""
    close = lambda a, b: a == b or (a != a and b != b) or abs(a - b) <= atol + rtol * max(abs(a), abs(b))
    return before.keys() == after.keys() and all(
        before[name][0] == after[name][0] and all(map(close, before[name][1], after[name][1])) for name in before
    )


class Wrong(Exception):
    """An incorrect answer; the message explains it."""


class Finding:
    """A file in its own folder, in which commands run."""

    def __init__(self, path, folder, options):
        self.path, self.folder, self.options = path, folder, options
        self.name, self.manifest = path.name, options.manifest
        shutil.copy(path, folder / self.name)
        for beside in path.parent.glob("*.npz"):
            shutil.copy(beside, folder / beside.name)

    def passhost(self, *args, limit=60, memory=None):
        """Runs a command; returns the exit code, its output, and its messages."""
        # `new` creates a manifest instead of reading a manifest.
        manifest = [] if args[0] == "new" else ["--manifest", str(self.manifest)]
        command = [str(self.options.passhost), *map(str, args), *manifest]
        if memory:
            command = ["sh", "-c", f"ulimit -v {memory}; exec {shlex.join(command)}"]
        try:
            ran = subprocess.run(
                command,
                capture_output=True,
                text=True,
                cwd=self.folder,
                env={**os.environ, "NO_COLOR": "1"},
                timeout=limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Wrong(f"took more than {limit} s") from None
        return ran.returncode, ran.stdout, ran.stderr

    def fine(self, *args, **limits):
        """Runs a command that must succeed; returns its output."""
        code, out, said = self.passhost(*args, **limits)
        if code != 0:
            raise Wrong(f"exit {code}: {first_error(said)}")
        return out

    def own(self):
        """Returns the words of the command in the first lines."""
        text = self.path.read_text()
        line = re.search(r"^# passhost (.*)$", text, re.MULTILINE)
        words = re.split(r"\s{2,}|->|;| \(| right| differs| \[", line[1])[0]
        return shlex.split(words)

    def values(self, file, *args, random=True):
        """Executes a module; returns the shapes and the elements of its results by name."""
        given = ["--random", "1"] if random else []
        self.fine("exec", file, *given, "-o", "values.npz", *args)
        return arrays(self.folder / "values.npz")

    def same_values(self, other, *args):
        """Checks that a module computes the same values as the module in the file, within the tolerance of the
        command's passes."""
        before, after = self.values(self.name), self.values(other, *args)
        rtol, atol = self.tolerance()
        if not same_arrays(before, after, rtol, atol):
            raise Wrong(f"{after} instead of {before}")

    def tolerance(self):
        """Returns the largest relative and absolute tolerance of the command's passes."""
        words, largest = self.own(), (0.0, 0.0)
        if "--passes" not in words:
            return largest
        for name in re.findall(r"[\w.]+\.\w+", re.sub(r"\{.*?\}", "", words[words.index("--passes") + 1])):
            said = re.search(r"^\s*tolerance\b.*?rtol (\S+), atol (\S+)", self.fine("explain", name), re.MULTILINE)
            if said:
                largest = max(largest[0], float(said[1])), max(largest[1], float(said[2]))
        return largest

    def with_plugin(self):
        """Makes the passes and operators in the Rust files next to the module available to the commands."""
        crate = ROOT / "target" / "findings" / "acme-passes"
        if not crate.exists():
            self.fine("new", crate, "--name", "acme-passes", "--api", ROOT)
        parts = {"half_exp": "HALF_EXP", "swish_glu": "FUSE_SWISH_GLU"}
        for part in parts:
            shutil.copy(self.path.parent / f"{part}.rs", crate / "src" / f"{part}.rs")
        modules = "".join(f"pub mod {part};\n" for part in parts)
        passes = ", ".join(f"{part}::{name}" for part, name in parts.items())
        (crate / "src" / "lib.rs").write_text(
            f"//! Passes and operators for findings.\n{modules}plugin_api::export_plugin! {{\n"
            f"    operators: [swish_glu::SWISH_GLU],\n    passes: [{passes}],\n}}\n"
        )
        self.manifest = crate / "passes.toml"
        self.fine("build", limit=1200)

    def tvm_reads(self, file):
        """Checks that TVM parses a module."""
        if not self.options.tvm:
            return
        program = "import sys; from tvm.script import from_source; from_source(open(sys.argv[1]).read())"
        command = [self.options.tvm, "-c", program, file]
        ran = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, check=False, timeout=120)
        if ran.returncode != 0:
            raise Wrong("TVM does not parse it: " + (ran.stderr.strip().splitlines() or ["?"])[-1][:120])


def first_error(said):
    """Returns the first error message in a text, shortened."""
    lines = [line for line in said.splitlines() if line.startswith(("error", "passhost"))] or said.splitlines() or ["?"]
    return lines[0][:150]


def expect(holds, what):
    if not holds:
        raise Wrong(what)


def reads(it):
    it.fine(*it.own())


def says(*texts, lacks=()):
    def check(it):
        words = it.own()
        out = it.fine(*words)
        if "-o" in words:
            out = (it.folder / words[words.index("-o") + 1]).read_text()
        for text in texts:
            expect(re.search(text, out), f"the result lacks {text}")
        for text in lacks:
            expect(not re.search(text, out), f"the result contains {text}")

    return check


def written_for_tvm(*texts, lacks=()):
    def check(it):
        says(*texts, lacks=lacks)(it)
        it.tvm_reads("out.py")

    return check


def refused(*texts):
    def check(it):
        code, _, said = it.passhost(*it.own())
        expect(code == 1, f"exit {code}: {first_error(said)}")
        for text in texts:
            expect(re.search(text, said), f"the message lacks {text}: {first_error(said)}")

    return check


def zeros(shape):
    def check(it):
        for found, elements in it.values(it.name).values():
            expect(found == shape and not any(elements), f"{found} {elements[:4]}")

    return check


def keeps_values(*args, also=()):
    """Checks that the values are the same after the command's passes."""

    def check(it):
        words = [word for word in it.own() if word != it.name]
        passes = words[words.index(next(word for word in words if word.startswith("--"))) :]
        passes = passes[: passes.index("-o")] if "-o" in passes else passes
        it.same_values(it.name, *passes, *args)
        for more in also:
            it.same_values(it.name, *more)

    return check


def right_values(npz_of, wanted, *commands):
    """Checks the result of an execution with these inputs, for each of several options."""

    def check(it):
        if npz_of:
            npz(it.folder / "in.npz", **npz_of)
        inputs = "in.npz" if npz_of else next(word for word in it.own() if word.endswith(".npz"))
        for more in commands:
            found = it.values(it.name, "--inputs", inputs, *more, random=False)
            last = list(found.values())[-1][1]
            expect(last == wanted, f"{last} instead of {wanted} with {' '.join(more) or 'no passes'}")

    return check


def same_values_with(npz_of, *more):
    """Checks that several options do not change the result of an execution with these inputs."""

    def check(it):
        npz(it.folder / "in.npz", **npz_of)
        plain = it.values(it.name, "--inputs", "in.npz", random=False)
        found = it.values(it.name, "--inputs", "in.npz", *more, random=False)
        expect(plain == found, f"{found} instead of {plain}")

    return check


def D1(it):
    reads(it)
    npz(it.folder / "in.npz", x=("<f4", (4,), [1.0] * 4), s=("<i8", (1,), [3]))
    [(shape, elements)] = it.values(it.name, "--inputs", "in.npz", "--pipeline", "compile", random=False).values()
    expect(shape == (3, 4) and set(elements) == {4.0}, f"{shape} {elements}")


def E6(it):
    code, out, said = it.passhost(*it.own())
    if code == 0:
        expect("-3" not in out and "(5, 0)" in out, "a negative extent")
        expect(all(shape == (5, 0) for shape, _ in it.values(it.name).values()), "a shape other than (5, 0)")
    else:
        expect(code == 1 and "strided_slice" in said, first_error(said))


def E9(it):
    code, _, said = it.passhost(*it.own())
    expect(code == 0 or "negative" in said and "uint8" in said, first_error(said))


def G1(it):
    since = time.time()
    code, _, said = it.passhost(*it.own(), memory=3_000_000)
    expect(code in (1, 2, 3) and time.time() - since < 10, f"exit {code} after {time.time() - since:.0f} s")
    expect(re.search(r"1[ _,]?077[ _,]?590[ _,]?990", said), first_error(said))


def M4(it):
    code, _, said = it.passhost("run", it.name, "--passes", "relax.EliminateCommonSubexpr", "-o", "out.py")
    if code == 1:
        return
    expect(code == 0, first_error(said))
    if it.passhost("exec", "out.py", "--random", "1")[0] == 1:
        return
    before, after = it.values(it.name), it.values("out.py")
    expect(before == after and not any(after["output_1"][1]), f"{after} instead of {before}")


def after_passes(*passes):
    """Checks that the module written by the command computes the same values as the original module."""

    def check(it):
        it.fine("run", it.name, *passes, "-o", "out.py")
        it.same_values("out.py")

    return check


def validates(it):
    words = ["validate", it.name, "--passes", "tir.FuseMultiplyAdd"]
    it.fine(*(it.own() if it.path.read_text().startswith("# passhost") else words), limit=300)


def half_exp_inf(it):
    it.with_plugin()
    code, out, said = it.passhost("validate", it.name, "--passes", "relax.LegalizeOps,acme_passes.HalfExp", limit=300)
    expect(code == 1 and "acme_passes.HalfExp" in out + said, f"exit {code}: {first_error(said)}")


def operator_spelling(it):
    it.with_plugin()
    out = it.fine("run", it.name, "--passes", "relax.Normalize")
    expect('R.Tensor((n, 4), dtype="float32") = R.acme.swish_glu(x, y, beta=2.0)' in out, "a different call is printed")
    (it.folder / "again.py").write_text(out)
    out = it.fine("run", "again.py", "--passes", "relax.LegalizeOps")
    expect('out_ty=R.Tensor((n, 4), dtype="float32")' in out, "the call is not legalized with its type")


def scheduled(it):
    code, out, said = it.passhost("run", it.name, "--pipeline", "native")
    expect(code == 0, first_error(said))
    lines = out.splitlines()
    # A product adds to the element that it writes.
    is_product = re.compile(r"\s*(\w+)\[.*\] = (T\.fma\(.*\b\1\[|\1\[.*\] \+ .* \* )")
    products = [loops_around(lines, at) for at, line in enumerate(lines) if is_product.match(line)]
    expect(products, "there is no product")
    fast = all(any("T.vectorized" in loop or "T.parallel" in loop for loop in loops) for loops in products)
    expect(fast or "schedule" in said, "the loops of the product have no schedule, and no remark says why")


def loops_around(lines, at):
    """Returns the loops around a line, the innermost first."""
    indent = lambda line: len(line) - len(line.lstrip())
    found, column = [], indent(lines[at])
    for line in reversed(lines[:at]):
        if indent(line) < column:
            column = indent(line)
            found += [line] if line.lstrip().startswith("for ") else []
    return found


N6 = {"N": ("<i4", (1,), [3]), "A": ("<i4", (6,), [5, 3, 9, 2, 8, 4])}
COMPACT = ["--passes", "s_tir.CompactBufferAllocation"]
WANTED = [10, 111, 122, 133, 0]

CASES = {
    "A1_scalar_region": reads,
    "A2_scalar_data": reads,
    "A4_scalar_printed": written_for_tvm(r"k\.source\[0\]", lacks=(r"k\.buffer",)),
    "B1_reshape_zero": says(r"\(n, 12\)", lacks=(r"Tensor\(\(0, 12\)",)),
    "B2_reshape_minus1": says(r"Tensor\(\(24,\)"),
    "B3_reshape_minus1_sym": says(r"Tensor\(\(n, 12\)"),
    "C1_to_vdevice": says(r"z: R\.Tensor\(\(4, 6\), dtype=\"float32\", vdevice=\"llvm:0:global\"\)"),
    "C3_specialize_scope": says(lacks=(r'scope="llvm"', r'scope="cuda"')),
    "C5_specialize_scalar": reads,
    "D1_fuse_match_cast": D1,
    "E11_einsum_zero": zeros((3, 4)),
    "E1_matmul_zero": zeros((3, 4)),
    "E2_prod_bool": written_for_tvm(r"\band\b"),
    "E3_mean_int8": reads,
    "E4_power_int": reads,
    "E6_slice_empty": E6,
    "E7_convt_dilation": reads,
    "E9_negative_uint": E9,
    "F1_fma_contract": validates,
    "G1_unroll_huge": G1,
    "H_after_027": refused(r"0\.27"),
    "H_ceildiv": reads,
    "H_comment": reads,
    "H_infinity": reads,
    "H_lowerbuffer": reads,
    "H_pep695": reads,
    "H_relax_arange": reads,
    "H_relax_dictattr": reads,
    "I1_negative_slice": written_for_tvm(lacks=(r":-1\]",)),
    "I3_call_tir_rewrite": written_for_tvm(lacks=(r"ty_args=",)),
    "J1_plan_gather": keeps_values(also=(["--pipeline", "native"],)),
    "J4_plan_match_buffer": keeps_values(),
    "K1_decompose_nested": keeps_values(),
    "K3_fold_scale_nested": reads,
    "L1_thread_without_tag": refused(r"`tx`"),
    "M1_topo_inplace": after_passes("--passes", "relax.TopologicalSort{direction=from-outputs}"),
    "M2_fuse_inplace": after_passes("--pipeline", "compile"),
    "M4_cse_inplace": M4,
    "N1_flatten_offset": reads,
    "bool_sum": says(r"\bor\b", r"\band\b"),
    "compact4": right_values(None, WANTED, [], COMPACT),
    "compact5": right_values(None, WANTED, [], ["--pipeline", "native"]),
    "compact_clamped": same_values_with(N6, "--pipeline", "native"),
    "compact_data_dependent": says(r"\(5,\)"),
    "compact_outer": same_values_with(N6, "--pipeline", "native"),
    "fma_tolerance": validates,
    "fuseops_smallest": says(r"fused_\w*\(x\)|fused_\w*, \(x,\)|fused"),
    "half_exp_inf": half_exp_inf,
    "operator_spelling": operator_spelling,
    "pad_alias": says("call_tir"),
    "r1_bool_dim": refused("bool"),
    "r2_normalize": lambda it: it.fine("run", it.name, "--passes", "relax.Normalize"),
    "r3_starstar": refused(r"\*\*"),
    "r4_match_buffer": refused("16"),
    "repeat_alias": says("call_tir"),
    "schedule_kv": lambda it: it.fine("run", it.name, "--passes", "tir.ScheduleForCPU", limit=120),
    "symbolic_conv": scheduled,
    "symbolic_matmul": scheduled,
    "uint64_abs": right_values(None, [2**64 - 1], [], ["--passes", "relax.LegalizeOps"]),
}

def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--passhost", type=Path, default=ROOT / "target" / "debug" / "passhost")
    parser.add_argument("--manifest", type=Path, default=ROOT / "passes.toml")
    parser.add_argument("--tvm", help="a Python interpreter with TVM 0.27")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--all", action="store_true", help="also show correct answers")
    options = parser.parse_args()
    options.passhost, options.manifest = options.passhost.resolve(), options.manifest.resolve()
    files = sorted(path for path in options.folder.glob("*.py") if not options.only or path.stem in options.only)
    right, tried = 0, 0
    for path in files:
        check = CASES.get(path.stem)
        if check is None:
            print(f"-      {path.stem}: no right answer is known")
            continue
        tried += 1
        with tempfile.TemporaryDirectory() as folder:
            try:
                check(Finding(path, Path(folder), options))
                right += 1
                if options.all:
                    print(f"right  {path.stem}")
            except Wrong as wrong:
                print(f"wrong  {path.stem}: {wrong}")
            except Exception as error:
                print(f"wrong  {path.stem}: {type(error).__name__}: {error}")
    print(f"{right} of {tried} are right; {len(files) - tried} of {len(files)} were not tried")
    return 0 if right == tried else 1


if __name__ == "__main__":
    sys.exit(main())
