//! Tests legalizations at every data type that an operator accepts, and at lengths 0 and 1: each call becomes a
//! PrimFunc whose printed text parses back, or is refused with a reason. The calls are the examples in the operators'
//! documentation.

mod common;
#[path = "common/examples.rs"]
mod examples;

use common::Ops;
use examples::{Example, example};
use plugin_api::ir::Value;
use plugin_api::typing::legalized::Replacement;
use plugin_api::typing::operators::OpDecl;
use std::collections::BTreeSet;

const DTYPES: [&str; 13] = [
    "float32", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16",
    "float64", "bool",
];

/// The outcome of legalizing a call.
enum Outcome {
    /// The operand types do not fit the operator.
    NotRead,
    /// The call has a legalization.
    Computed,
    /// The call cannot be legalized, for this reason.
    Refused(String),
    /// The legalization is incorrect.
    Wrong(String),
}

/// Replaces one length by another in the shapes of all parameters.
fn with_length(params: &str, from: &str, to: &str) -> String {
    let mut parts = params.split("R.Tensor((");
    let mut out = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let (dims, rest) = part.split_once(')').unwrap_or((part, ""));
        let dims: Vec<&str> =
            dims.split(", ").map(|dim| if dim.trim_end_matches(',') == from { to } else { dim }).collect();
        let comma = if dims.len() == 1 { "," } else { "" };
        let dims = dims.join(", ");
        out += &format!("R.Tensor(({}{comma}){rest}", dims.trim_end_matches(','));
    }
    out
}

/// Returns all lengths in the shapes of the parameters.
fn lengths(params: &str) -> BTreeSet<String> {
    let shapes = params.split("R.Tensor((").skip(1).filter_map(|part| part.split_once(')'));
    let dims = shapes.flat_map(|(dims, _)| dims.split(',').map(|dim| dim.trim().to_string()).collect::<Vec<_>>());
    dims.filter(|dim| !dim.is_empty()).collect()
}

/// Returns the example with a different data type and different lengths.
fn variants(example: &Example, dtype: &str) -> Vec<(String, String)> {
    let of =
        |text: &str| text.replace("\"float32\"", &format!("\"{dtype}\"")).replace("T.float32(", &format!("T.{dtype}("));
    let (params, call) = (of(&example.params), of(&example.call));
    let mut out = vec![(params.clone(), call.clone())];
    for length in lengths(&params) {
        out.extend(["0", "1"].map(|to| (with_length(&params, &length, to), call.clone())));
    }
    out
}

fn outcome(ops: &Ops, decl: &OpDecl, params: &str, call: &str) -> Outcome {
    let text = format!(
        "@I.ir_module\nclass Module:\n    @R.function(pure=False)\n    def main({params}):\n        y = {call}\n        return y\n"
    );
    let Ok(module) = script::read(&text, ops) else { return Outcome::NotRead };
    let (Some(body), Some(legalize)) = (module.get("main"), decl.legalize) else { return Outcome::NotRead };
    let mut calls = body.values().filter_map(Value::as_call);
    let Some(call) = calls.find(|call| call.op() == Some(decl.name)) else { return Outcome::NotRead };
    let legalized = match legalize(call) {
        Ok(legalized) => legalized,
        Err(why) => return Outcome::Refused(why.to_string()),
    };
    let Some(Replacement::Function(function)) = legalized.replacement() else { return Outcome::Computed };
    let printed = match script::print_function("f", function, ops) {
        Ok(printed) => printed,
        Err(why) => return Outcome::Wrong(format!("cannot be printed: {why:?}")),
    };
    match script::read(&printed, ops) {
        Err(why) => Outcome::Wrong(format!("cannot be read: {why}\n{printed}")),
        Ok(module) if module.get("f").is_some_and(|read| read.structural_eq(function)) => Outcome::Computed,
        Ok(_) => Outcome::Wrong(format!("reads as another function:\n{printed}")),
    }
}

#[test]
fn every_accepted_call_is_computed_or_refused_with_a_reason() {
    let (ops, mut wrong, mut computed, mut refused) = (Ops::new(), Vec::new(), 0, 0);
    for decl in relax_ops::OPERATORS.iter().filter(|decl| decl.legalize.is_some()) {
        let example = example(decl).unwrap_or_else(|missing| panic!("{} {missing}", decl.name));
        let before = computed;
        for (params, call) in DTYPES.iter().flat_map(|dtype| variants(&example, dtype)) {
            match outcome(&ops, decl, &params, &call) {
                Outcome::NotRead => {}
                Outcome::Computed => computed += 1,
                Outcome::Refused(why) if why.contains("fault") => wrong.push(format!("{params}: {call}: {why}")),
                Outcome::Refused(_) => refused += 1,
                Outcome::Wrong(why) => wrong.push(format!("{params}: {call}: {why}")),
            }
        }
        if computed == before {
            wrong.push(format!("{}, {}: no call of its example is computed", decl.name, example.ty));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), wrong.len() + computed + refused, wrong.join("\n"));
    assert!(computed > 3_000, "{computed} computed, {refused} refused");
}
