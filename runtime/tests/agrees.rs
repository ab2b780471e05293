//! Tests that the interpreter, with and without lanes, agrees bit for bit with a naive evaluator on generated
//! functions.

mod naive;

use naive::generate::{Generator, tensors};
use naive::{Naive, Num};
use plugin_api::ir::constant::Number;
use plugin_api::prelude::*;
use runtime::program::{Instr, lower};
use runtime::{Arg, Backend, Fault, FaultKind, Interpreter, Limits, OneLane, Tensor};
use script::NoOps;

fn body_of(text: &str) -> Body {
    let module = script::read(text, &NoOps).unwrap_or_else(|error| panic!("{error}\n{text}"));
    module.get("f").expect("a function").clone()
}

fn numbers(tensor: &Tensor) -> Vec<Num> {
    let number = |number| match number {
        Number::Bool(v) => Num::I(v.into()),
        Number::Int(v) => Num::I(v.into()),
        Number::UInt(v) => Num::I(v.into()),
        Number::Float(v) => Num::F(v),
    };
    tensor.numbers().map(number).collect()
}

fn run(interpreter: &dyn Backend, body: &Body, mut tensors: Vec<Tensor>) -> Result<Vec<Tensor>, Fault> {
    let mut args: Vec<Arg<'_>> = tensors.iter_mut().map(Arg::Out).collect();
    interpreter.prepare(body)?.run(&mut args, &Limits::new(1 << 30, 1 << 40))?;
    Ok(tensors)
}

/// Returns true if all bits are equal; all NaNs are considered equal.
fn same(a: &[Num], b: &[Num]) -> bool {
    let same = |(a, b): (&Num, &Num)| match (a, b) {
        (Num::F(a), Num::F(b)) => a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(),
        (a, b) => a == b,
    };
    a.len() == b.len() && a.iter().zip(b).all(same)
}

fn has_lanes(list: &[Instr]) -> bool {
    list.iter().any(|instr| match instr {
        Instr::For(of) => of.lanes > 0 || has_lanes(&of.body),
        Instr::If { then, otherwise, .. } => has_lanes(then) || has_lanes(otherwise),
        _ => false,
    })
}

#[test]
fn the_interpreter_agrees_with_a_naive_evaluator() {
    let cases: u64 = std::env::var("CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(300);
    let first: u64 = std::env::var("FIRST").ok().and_then(|first| first.parse().ok()).unwrap_or(0);
    let (mut fine, mut faults, mut laned) = (0, 0, 0);
    for seed in first..first + cases {
        let (text, buffers) = Generator::function(seed);
        let body = body_of(&text);
        let inputs = tensors(&buffers, seed);
        let args = inputs.iter().map(|tensor| (tensor.shape().to_vec(), numbers(tensor))).collect();
        let expected = Naive::run(&body, args);
        let program = lower(&body).unwrap_or_else(|fault| panic!("seed {seed}: {fault}\n{text}"));
        laned += u64::from(has_lanes(&program.body));
        for (how, interpreter) in [("lanes", &Interpreter as &dyn Backend), ("one lane", &OneLane)] {
            let found = run(interpreter, &body, inputs.clone());
            match (&expected, &found) {
                (Ok(expected), Ok(found)) => {
                    for ((expected, found), buffer) in expected.iter().zip(found).zip(&buffers) {
                        let found = numbers(found);
                        assert!(
                            same(expected, &found),
                            "seed {seed} {how} {}:\n{expected:?}\n{found:?}\n{text}\n{program}",
                            buffer.name
                        );
                    }
                    fine += 1;
                }
                (Err(_), Err(Fault { kind: FaultKind::OutOfBounds { .. } | FaultKind::DivisionByZero, .. })) => {
                    faults += 1
                }
                (expected, found) => {
                    panic!("seed {seed} {how}: {expected:?}, found {found:?}\n{text}\n{program}")
                }
            }
        }
    }
    println!("{fine} runs agree, {faults} end with the same fault, {laned} functions have lanes");
    assert!(fine > cases && laned > cases / 2, "{fine} of {} agree, {laned} have lanes", cases * 2);
}
