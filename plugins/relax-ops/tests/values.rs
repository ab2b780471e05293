//! Values of calls, computed by their legalizations, against what NumPy says: the lines of `values.txt`, which
//! `tests/oracle/sweep.py --write` wrote.

mod common;

use common::Ops;
use plugin_api::ir::constant::{Element, Number};
use plugin_api::ir::{Call, Type};
use plugin_api::prelude::{DType, Legalized};
use plugin_api::typing::operators::Infer;
use runtime::Tensor;
use runtime::vm::{Lower, Machine, Value};

/// Executes operators by their legalizations.
struct ByLegalization<'o>(&'o Ops);

impl Lower for ByLegalization<'_> {
    fn infer(&self, call: Call<'_>) -> Result<Type, String> {
        self.0.infer(call).map(|inferred| inferred.ty).map_err(|why| why.to_string())
    }

    fn lower(&self, call: Call<'_>) -> Result<Option<Legalized>, String> {
        let decl = relax_ops::OPERATORS.iter().find(|decl| call.op() == Some(decl.name));
        let legalize = decl.and_then(|decl| decl.legalize);
        legalize.map(|legalize| legalize(call)).transpose().map_err(|why| why.to_string())
    }
}

/// What is wrong with the result of a line: a call, then for each result its data type, shape and numbers.
fn fault(ops: &Ops, line: &str) -> Option<String> {
    let mut parts = line.split(" | ");
    let call = parts.next()?;
    let text = format!(
        "@I.ir_module\nclass Module:\n    @R.function\n    def main():\n        y = {call}\n        return y\n"
    );
    let module = match script::read(&text, ops) {
        Ok(module) => module,
        Err(why) => return Some(format!("is not read: {why}")),
    };
    let lower = ByLegalization(ops);
    let value = match Machine::new(&module, &lower).run("main", Vec::new(), &mut ()) {
        Ok(value) => value,
        Err(failure) => return Some(format!("is not executed: {failure:?}")),
    };
    let fields = value.as_tuple().map_or_else(|| vec![value.clone()], <[Value]>::to_vec);
    let expected: Vec<&str> = parts.collect();
    if fields.len() != expected.len() {
        return Some(format!("has {} results", fields.len()));
    }
    fields.iter().zip(expected).find_map(|(field, expected)| match field.as_tensor() {
        Some(tensor) => difference(tensor, expected),
        None => Some("has a result that is not a tensor".to_string()),
    })
}

fn difference(tensor: &Tensor, expected: &str) -> Option<String> {
    let mut words = expected.split(' ');
    let (dtype, shape) = (words.next()?, words.next()?);
    if tensor.dtype().to_string() != dtype || format!("{:?}", tensor.shape()).replace(' ', "") != shape {
        return Some(format!("is {} {:?}", tensor.dtype(), tensor.shape()));
    }
    let words: Vec<&str> = words.collect();
    if words.len() != tensor.len() {
        return Some(format!("has {} numbers", tensor.len()));
    }
    let same = |(number, word): (Number, &&str)| match number {
        Number::Float(found) => {
            let (wanted, most) = (word.parse::<f64>().unwrap_or(f64::NAN), tolerance(tensor.dtype()));
            let is_near = (found - wanted).abs() <= most * wanted.abs().max(1.0);
            is_near || found == wanted || (found.is_nan() && wanted.is_nan())
        }
        Number::UInt(found) => word.parse() == Ok(found),
        number => word.parse() == Ok(i64::of(number)),
    };
    let wrong = tensor.numbers().zip(&words).position(|pair| !same(pair))?;
    Some(format!("element {wrong} is {:?} instead of {}", tensor.number(wrong), words[wrong]))
}

fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 4e-3,
        DType::F32 => 3e-5,
        _ => 1e-9,
    }
}

#[test]
fn values_are_those_of_numpy() {
    let (ops, lines) = (Ops::new(), include_str!("values.txt"));
    let wrong: Vec<String> =
        lines.lines().filter_map(|line| Some(format!("{}\n    {}", line, fault(&ops, line)?))).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), lines.lines().count(), wrong.join("\n"));
}
