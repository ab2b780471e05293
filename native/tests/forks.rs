//! Tests a process that forks while other threads execute native code.
#![cfg(unix)]

use native::{Cache, Llvm, Native};
use plugin_api::prelude::*;
use runtime::{Arg, Backend, Limits, Tensor, fork};
use script::NoOps;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// A function that runs on threads and allocates memory in each call.
const MODULE: &str = "\
# from tvm.script import ir as I
# from tvm.script import tirx as T

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def f(A: T.Buffer((64, 16), \"float32\"), B: T.Buffer((64, 16), \"float32\")):
        for i in T.parallel(64):
            C = T.alloc_buffer((16,), \"float32\")
            for j in range(16):
                C[j] = A[i, j] * T.float32(2.0)
            for j in range(16):
                B[i, j] = C[j] + T.float32(NUMBER)
";

fn func(number: usize) -> Body {
    let text = MODULE.replace("NUMBER", &format!("{number}.0"));
    let module = script::read(&text, &NoOps).unwrap_or_else(|error| panic!("{error}\n{text}"));
    module.get("f").expect("a function").clone()
}

fn execute(native: &Native, body: &Body, limits: &Limits) {
    fork::inside(|| {
        let kernel = native.prepare(body).expect("a kernel");
        for seed in 0..20 {
            let input = Tensor::random(DType::F32, &[64, 16], seed, limits).expect("a tensor");
            let mut out = Tensor::zeros(DType::F32, &[64, 16], limits).expect("a tensor");
            kernel.run(&mut [Arg::In(&input), Arg::Out(&mut out)], limits).expect("it runs");
        }
    });
}

/// Runs a function in a forked process. Returns true if the process ended within 30 s.
fn in_a_child(run: impl FnOnce()) -> bool {
    // SAFETY: the child runs code that takes locks, as intended by the test, and exits without the parent's
    // handlers.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0, "a child");
        if child == 0 {
            libc::alarm(30);
            run();
            libc::_exit(0);
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
    }
}

#[test]
fn a_child_executes_whatever_other_threads_did() {
    let llvm = Llvm::find().expect("rustc contains an LLVM library");
    let native = Native::new(llvm, Cache::none());
    let shared = Limits::unlimited();
    let is_over = AtomicBool::new(false);
    let mut hung = 0;
    thread::scope(|scope| {
        for thread in 0..3 {
            let (native, shared, is_over) = (&native, &shared, &is_over);
            scope.spawn(move || {
                // New functions are compiled, so that a thread is sometimes in LLVM.
                (0..).take_while(|_| !is_over.load(Ordering::SeqCst)).for_each(|turn| {
                    execute(native, &func(thread * 1000 + turn / 50), shared);
                });
            });
        }
        thread::sleep(Duration::from_millis(100));
        for turn in 0..24 {
            let fine = in_a_child(|| execute(&native, &func(turn % 4 * 1000), &shared));
            hung += usize::from(!fine);
            if hung > 2 {
                break;
            }
        }
        is_over.store(true, Ordering::SeqCst);
    });
    assert_eq!(hung, 0);
}
