//! Tests of files in `PASSHOST_LLVM` that are not an LLVM library.

use super::Case;
use super::bad_plugins::example;

/// A kernel, and a function that calls it.
pub(super) const DOUBLE: &str = "\
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def double(A: T.Buffer((4,), \"float32\"), B: T.Buffer((4,), \"float32\")):
        for i in range(4):
            B[i] = A[i] * T.float32(2.0)

    @R.function
    def main(x: R.Tensor((4,), \"float32\")):
        cls = Module
        y = R.call_tir(cls.double, (x,), out_ty=R.Tensor((4,), \"float32\"))
        return y
";

/// A library ends the process while it is loaded, in several ways, or hangs. passhost detects this in a separate
/// process.
#[test]
fn a_library_that_misbehaves_while_it_is_loaded_is_named() {
    let case = Case::empty("llvm_misbehaves").file("passes.toml", "").file("m.py", DOUBLE);
    let library = example("talks");
    for (how, what) in [
        ("forge", "loading it ended the process, with exit code 0"),
        ("forge everywhere", "loading it ended the process, with exit code 0"),
        ("crash", "loading it ended the process, by signal 6"),
        ("loop", "it did not load within 15 s"),
        ("", "is not LLVM 16 or newer: the function `LLVMGetVersion` is missing"),
    ] {
        let run = |args: &[&str]| {
            let mut command = case.command(args);
            command.env("PASSHOST_LLVM", &library).env("ZOO_TALK", how);
            case.finish(command, b"")
        };
        let (stdout, stderr, code) = run(&["doctor"]);
        assert!(code == 0 && stdout.contains(what) && stdout.contains("PASSHOST_LLVM"), "{how}: {stdout}{stderr}");
        if how != "loop" {
            let exec = ["exec", "m.py", "--random", "1", "--backend", "llvm"];
            let (stdout, stderr, code) = run(&exec);
            assert!(code == 2 && stderr.contains(what), "{how}: {code} {stdout}{stderr}");
            let (stdout, stderr, code) = run(&["exec", "m.py", "--random", "1"]);
            assert!(code == 0 && !stdout.is_empty(), "{how}: {stderr}");
        }
    }
}
