//! Tests calls that cannot produce a tensor, and the reasons. In some of them TVM 0.27 wraps around or infers negative
//! lengths.

mod common;

use common::Ops;
use plugin_api::arith::{simplify, substitute};
use plugin_api::ir::{Dim, Type};

const LARGE: &str = "x: R.Tensor((4611686018427387904, 4), dtype=\"float32\")";
const SMALL: &str = "x: R.Tensor((2, 3), dtype=\"float32\")";

#[test]
fn what_cannot_be_is_refused_with_the_reason() {
    let many = "the number of elements exceeds 64 bits";
    let cases = [
        (LARGE, "R.flatten(x)", many),
        (LARGE, "R.repeat(x, repeats=1)", many),
        (LARGE, "R.reshape(x, R.shape([4]))", many),
        (LARGE, "R.cumsum(x)", many),
        ("x: R.Tensor((2, 4611686018427387904, 4), dtype=\"float32\")", "R.nn.batch_flatten(x)", many),
        (SMALL, "R.repeat(x, repeats=-1, axis=0)", "repeats must not be negative, found -1"),
        (SMALL, "R.tile(x, repeats=[2, -3])", "repeats must not be negative, found -3"),
        (SMALL, "R.reshape(x, R.shape([-1, -1]))", "two dimensions of the shape are -1; only one can be inferred"),
        (SMALL, "R.reshape(x, R.shape([2, -3]))", "dimension 1 of the shape is -3; it must be a length, 0 or -1"),
        (
            SMALL,
            "R.reshape(x, R.shape([-1, 4]))",
            "6 elements are not a multiple of 4, the product of the known dimensions",
        ),
        (SMALL, "R.reshape(x, R.shape([2, 3, 0]))", "dimension 2 of the shape is 0, but the tensor has 2 dimensions"),
        (
            "x: R.Tensor((0, 3), dtype=\"float32\")",
            "R.reshape(x, R.shape([0, -1]))",
            "-1, which cannot be inferred next to a 0",
        ),
        ("x: R.Tensor(ndim=2, dtype=\"float32\")", "R.reshape(x, R.shape([-1]))", "the shape of the tensor is unknown"),
        (
            "x: R.Tensor(ndim=2, dtype=\"float32\")",
            "R.reshape(x, R.shape([0, 4]))",
            "dimension 0 of the shape is 0, which keeps",
        ),
        (SMALL, "R.zeros(R.shape([2, -3]), dtype=\"int8\")", "dimension 1 of the shape is -3; it must not be negative"),
        (SMALL, "R.nn.pad(x, pad_width=[0, 0, -2, -2])", "dimension 1 of the shape is -1; it must not be negative"),
        (SMALL, "R.reshape(x, R.shape([7]))", "6 elements cannot be reshaped to a shape of 7"),
    ];
    for (param, call, why) in cases {
        let error = script::read(&module(param, call), &Ops::new()).expect_err(call);
        assert!(format!("{error:?}").contains(why), "{call}: {error:?}");
    }
}

#[test]
fn no_elements_are_not_many() {
    for param in [SMALL, "x: R.Tensor((0, 4611686018427387904, 4), dtype=\"float32\")"] {
        for call in ["R.flatten(x)", "R.repeat(x, repeats=0)"] {
            script::read(&module(param, call), &Ops::new()).unwrap_or_else(|error| panic!("{call}: {error:?}"));
        }
    }
}

/// Prints a call and its type.
fn printed(params: &str, call: &str) -> String {
    let module = script::read(&module(params, call), &Ops::new()).unwrap_or_else(|error| panic!("{call}: {error:?}"));
    let text = script::print(&module, &Ops::new()).unwrap_or_else(|error| panic!("{call}: {error:?}"));
    let line = text.lines().find(|line| line.trim_start().starts_with("y")).unwrap_or_default();
    line.trim().to_string()
}

#[test]
fn shapes_of_reshape_are_worked_out() {
    let cases = [
        ("x: R.Tensor((\"n\", 3, 4), \"float32\")", "(0, 12)", "R.shape([n, 12])"),
        ("x: R.Tensor((\"n\", 3, 4), \"float32\")", "(-1, 12)", "R.shape([n, 12])"),
        ("x: R.Tensor((\"n\", 3, 4), \"float32\")", "(-1,)", "R.shape([n * 12])"),
        ("x: R.Tensor((\"n\", \"m\", 4), \"float32\")", "(0, -1, 2)", "R.shape([n, m * 2, 2])"),
        ("x: R.Tensor((2, 3, 4), \"float32\")", "R.shape([0, 0, 2, -1])", "R.shape([2, 3, 2, 2])"),
        ("x: R.Tensor((2, 3, 4), \"float32\")", "(-1,)", "R.shape([24])"),
        ("x: R.Tensor((4, 0), \"float32\")", "(0, 8)", "R.shape([0, 8])"),
        ("x: R.Tensor((4, 0), \"float32\")", "(0, 0)", "R.shape([4, 0])"),
        ("x: R.Tensor((3, 0), \"float32\")", "(-1, 5)", "R.shape([0, 5])"),
    ];
    for (params, shape, expected) in cases {
        let line = printed(params, &format!("R.reshape(x, {shape})"));
        assert!(line.ends_with(&format!("R.reshape(x, {expected})")), "{params} to {shape}: {line}");
    }
}

/// The number of elements equals that of Python's `range`, with bounds in any order and steps in both directions.
#[test]
fn slices_and_ranges_have_no_negative_length() {
    let size = 7i64;
    for step in [-3, -1, 1, 2] {
        for begin in -9..10 {
            for end in -9..10 {
                let place = |bound: i64| {
                    let bound = if bound < 0 { bound + size } else { bound };
                    if step > 0 { bound.clamp(0, size) } else { bound.clamp(-1, size - 1) }
                };
                let (from, to) = (place(begin), place(end));
                let span = if step > 0 { to - from } else { from - to };
                let length = (span.max(0) + i64::abs(step) - 1) / i64::abs(step);
                let call = format!("R.strided_slice(x, (0,), ({begin},), ({end},), ({step},))");
                let line = printed("x: R.Tensor((7, 2), \"float32\")", &call);
                assert!(line.contains(&format!("R.Tensor(({length}, 2)")), "{call} has {length}: {line}");
                let span = if step > 0 { end - begin } else { begin - end };
                let length = (span.max(0) + i64::abs(step) - 1) / i64::abs(step);
                let call = format!("R.arange({begin}, {end}, {step}, dtype=\"int64\")");
                let line = printed("x: R.Tensor((7, 2), \"float32\")", &call);
                assert!(line.contains(&format!("R.Tensor(({length},)")), "{call} has {length}: {line}");
            }
        }
    }
}

/// The rule also applies to an axis of unknown length, whatever its length at run time.
#[test]
fn symbolic_slices_have_no_negative_length() {
    let param = "x: R.Tensor((\"n\",), \"float32\")";
    let cases = [-2i64, -1, 1, 2]
        .into_iter()
        .flat_map(|step| (-3..4).flat_map(move |begin| (-3..4).map(move |end| (step, begin, end))));
    for (step, begin, end) in cases {
        let call = format!("R.strided_slice(x, (0,), ({begin},), ({end},), ({step},))");
        let module =
            script::read(&module(param, &call), &Ops::new()).unwrap_or_else(|error| panic!("{call}: {error:?}"));
        let function = module.get("main").and_then(|body| body.root().as_function()).expect("a function");
        let Some(Type::Tensor(ty)) = function.result().map(|result| result.ty().to_owned()) else { panic!("{call}") };
        let inferred = ty.shape.and_then(|dims| dims.into_iter().next()).expect("a known shape");
        for size in 0i64..9 {
            let place = |bound: i64| {
                let bound = if bound < 0 { bound + size } else { bound };
                if step > 0 { bound.clamp(0, size) } else { bound.clamp(-1, size - 1) }
            };
            let span = if step > 0 { place(end) - place(begin) } else { place(begin) - place(end) };
            let length = (span.max(0) + step.abs() - 1) / step.abs();
            let found = simplify(&substitute(&inferred, &|_| Some(Dim::Int(size)))).as_int();
            assert_eq!(found, Some(length), "{call} of {size} elements, inferred {inferred:?}");
        }
    }
}

#[test]
fn to_vdevice_is_on_the_device_that_it_names() {
    let text = "@I.ir_module\nclass Module:\n    I.module_global_infos({\"vdevice\": [I.vdevice(\"llvm\"), I.vdevice(\"cuda\")]})\n    @R.function\n    def main(x: R.Tensor((4,), \"float32\", \"cuda:0\")):\n        y = R.to_vdevice(x, \"llvm\")\n        z = R.add(y, y)\n        return z\n";
    let module = script::read(text, &Ops::new()).unwrap_or_else(|error| panic!("{error:?}"));
    let printed = script::print(&module, &Ops::new()).unwrap_or_else(|error| panic!("{error:?}"));
    for name in ["y", "z"] {
        let start = format!("{name}: R.Tensor((4,), dtype=\"float32\", vdevice=\"llvm:0:global\") =");
        assert!(printed.lines().any(|line| line.trim().starts_with(&start)), "{printed}");
    }
    assert!(printed.contains("R.to_vdevice(x, dst_vdevice=\"llvm:0:global\")"), "{printed}");
}

#[test]
fn to_vdevice_needs_a_device_of_the_module() {
    let text = "@I.ir_module\nclass Module:\n    I.module_global_infos({\"vdevice\": [I.vdevice(\"llvm\")]})\n    @R.function\n    def main(x: R.Tensor((4,), \"float32\")):\n        y = R.to_vdevice(x, \"metal\")\n        return y\n";
    let error = script::read(text, &Ops::new()).expect_err("no such device").to_string();
    assert!(error.contains("the module does not contain a virtual device `metal`"), "{error}");
}

#[test]
fn an_operand_from_an_undeclared_operator_is_named() {
    let call = "R.add(R.acme.put(x), x)";
    let error = script::read(&module("x: R.Tensor((4,), \"float32\")", call), &Ops::new()).expect_err("no type");
    let help = error.diagnostics[0].help.clone().unwrap_or_default();
    assert!(help.starts_with("no plugin declares the operator `relax.acme.put`"), "{help:?} {error}");
}

fn module(param: &str, call: &str) -> String {
    format!(
        "@I.ir_module\nclass Module:\n    @R.function\n    def main({param}):\n        y = {call}\n        return y\n"
    )
}
