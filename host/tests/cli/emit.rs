//! Tests of `passhost emit --kind object|shared`: the files, and the messages if there are none.

use super::{Case, transcript};
use std::process::Command;

/// A function that can be exported, and a function that cannot, because it calls a function that only passhost has.
const KERNELS: &str = r#"# from tvm.script import ir as I
# from tvm.script import tirx as T

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def double(a: T.handle, b: T.handle, scale: T.float32):
        n = T.int64()
        A = T.match_buffer(a, (n, 3), "float32")
        B = T.match_buffer(b, (n, 3), "float32")
        for i, j in T.grid(n, 3):
            B[i, j] = A[i, j] * scale

    @T.prim_func(s_tir=True)
    def sines(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            B[i] = T.sin(A[i])
"#;

/// Creates a case without plugins, because no pass runs.
fn case(name: &'static str) -> Case {
    Case::empty(name).file("passes.toml", "").file("kernels.py", KERNELS)
}

#[test]
fn emit_files() {
    let case = case("emit_files");
    let mut said = String::new();
    for more in [
        &["--function", "double", "-o", "kernels.o"][..],
        &["--function", "double"],
        &["-o", "kernels.o"],
        &["--function", "double", "-o", "kernels.h"],
        &["--function", "double", "-o", "/dev/null"],
        &["--function", "double", "-o", "kernels.py"],
    ] {
        let args = [&["emit", "kernels.py", "--kind", "object"], more].concat();
        said += &transcript(&args, case.run(&args, b""));
        said.push('\n');
    }
    said += &format!("== kernels.h\n{}", std::fs::read_to_string(case.path("kernels.h")).expect("a header"));
    case.golden(&said);
    let object = std::fs::read(case.path("kernels.o")).expect("an object");
    for name in ["passhost_double", "__tvm_ffi_double"] {
        assert!(object.windows(name.len()).any(|found| found == name.as_bytes()), "{name}");
    }
}

/// A machine that builds this test has a linker: on Unix, a C compiler.
#[test]
fn emit_a_library_for_c() {
    const PROGRAM: &str = r#"#include "kernels.h"
#include <stdio.h>

int main(void) {
  float a[6] = {1, 2, 3, 4, 5, 6}, b[6];
  int64_t shape[2] = {2, 3}, other[2] = {3, 2};
  passhost_tensor x = {a, 1, 0, 2, 2, 32, 1, shape, NULL, 0}, y = {b, 1, 0, 2, 2, 32, 1, shape, NULL, 0};
  const char *wrong = passhost_double(&x, &y, 2.0);
  printf("%s %g %g\n", wrong ? wrong : "fine", b[0], b[5]);
  y.shape = other;
  puts(passhost_double(&x, &y, 2.0));
  return 0;
}
"#;
    let case = case("emit_a_library_for_c").file("main.c", PROGRAM);
    let args = ["emit", "kernels.py", "--function", "double", "--kind", "shared", "-o", "kernels.so"];
    let (_, stderr, code) = case.run(&args, b"");
    assert_eq!((code, stderr.as_str()), (0, "wrote kernels.so and its header kernels.h\n"));
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Werror", "main.c", "./kernels.so", "-o", "main"]).current_dir(case.folder.path());
    let (_, stderr, code) = case.finish(cc, b"");
    assert_eq!(code, 0, "{stderr}");
    let mut main = Command::new(case.path("main"));
    main.current_dir(case.folder.path());
    let (stdout, ..) = case.finish(main, b"");
    let wrong = "parameter `b` is a tensor of float32 and shape [n, 3], but extent 0 of the argument differs";
    assert_eq!(stdout, format!("fine 2 12\n`double`: {wrong}\n"));
}

/// Without a PATH, no linker is found. The path of the LLVM library is given.
#[test]
fn emit_without_a_linker() {
    let case = case("emit_without_a_linker");
    let args = ["emit", "kernels.py", "--function", "double", "--kind", "shared", "-o", "kernels.so"];
    let mut command = case.command(&args);
    let llvm = native::Llvm::find().expect("rustc contains an LLVM library");
    command.env("PATH", case.folder.path()).env("PASSHOST_LLVM", llvm.path()).env_remove("RUSTC");
    case.golden(&case.shown(&args, command, b""));
    assert!(!case.path("kernels.so").exists() && !case.path("kernels.h").exists());
}
