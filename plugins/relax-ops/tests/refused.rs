//! Calls that no tensor can come from, and why. TVM 0.27 wraps around or gives negative lengths in some of them.

mod common;

use common::Ops;

const LARGE: &str = "x: R.Tensor((4611686018427387904, 4), dtype=\"float32\")";
const SMALL: &str = "x: R.Tensor((2, 3), dtype=\"float32\")";

#[test]
fn what_cannot_be_is_refused_with_the_reason() {
    let many = "has more elements than a number of 64 bits counts";
    let cases = [
        (LARGE, "R.flatten(x)", many),
        (LARGE, "R.repeat(x, repeats=1)", many),
        (LARGE, "R.reshape(x, R.shape([4]))", many),
        (LARGE, "R.cumsum(x)", many),
        ("x: R.Tensor((2, 4611686018427387904, 4), dtype=\"float32\")", "R.nn.batch_flatten(x)", many),
        (SMALL, "R.repeat(x, repeats=-1, axis=0)", "repeats must not be negative, found -1"),
        (SMALL, "R.tile(x, repeats=[2, -3])", "repeats must not be negative, found -3"),
        (SMALL, "R.reshape(x, R.shape([-1, -1]))", "dimension 0 of the shape is -1; write its length"),
        (SMALL, "R.reshape(x, R.shape([2, -3]))", "dimension 1 of the shape is -3; write its length"),
        (SMALL, "R.reshape(x, R.shape([7]))", "6 elements do not fit a shape of 7"),
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

fn module(param: &str, call: &str) -> String {
    format!(
        "@I.ir_module\nclass Module:\n    @R.function\n    def main({param}):\n        y = {call}\n        return y\n"
    )
}
