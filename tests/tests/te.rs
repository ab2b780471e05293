//! Tests tensor expressions that no operator uses: the PrimFunc of a call is computed, printed, read and executed.
#![forbid(unsafe_code)]

use passhost::Input;
use passhost::runtime::Tensor;
use passhost::runtime::vm::{Machine, Value};
use passhost_tests::engine;
use plugin_api::ir::constant::Element;
use plugin_api::prelude::*;
use plugin_api::schedule::{BlockRef, LoopRef, Schedule};
use plugin_api::te::{Te, TeExpr};

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

/// Computes two states step by step: `s[t + 1] = 2 * s[t] + x[p[t]]`, elementwise with a factor, and the sum of its two elements. Returns
/// the sums.
fn stepwise(call: Call<'_>) -> Result<Legalized, InferError> {
    let te = Te::new("made", call);
    let (x, p) = (te.input(0)?, te.input(1)?);
    let start = te.compute("start", &[Dim::Int(2)], |i| (&i[0] + 1).cast(DType::F32));
    let zero = te.compute("zero", &[], |_| TeExpr::float(0.0, DType::F32));
    let [_, sums] = te.scan("states", &p.shape()[0], [&start, &zero], |t, [states, _]| {
        let twice = te.compute("twice", &[Dim::Int(2)], |i| states.at([t, &i[0]]) * 2.0);
        let next =
            te.compute("next", &[Dim::Int(2)], |i| twice.at(i) + x.at([p.at([t])]) * (&i[0] + 1).cast(DType::F32));
        let k = te.reduce_axis("k", &Dim::Int(2));
        let sum = te.compute("sum", &[], |_| next.at([&k]).sum(&[&k]));
        [next, sum]
    });
    let out = te.compute("out", x.shape(), |i| sums.at([&i[0] + 1]));
    te.finish(&[out])
}

#[test]
fn states_are_computed_step_by_step() {
    let text = text_of(stepwise);
    // The states are [1, 2]; [2, 4] + 20 * [1, 2]; [44, 88] + 10 * [1, 2]; [108, 216] + 30 * [1, 2].
    assert_eq!(run(&text), [66.0, 162.0, 414.0][..], "{text}");
}

#[test]
fn a_tensor_of_a_step_stays_in_it() {
    fn leaking(call: Call<'_>) -> Result<Legalized, InferError> {
        let te = Te::new("made", call);
        let (x, p) = (te.input(0)?, te.input(1)?);
        let mut leaked = None;
        te.scan("states", &p.shape()[0], [&x], |t, [states]| {
            let next = te.compute("next", x.shape(), |i| states.at([t, &i[0]]) * 2.0);
            leaked = Some(te.compute("twice", x.shape(), |i| next.at(i) * 2.0));
            [next]
        });
        te.finish(&leaked.into_iter().collect::<Vec<_>>())
    }
    let module = engine().read_module(&Input::text("m.py", MODULE)).module.expect("is read");
    let main = module.get("main").expect("is there");
    let call = main.bindings().find_map(|value| value.as_call()).expect("a call");
    let why = leaking(call).expect_err("`twice` is a tensor of a step").to_string();
    assert!(why.contains("`twice` is computed in a step of a scan, so it cannot be read outside the step"), "{why}");
    fn starting_from_a_step(call: Call<'_>) -> Result<Legalized, InferError> {
        let te = Te::new("made", call);
        let (x, p) = (te.input(0)?, te.input(1)?);
        let mut leaked = None;
        te.scan("states", &p.shape()[0], [&x], |t, [states]| {
            let twice = te.compute("twice", x.shape(), |i| states.at([t, &i[0]]) * 2.0);
            leaked = Some(twice.clone());
            [te.compute("next", x.shape(), |i| twice.at(i) + 1.0)]
        });
        let start = leaked.expect("the step is computed");
        let [others] = te.scan("others", &p.shape()[0], [&start], |t, [states]| {
            [te.compute("more", x.shape(), |i| states.at([t, &i[0]]) + 1.0)]
        });
        te.finish(&[others])
    }
    let why = starting_from_a_step(call).expect_err("`twice` is a tensor of a step").to_string();
    assert!(why.contains("`twice` is computed in a step of a scan, so it cannot be read outside the step"), "{why}");
}

/// A step may read the row before the one that it writes: the rows differ, so its elements are independent of each other. It must not
/// read other elements of its own row.
#[test]
fn elements_of_a_row_are_independent_of_the_row_before() {
    fn made(back: i64) -> (Schedule, BlockRef, LoopRef) {
        let body = plugin_api::tir::prim_func(|t| {
            let a = t.buffer_param("A", &[9, 16], DType::F32);
            t.serial("t", 8, |time| {
                t.block("step", || {
                    let vt = t.opaque("vt", 8, time);
                    t.serial("i", 16, |i| {
                        t.block("row", || {
                            let vi = t.spatial("vi", 16, i);
                            t.store(a, [vt + 1, vi], t.load(a, [vt + 1 - back, 15 - vi]) + 1.0);
                        });
                    });
                });
            });
        });
        let sch = Schedule::new(&body.expect("a function")).expect("is parsed");
        let block = sch.get_block("row").expect("is there");
        let [of] = sch.loops(block).expect("one loop");
        (sch, block, of)
    }
    for primitive in [Schedule::vectorize, Schedule::parallel] {
        let (mut sch, block, i) = made(1);
        primitive(&mut sch, i).expect("the row before is complete");
        assert!(sch.compute_inline(block).is_err(), "later steps need the row");
        let (mut sch, _, i) = made(0);
        let why = primitive(&mut sch, i).expect_err("an element of the same row").message;
        assert!(why.contains("block `row` reads elements of `A` that its other instances write"), "{why}");
    }
}
