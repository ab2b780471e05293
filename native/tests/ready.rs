//! Tests that the PrimFuncs of a function are compiled before the first of them is called, and equal code once.

use native::{Cache, Llvm, Native};
use passhost_lang::ir::constant::Number;
use plugin_api::prelude::*;
use runtime::vm::{Kernels, Machine, NoLegalization, Value};
use runtime::{Arg, Backend, Fault, Kernel, Limits, Tensor};
use script::NoOps;
use std::sync::{Arc, Mutex, PoisonError};

/// `f` and `g` differ in names only.
const MODULE: &str = "\
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def f(A: T.Buffer((8,), \"float32\"), B: T.Buffer((8,), \"float32\")):
        for i in range(8):
            B[i] = A[i] * T.float32(2.0)

    @T.prim_func(s_tir=True)
    def g(C: T.Buffer((8,), \"float32\"), D: T.Buffer((8,), \"float32\")):
        for j in range(8):
            D[j] = C[j] * T.float32(2.0)

    @T.prim_func(s_tir=True)
    def h(A: T.Buffer((8,), \"float32\"), B: T.Buffer((8,), \"float32\")):
        for i in range(8):
            B[i] = A[i] + T.float32(1.0)

    @R.function
    def inner(x: R.Tensor((8,), dtype=\"float32\")) -> R.Tensor((8,), dtype=\"float32\"):
        cls = Module
        with R.dataflow():
            out = R.call_tir(cls.h, (x,), out_sinfo=R.Tensor((8,), dtype=\"float32\"))
            R.output(out)
        return out

    @R.function
    def main(x: R.Tensor((8,), dtype=\"float32\")) -> R.Tensor((8,), dtype=\"float32\"):
        cls = Module
        a = R.call_tir(cls.f, (x,), out_sinfo=R.Tensor((8,), dtype=\"float32\"))
        b = R.call_tir(cls.g, (a,), out_sinfo=R.Tensor((8,), dtype=\"float32\"))
        c: R.Tensor((8,), dtype=\"float32\") = cls.inner(b)
        d = R.call_tir(cls.h, (c,), out_sinfo=R.Tensor((8,), dtype=\"float32\"))
        return d
";

/// Records which kernels are made ready and which run; kernels are named by the order of their preparation.
#[derive(Clone, Default)]
struct Recording {
    native: Option<Native>,
    told: Arc<Mutex<Vec<String>>>,
}

impl Recording {
    fn tell(&self, text: String) {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }

    fn told(&self) -> Vec<String> {
        std::mem::take(&mut self.told.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Recorded {
    kernel: Arc<dyn Kernel>,
    of: Recording,
}

impl Backend for Recording {
    fn prepare(&self, func: &Body) -> Result<Arc<dyn Kernel>, Fault> {
        let kernel = self.native.as_ref().expect("a backend").prepare(func)?;
        self.tell("prepare".to_string());
        Ok(Arc::new(Recorded { kernel, of: self.clone() }))
    }

    fn make_ready(&self, kernels: &[Arc<dyn Kernel>], limits: &Limits) {
        self.tell(format!("make {} ready", kernels.len()));
        self.native.as_ref().expect("a backend").make_ready(kernels, limits);
    }
}

impl Kernel for Recorded {
    fn run(&self, args: &mut [Arg<'_>], limits: &Limits) -> Result<Option<Number>, Fault> {
        self.of.tell(format!("run, ready: {}", self.kernel.is_ready(limits)));
        self.kernel.run(args, limits)
    }

    fn is_ready(&self, limits: &Limits) -> bool {
        self.kernel.is_ready(limits)
    }

    fn make_ready(&self, limits: &Limits) {
        self.kernel.make_ready(limits);
    }
}

fn native() -> Native {
    Native::new(Llvm::find().expect("rustc contains an LLVM library"), Cache::none())
}

#[test]
fn functions_are_compiled_before_the_first_call() {
    let module = script::read(MODULE, &NoOps).unwrap_or_else(|error| panic!("{error}"));
    let native = native();
    let recording = Recording { native: Some(native.clone()), ..Recording::default() };
    let kernels = Arc::new(Kernels::new(recording.clone()));
    let run = |shape: &[i64]| {
        let x = Tensor::zeros(DType::F32, shape, &Limits::unlimited()).expect("a tensor");
        Machine::new(&module, &NoLegalization).kernels(&kernels).run("main", vec![Value::Tensor(x)], &mut ())
    };
    run(&[7]).expect_err("the wrong shape");
    assert_eq!((recording.told(), native.made().compiled), (vec![], 0), "arguments are checked first");
    let value = run(&[8]).expect("a result");
    assert_eq!(value.as_tensor().expect("a tensor").values::<f32>().expect("floats"), [2.0; 8]);
    // Of the names in `main`, `f` and `g` are one kernel.
    let called = ["run, ready: true"; 4];
    assert_eq!(recording.told(), [&["prepare", "prepare", "make 2 ready"], &called[..]].concat());
    run(&[8]).expect("a result");
    assert_eq!(recording.told(), called, "the second machine has nothing to do");
    assert_eq!(native.made().compiled, 2);
}

#[test]
fn equal_code_is_compiled_once() {
    let module = script::read(MODULE, &NoOps).unwrap_or_else(|error| panic!("{error}"));
    let body = |name: &str| module.get(name).expect("a function");
    let native = native();
    let all = ["f", "g", "f", "h", "g", "h"].map(|name| native.prepare(body(name)).expect("it lowers"));
    let limits = Limits::unlimited();
    native.make_ready(&all, &limits);
    assert!(all.iter().all(|kernel| kernel.is_ready(&limits)));
    assert_eq!(native.made().compiled, 2);
    let cancelled = Limits::unlimited();
    cancelled.cancel();
    let watched = native.remembering();
    let kernel = watched.prepare(body("f")).expect("it lowers");
    watched.make_ready(&[Arc::clone(&kernel)], &cancelled);
    assert!(!kernel.is_ready(&limits), "a cancelled run compiles nothing");
}

#[test]
fn what_is_interpreted_is_not_compiled() {
    let module = script::read(MODULE, &NoOps).unwrap_or_else(|error| panic!("{error}"));
    let native = native().when_long();
    let kernel = native.prepare(module.get("f").expect("a function")).expect("it lowers");
    assert!(kernel.is_ready(&Limits::unlimited()));
    native.make_ready(&[kernel], &Limits::unlimited());
    assert_eq!(native.made().compiled, 0);
}
