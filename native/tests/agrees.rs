//! Native code has the interpreter's bits, on generated functions and on those of files.

#[path = "../../runtime/tests/naive/generate.rs"]
mod generate;

use generate::{Generator, tensors};
use native::{Cache, Llvm, Native};
use plugin_api::prelude::*;
use runtime::program::{lower, reads_what_it_wrote};
use runtime::{Arg, Backend, Fault, Interpreter, Limits, Tensor};
use script::NoOps;
use std::sync::Arc;

fn body_of(text: &str) -> Body {
    let module = script::read(text, &NoOps).unwrap_or_else(|error| panic!("{error}\n{text}"));
    module.get("f").expect("a function").clone()
}

/// The library of `rustc`, or one of the system.
fn llvm() -> Arc<Llvm> {
    Llvm::find().expect("who builds this has the library of rustc")
}

fn run(backend: &dyn Backend, body: &Body, mut tensors: Vec<Tensor>, fresh: u8) -> Result<(Vec<Tensor>, bool), Fault> {
    let mut args: Vec<Arg<'_>> = tensors.iter_mut().map(Arg::Out).collect();
    let limits = Limits::with_fresh_bytes(1 << 30, 1 << 40, fresh);
    backend.prepare(body)?.run(&mut args, &limits)?;
    Ok((tensors, limits.take_unwritten()))
}

/// The bits of the elements, where all NaN are one.
fn bits(tensor: &Tensor) -> Vec<String> {
    tensor.numbers().map(|number| format!("{number:?}")).collect()
}

#[test]
fn generated_functions() {
    let native = Native::new(llvm(), Cache::none());
    let number = |name: &str, usual: u64| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(usual);
    let (first, cases) = (number("FIRST", 0), number("CASES", 40));
    let (mut fine, mut faults, mut proven) = (0, 0, 0);
    for seed in first..first + cases {
        let (text, buffers) = Generator::function(seed);
        let (body, inputs) = (body_of(&text), tensors(&buffers, seed));
        let writes_first = reads_what_it_wrote(&lower(&body).expect("it lowers"));
        let on = |backend: &dyn Backend, fresh| run(backend, &body, inputs.clone(), fresh);
        if let (true, Ok((zeros, _)), Ok((others, _))) = (writes_first, on(&Interpreter, 0), on(&Interpreter, 0xc1)) {
            zeros.iter().zip(&others).for_each(|(a, b)| assert_eq!(bits(a), bits(b), "seed {seed}\n{text}"));
            proven += 1;
        }
        for fresh in [0, 0xc1] {
            let [expected, found] =
                [&Interpreter as &dyn Backend, &native].map(|of| run(of, &body, inputs.clone(), fresh));
            match (expected, found) {
                (Ok((expected, unwritten)), Ok((found, noted))) => {
                    for (expected, found) in expected.iter().zip(&found) {
                        assert_eq!(bits(expected), bits(found), "seed {seed}\n{text}");
                    }
                    assert!(noted || !unwritten || writes_first || fresh == 0, "seed {seed}: unwritten memory\n{text}");
                    fine += 1;
                }
                (Err(expected), Err(found)) => {
                    assert_eq!(
                        std::mem::discriminant(&expected.kind),
                        std::mem::discriminant(&found.kind),
                        "seed {seed}: {expected} / {found}"
                    );
                    faults += 1;
                }
                (expected, found) => panic!("seed {seed}: {expected:?}, native {found:?}\n{text}"),
            }
        }
    }
    println!("{fine} runs agree, {faults} end with the same fault, {proven} functions read what they wrote");
    assert!(fine > cases, "{fine} of {cases}");
}

/// Each iteration allocates memory of its own, so only the first one finds its initialization.
#[test]
fn memory_that_iterations_allocate_is_new() {
    let text = "# from tvm.script import ir as I
# from tvm.script import tirx as T

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def f(A: T.Buffer((4,), \"float32\"), C: T.Buffer((4,), \"float32\")):
        for k in range(4):
            B = T.alloc_buffer((1,), \"float32\")
            if k == 0:
                B[0] = T.float32(0.0)
            B[0] = B[0] + A[k]
            C[k] = B[0]
";
    let (body, native) = (body_of(text), Native::new(llvm(), Cache::none()));
    assert!(!reads_what_it_wrote(&lower(&body).expect("it lowers")));
    let inputs: Vec<Tensor> =
        (1..3).map(|seed| Tensor::random(DType::F32, &[4], seed, &Limits::unlimited()).expect("a tensor")).collect();
    for fresh in [0, 0xc1] {
        let [expected, found] = [&Interpreter as &dyn Backend, &native]
            .map(|backend| run(backend, &body, inputs.clone(), fresh).expect("it runs"));
        assert_eq!(bits(&expected.0[1]), bits(&found.0[1]));
        assert_eq!(expected.1, found.1, "unwritten memory");
    }
}
