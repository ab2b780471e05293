//! Tests that faults of native code and its cache lead to a message or to the right result.

use native::llvm::Candidate;
use native::{Cache, Llvm, LlvmError, Native};
use plugin_api::prelude::*;
use runtime::{Arg, Backend, Fault, FaultKind, Interpreter, Limits, Tensor};
use script::NoOps;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;

const HEAD: &str = "# from tvm.script import ir as I\n# from tvm.script import tirx as T\n\n@I.ir_module\nclass Module:\n    @T.prim_func(s_tir=True)\n";

fn func(text: &str) -> Body {
    let module = script::read(&format!("{HEAD}{text}"), &NoOps).unwrap_or_else(|error| panic!("{error}\n{text}"));
    module.get("f").expect("a function").clone()
}

/// Returns a function that doubles each element, with threads and vectors; the last vector is
/// partial.
fn doubling() -> Body {
    func(
        "    def f(A: T.Buffer((7, 29), \"float32\"), B: T.Buffer((7, 29), \"float32\")):
        for i in T.parallel(7):
            for j in range(2):
                for v in T.vectorized(16):
                    if j * 16 + v < 29:
                        B[i, j * 16 + v] = A[i, j * 16 + v] * T.float32(2.0)
",
    )
}

/// Returns rustc's LLVM library or the system's.
fn llvm() -> Arc<Llvm> {
    Llvm::find().expect("rustc contains an LLVM library")
}

fn run(backend: &dyn Backend, body: &Body, inputs: &[Tensor], limits: &Limits) -> Result<Vec<Tensor>, Fault> {
    let mut tensors = inputs.to_vec();
    let mut args: Vec<Arg<'_>> = tensors.iter_mut().map(Arg::Out).collect();
    backend.prepare(body)?.run(&mut args, limits)?;
    Ok(tensors)
}

fn random(shape: &[i64], seed: u64) -> Tensor {
    Tensor::random(DType::F32, shape, seed, &Limits::unlimited()).expect("a tensor")
}

/// Checks that results are right regardless of the cache.
fn is_right(native: &Native) {
    let inputs = [random(&[7, 29], 1), random(&[7, 29], 2)];
    let limits = Limits::unlimited();
    let [expected, found] = [&Interpreter as &dyn Backend, native]
        .map(|backend| run(backend, &doubling(), &inputs, &limits).expect("runs"));
    assert_eq!(expected, found);
}

fn refused(path: &Path) -> LlvmError {
    Llvm::open(&Candidate { path: path.to_path_buf(), from: "PASSHOST_LLVM" }).expect_err("no LLVM")
}

#[test]
fn files_that_are_no_llvm_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = folder.path().join("libLLVM.so");
    fs::write(&text, "not a library").expect("a file");
    assert!(matches!(refused(&text), LlvmError::Open { .. }));
    assert!(matches!(refused(&folder.path().join("missing.so")), LlvmError::Open { .. }));
    assert!(refused(folder.path()).to_string().ends_with("cannot be opened: it is not a file"));
    // The system's loader would read beyond the end of a truncated library.
    let own = fs::read(std::env::current_exe().expect("a program")).expect("its bytes");
    for part in [own.len() / 2, own.len() - 1] {
        fs::write(&text, &own[..part]).expect("a file");
        let message = refused(&text).to_string();
        assert!(message.contains("cannot be opened: the library file is truncated: "), "{message}");
    }
    #[cfg(target_os = "linux")]
    {
        let other = refused(Path::new("libm.so.6")).to_string();
        assert_eq!(
            other,
            "libm.so.6 (PASSHOST_LLVM) is not LLVM 16 or newer: the function `LLVMGetVersion` is missing"
        );
    }
}

#[test]
fn a_cache_that_is_damaged_or_cannot_be_written_changes_nothing() {
    let llvm = llvm();
    let folder = tempfile::tempdir().expect("a folder");
    let cached = || Native::new(Arc::clone(&llvm), Cache::new(folder.path().join("code")));
    is_right(&cached());
    let all = || fs::read_dir(folder.path().join("code")).expect("a folder").flatten().map(|file| file.path());
    let files = || all().filter(|file| file.extension().is_some());
    assert_eq!(files().count(), 1);
    is_right(&cached());
    for damage in [&b"damaged"[..], &[]] {
        files().for_each(|file| fs::write(file, damage).expect("a file"));
        is_right(&cached());
        assert!(files().all(|file| fs::metadata(file).expect("a file").len() > 100), "it was made again");
    }
    let file = folder.path().join("file");
    fs::write(&file, "").expect("a file");
    is_right(&Native::new(llvm, Cache::new(file.join("code"))));
}

#[test]
fn threads_and_caches_share_one_kernel() {
    let llvm = llvm();
    let folder = tempfile::tempdir().expect("a folder");
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| is_right(&Native::new(Arc::clone(&llvm), Cache::new(folder.path()))));
        }
    });
}

#[test]
fn what_is_out_of_bounds_is_not_touched() {
    let native = Native::new(llvm(), Cache::none());
    let body = func(
        "    def f(I: T.Buffer((4,), \"int32\"), A: T.Buffer((8,), \"float32\")):
        for i in range(4):
            A[I[i]] = T.float32(1.0)
",
    );
    let limits = Limits::unlimited();
    for index in [8, -1, i32::MIN, i32::MAX] {
        let indices = Tensor::from_vec(&[4], vec![0, 1, index, 2]).expect("a tensor");
        let inputs = [indices, random(&[8], 1)];
        let [expected, found] = [&Interpreter as &dyn Backend, &native]
            .map(|backend| run(backend, &body, &inputs, &limits).expect_err("faults"));
        assert_eq!(expected, found);
    }
}

#[test]
fn limits_end_native_code() {
    let native = Native::new(llvm(), Cache::none());
    let endless = func(
        "    def f(A: T.Buffer((1,), \"int32\")):
        while A[0] < 1:
            A[0] = A[0] * 1
",
    );
    let zero = Tensor::from_vec(&[1], vec![0i32]).expect("a tensor");
    let fault = run(&native, &endless, &[zero], &Limits::new(1 << 20, 1 << 30)).expect_err("it ends");
    assert!(matches!(fault.kind, FaultKind::TooMuchWork { .. }), "{fault}");
    // The work of lanes also counts, whether or not vectorization was requested.
    for lanes in ["range", "T.vectorized"] {
        let long = func(&format!(
            "    def f(A: T.Buffer((64,), \"float32\"), C: T.Buffer((64,), \"float32\")):
        for o in range(1000000):
            for i in {lanes}(64):
                for k in range(100000):
                    C[i] = C[i] * T.float32(0.5) + A[i]
"
        ));
        let inputs = [random(&[64], 1), random(&[64], 2)];
        let fault = run(&native, &long, &inputs, &Limits::new(1 << 20, 1 << 30)).expect_err("it ends");
        assert!(matches!(fault.kind, FaultKind::TooMuchWork { .. }), "{fault}");
    }
    let large = func(
        "    def f(n: T.int64, A: T.Buffer((1,), \"int32\")):
        B = T.alloc_buffer((n,), \"int32\")
        B[n - T.int64(1)] = 1
        A[0] = B[n - T.int64(1)]
",
    );
    let mut tensor = Tensor::from_vec(&[1], vec![0i32]).expect("a tensor");
    let mut args = [Arg::Int(1 << 40), Arg::Out(&mut tensor)];
    let fault = native.prepare(&large).expect("it lowers").run(&mut args, &Limits::new(1 << 20, 1 << 50));
    assert!(matches!(fault, Err(Fault { kind: FaultKind::OutOfMemory { .. }, .. })), "{fault:?}");
}

/// Each step of a product reads another line of the second matrix, and may wait for memory. Steps that count as little as others would run for
/// many times as long as the page of `--limit-work` says. The loop that is unrolled keeps the product from being vectorized.
#[test]
fn steps_that_wait_for_memory_count_as_more() {
    let native = Native::new(llvm(), Cache::none());
    let product = |b: &str| {
        func(&format!(
            "    def f(A: T.Buffer((3000, 3000), \"float32\"), B: T.Buffer((3000, 3000), \"float32\"), C: T.Buffer((3000, 3000), \"float32\")):
        for once in T.unroll(1):
            for i, j, k in T.grid(3000, 3000, 3000):
                C[i, j] = C[i, j] + A[i, k] * {b}
"
        ))
    };
    let tensor = |value: f32| Tensor::from_vec(&[3000, 3000], vec![value; 9_000_000]).expect("a tensor");
    let written = |b: &str| {
        let mut tensors = [tensor(1.0), tensor(1.0), tensor(0.0)];
        let mut args: Vec<Arg<'_>> = tensors.iter_mut().map(Arg::Out).collect();
        let prepared = native.prepare(&product(b)).expect("it lowers");
        let fault = prepared.run(&mut args, &Limits::new(1 << 30, 1_000_000_000)).expect_err("it ends");
        assert!(matches!(fault.kind, FaultKind::TooMuchWork { .. }), "{fault}");
        tensors[2].values::<f32>().expect("floats").iter().filter(|value| **value != 0.0).count()
    };
    let (near, far) = (written("B[j, k]"), written("B[k, j]"));
    assert!(far * 3 < near, "{far} elements of {near}");
}
