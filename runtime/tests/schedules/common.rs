//! Functions in source form, and their results.

use plugin_api::prelude::*;
use runtime::{Arg, Backend, Fault, Interpreter, Limits, Tensor};
use script::NoOps;

/// Reads a function from the lines after `def`.
pub(crate) fn func(text: &str) -> Body {
    let head = "# from tvm.script import ir as I\n# from tvm.script import tirx as T\n\n@I.ir_module\nclass Module:\n    @T.prim_func(s_tir=True)\n";
    let lines: Vec<String> = text.trim_matches('\n').lines().map(|line| format!("    {line}\n")).collect();
    let text = format!("{head}{}", lines.concat());
    let module = script::read(&text, &NoOps).unwrap_or_else(|error| panic!("{error}\n{text}"));
    module.functions().next().expect("a function").1.clone()
}

/// Prints a function.
pub(crate) fn text(body: &Body) -> String {
    script::print(&Module::new([("f", body.clone())]), &NoOps).unwrap_or_else(|error| panic!("{error}"))
}

/// Checks that a printed function reads back as the same function.
pub(crate) fn reads_back(body: &Body) -> String {
    let text = text(body);
    let module = script::read(&text, &NoOps).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let again = module.get("f").expect("a function");
    assert!(again.structural_eq(body), "printed and read, it is another function:\n{text}");
    text
}

/// Creates random tensors for the buffers of a function. Floats are small integers, so that sums have the same bits
/// in any order.
pub(crate) fn inputs(body: &Body, seed: u64) -> Vec<Tensor> {
    inputs_of(body, seed, ROWS)
}

/// The value of symbolic dimensions.
const ROWS: i64 = 7;

/// Creates random tensors like [`inputs`], with a value for all symbolic dimensions.
fn inputs_of(body: &Body, seed: u64, rows: i64) -> Vec<Tensor> {
    let limits = Limits::unlimited();
    let buffers = body.root().param_buffers();
    let tensor = |(at, buffer): (usize, &Value<'_>)| {
        let ty = buffer.as_buffer_type().expect("a buffer");
        let shape: Vec<i64> = ty.shape.iter().map(|dim| dim.as_int().unwrap_or(rows)).collect();
        let n: i64 = shape.iter().product();
        let mut state = seed.wrapping_add(at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) % 9
        };
        match ty.dtype {
            DType::F32 => {
                let values: Vec<f32> = (0..n).map(|_| next() as f32 - 4.0).collect();
                Tensor::from_vec(&shape, values).expect("a tensor")
            }
            dtype => Tensor::random(dtype, &shape, seed * 8 + at as u64, &limits).expect("a tensor"),
        }
    };
    buffers.iter().enumerate().map(tensor).collect()
}

/// Returns the results of a function.
pub(crate) fn run(body: &Body, tensors: Vec<Tensor>) -> Vec<Tensor> {
    try_run(body, tensors).unwrap_or_else(|fault| panic!("{fault}\n{}", text(body)))
}

/// Returns the results of a function, or its fault.
pub(crate) fn try_run(body: &Body, mut tensors: Vec<Tensor>) -> Result<Vec<Tensor>, Fault> {
    let mut args: Vec<Arg<'_>> = tensors.iter_mut().map(Arg::Out).collect();
    Interpreter.prepare(body)?.run(&mut args, &Limits::new(1 << 30, 1 << 40))?;
    Ok(tensors)
}

/// Checks that two functions compute the same bits.
pub(crate) fn same_values(before: &Body, after: &Body) {
    same_values_for(before, after, ROWS);
}

/// Checks that two functions compute the same bits if symbolic dimensions have a certain value.
pub(crate) fn same_values_for(before: &Body, after: &Body, rows: i64) {
    for seed in [1, 2] {
        let inputs = inputs_of(before, seed, rows);
        let (a, b) = (run(before, inputs.clone()), run(after, inputs));
        for (a, b) in a.iter().zip(&b) {
            assert!(a.numbers().eq(b.numbers()), "other values\n{}\n{}", text(before), text(after));
        }
    }
}
