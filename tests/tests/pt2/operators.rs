//! Compares each operator with NumPy: the lines of `operators.jsonl`, which `tests/oracle/pt2_operators.py` writes. A line
//! contains the operator, its arguments, and the results. A tensor is written as a list of its data type, sizes and elements.

use crate::archive::{Program, t, ts};
use crate::{read_with, run};
use passhost::runtime::Tensor;
use passhost::runtime::vm::Value;
use passhost_tests::root;
use plugin_api::ir::constant::{Element, Number};
use serde_json::{Value as Json, json};

/// Returns an element, which is a number, a truth value, or the name of a special float.
fn element(json: &Json) -> Number {
    match json {
        Json::Bool(value) => Number::Bool(*value),
        Json::String(text) => Number::Float(text.parse().expect("a float")),
        other => other.as_i64().map(Number::Int).unwrap_or_else(|| Number::Float(other.as_f64().expect("a number"))),
    }
}

/// Returns the sizes of a tensor as a text.
fn shape_of(tensor: &Json) -> String {
    let sizes: Vec<String> = tensor[1].as_array().expect("sizes").iter().map(ToString::to_string).collect();
    sizes.join(" ")
}

fn dtype_of(tensor: &Json) -> &str {
    tensor[0].as_str().expect("a data type")
}

fn tensor(json: &Json) -> Tensor {
    let sizes: Vec<i64> =
        json[1].as_array().expect("sizes").iter().map(|size| size.as_i64().expect("a size")).collect();
    let elements: Vec<Number> = json[2].as_array().expect("elements").iter().map(element).collect();
    let dtype = dtype_of(json).parse().expect("a data type");
    Tensor::from_numbers(dtype, &sizes, elements).expect("as many elements")
}

/// Returns a program with one node, and the values of its inputs.
fn program(case: &Json) -> (Program, Vec<Value>) {
    let (mut program, mut inputs, mut args) = (Program::new(), Vec::new(), Vec::new());
    let mut input = |program: Program, json: &Json| {
        let name = format!("x{}", inputs.len());
        inputs.push(Value::Tensor(tensor(json)));
        (program.input(&name, dtype_of(json), &shape_of(json)), name)
    };
    for pair in case["args"].as_array().expect("arguments") {
        let (name, arg) = (pair[0].as_str().expect("a name"), &pair[1]);
        let value = if let Some(one) = arg.get("t") {
            let (next, name) = input(program, one);
            program = next;
            t(&name)
        } else if let Some(all) = arg.get("ts") {
            let mut names = Vec::new();
            for one in all.as_array().expect("tensors") {
                let (next, name) = input(program, one);
                program = next;
                names.push(name);
            }
            ts(&names.iter().map(String::as_str).collect::<Vec<_>>())
        } else if let Some(all) = arg.get("optional") {
            let mut items = Vec::new();
            for one in all.as_array().expect("tensors") {
                if one.is_null() {
                    items.push(json!({ "as_none": true }));
                    continue;
                }
                let (next, name) = input(program, one);
                program = next;
                items.push(t(&name));
            }
            json!({ "as_optional_tensors": items })
        } else {
            arg.clone()
        };
        args.push((name, value));
    }
    let results: Vec<(String, &str, String)> = (case["results"].as_array().expect("results").iter().enumerate())
        .map(|(at, result)| (format!("y{at}"), dtype_of(result), shape_of(result)))
        .collect();
    let stated: Vec<(&str, &str, &str)> =
        results.iter().map(|(name, dtype, shape)| (&**name, *dtype, &**shape)).collect();
    program = program.node(case["op"].as_str().expect("a name"), &args, &stated);
    let program = results.iter().fold(program, |program, (name, ..)| program.output(name));
    (program, inputs)
}

/// Returns the difference between a tensor and the expected one.
fn difference(found: &Tensor, wanted: &Json) -> Option<String> {
    let wanted = tensor(wanted);
    if (found.dtype(), found.shape()) != (wanted.dtype(), wanted.shape()) {
        return Some(format!(
            "{} {:?} instead of {} {:?}",
            found.dtype(),
            found.shape(),
            wanted.dtype(),
            wanted.shape()
        ));
    }
    let most = match found.dtype().bits() {
        16 => 5e-3,
        _ => 2e-5,
    };
    let is_near = |(a, b): &(Number, Number)| {
        let (a, b) = (f64::of(*a), f64::of(*b));
        a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= most * b.abs().max(1.0)
    };
    let at = found.numbers().zip(wanted.numbers()).position(|pair| !is_near(&pair))?;
    Some(format!("element {at} is {:?} instead of {:?}", found.number(at), wanted.number(at)))
}

fn fault(case: &Json) -> Option<String> {
    let (program, inputs) = program(case);
    let module = match read_with(&program.archive(), "") {
        Ok(module) => module,
        Err(error) => return Some(error.to_string()),
    };
    let wanted = case["results"].as_array().expect("results");
    run(&module, inputs).iter().zip(wanted).find_map(|(found, wanted)| difference(found, wanted))
}

fn cases() -> Vec<Json> {
    let text = std::fs::read_to_string(root().join("tests/tests/pt2/operators.jsonl")).expect("is there");
    text.lines().map(|line| serde_json::from_str(line).expect("is JSON")).collect()
}

#[test]
fn operators_compute_what_numpy_computes() {
    let cases = cases();
    let faults: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            let fault =
                std::panic::catch_unwind(|| fault(case)).unwrap_or_else(|_| Some("it is not executed".to_string()));
            fault.map(|fault| format!("{} {}: {fault}", case["op"], case["args"]))
        })
        .collect();
    assert!(faults.is_empty(), "{} of {} cases fail:\n{}", faults.len(), cases.len(), faults.join("\n"));
}
