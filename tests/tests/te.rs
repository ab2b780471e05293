//! Tests tensor expressions that no operator uses: the PrimFunc of a call is computed, printed, read and executed.
#![forbid(unsafe_code)]

use passhost::Input;
use passhost::runtime::Tensor;
use passhost::runtime::vm::{Machine, Value};
use passhost_tests::engine;
use plugin_api::ir::constant::Element;
use plugin_api::prelude::*;
use plugin_api::te::Te;

const MODULE: &str = r#"
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3,), "float32"), p: R.Tensor((3,), "int64")) -> R.Tensor((3,), "float32"):
        y = R.take(x, p, axis=0)
        return y
"#;

/// A function like `main` that calls the PrimFunc.
const CALLER: &str = r#"
    @R.function
    def main(x: R.Tensor((3,), "float32"), p: R.Tensor((3,), "int64")) -> R.Tensor((3,), "float32"):
        cls = Module
        y = R.call_tir(cls.made, (x, p), out_ty=R.Tensor((3,), "float32"))
        return y
"#;

/// Returns the text of a module whose PrimFunc `made` computes the call in [`MODULE`].
fn text_of(legalize: fn(Call<'_>) -> Result<Legalized, InferError>) -> String {
    let module = engine().read_module(&Input::text("m.py", MODULE)).module.expect("is read");
    let main = module.get("main").expect("is there");
    let call = main.bindings().find_map(|value| value.as_call()).expect("a call");
    let made = legalize(call).unwrap_or_else(|error| panic!("{error}"));
    engine().print_module(&Module::new([("made", made.function)])).expect("is printed")
}

/// Puts element `i` at position `2 - p[i]`.
fn placed(call: Call<'_>) -> Result<Legalized, InferError> {
    let te = Te::new("made", call);
    let (x, p) = (te.input(0)?, te.input(1)?);
    let back = te.compute("back", p.shape(), |i| 2 - p.at(i));
    let out = te.compute_placed("out", x.shape(), x.shape(), |i| (vec![back.at(i)], x.at(i)));
    te.finish(&[out])
}

/// Like [`placed`], but positions are elements of an input.
fn placed_by_input(call: Call<'_>) -> Result<Legalized, InferError> {
    let te = Te::new("made", call);
    let (x, p) = (te.input(0)?, te.input(1)?);
    let out = te.compute_placed("out", x.shape(), x.shape(), |i| (vec![p.at(i)], x.at(i)));
    te.finish(&[out])
}

fn run(text: &str) -> Vec<f64> {
    let text = format!("{text}{CALLER}");
    let module = engine().read_module(&Input::text("m.py", &*text)).module.unwrap_or_else(|error| panic!("{error}"));
    let x = Tensor::from_vec(&[3], vec![10.0f32, 20.0, 30.0]).expect("three elements");
    let p = Tensor::from_vec(&[3], vec![1i64, 0, 2]).expect("three elements");
    let inputs = vec![Value::Tensor(x), Value::Tensor(p)];
    let result = Machine::new(&module, engine()).run("main", inputs, &mut ()).unwrap_or_else(|why| panic!("{why:?}"));
    result.as_tensor().expect("a tensor").numbers().map(f64::of).collect()
}

#[test]
fn positions_may_be_elements_of_other_tensors() {
    let text = text_of(placed);
    assert_eq!(run(&text), [30.0, 10.0, 20.0][..], "{text}");
    let text = text_of(placed_by_input);
    assert!(text.contains("T.reads(x[v_ax0], p[v_ax0])"), "{text}");
    assert_eq!(run(&text), [20.0, 10.0, 30.0][..], "{text}");
}
