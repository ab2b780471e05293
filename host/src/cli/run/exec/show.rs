//! Results of an execution as tables and as JSON.

use crate::cli::run::executed::results::Shown;
use crate::cli::show::table;
use passhost_lang::ir::constant::{Element, Number};
use runtime::vm::{Value, shape_text};
use runtime::{Limits, Tensor};
use serde_json::json;

/// Statistics of the elements of a tensor.
#[derive(Debug, Default, PartialEq)]
struct Figures {
    /// Smallest, largest and mean value of the elements that are finite numbers.
    of_numbers: Option<(f64, f64, f64)>,
    nan: usize,
    infinite: usize,
}

impl Figures {
    fn of(tensor: &Tensor) -> Figures {
        let mut out = Figures::default();
        let (mut sum, mut count) = (0.0, 0.0);
        for number in tensor.numbers() {
            let value = f64::of(number);
            if value.is_nan() {
                out.nan += 1;
            } else if value.is_infinite() {
                out.infinite += 1;
            } else {
                sum += value;
                count += 1.0;
                let (min, max, _) = out.of_numbers.unwrap_or((value, value, 0.0));
                out.of_numbers = Some((min.min(value), max.max(value), sum / count));
            }
        }
        out
    }
}

/// Formats a number with six digits.
fn short(value: f64) -> String {
    if value == value.trunc() && value.abs() < 1e6 {
        return format!("{value:.0}");
    }
    if !(1e-4..1e6).contains(&value.abs()) {
        return format!("{value:.5e}");
    }
    let before = value.abs().log10().floor().max(0.0) as usize + 1;
    format!("{value:.*}", 6usize.saturating_sub(before))
}

/// Renders the results as a table.
pub(super) fn text(results: &[Shown<'_>]) -> String {
    let head = ["RESULT", "DTYPE", "SHAPE", "CHECKSUM", "MIN", "MAX", "MEAN", "NAN", "INF"];
    let mut rows = vec![head.map(str::to_string).to_vec()];
    for Shown { name, value } in results {
        let Some(tensor) = value.as_tensor() else {
            rows.push(vec![name.clone(), value.described()]);
            continue;
        };
        let figures = Figures::of(tensor);
        let (min, max, mean) = match figures.of_numbers {
            Some((min, max, mean)) => (short(min), short(max), short(mean)),
            None => ("-".to_string(), "-".to_string(), "-".to_string()),
        };
        let (dtype, shape) = (tensor.dtype().to_string(), shape_text(tensor.shape()));
        let checksum = format!("{:016x}", tensor.checksum());
        let (nan, infinite) = (figures.nan.to_string(), figures.infinite.to_string());
        rows.push(vec![name.clone(), dtype, shape, checksum, min, max, mean, nan, infinite]);
    }
    if results.is_empty() {
        return "the function does not return a value\n".to_string();
    }
    table(&rows)
}

/// Renders the results as JSON.
pub(super) fn json(function: &str, results: &[Shown<'_>], limits: &Limits) -> String {
    let result = |Shown { name, value }: &Shown<'_>| {
        let mut out = described(value);
        out["name"] = name.as_str().into();
        if let Some(tensor) = value.as_tensor() {
            let figures = Figures::of(tensor);
            let (min, max, mean) =
                figures.of_numbers.map_or((None, None, None), |(min, max, mean)| (Some(min), Some(max), Some(mean)));
            out["min"] = json!(min);
            out["max"] = json!(max);
            out["mean"] = json!(mean);
            out["nan"] = figures.nan.into();
            out["inf"] = figures.infinite.into();
        }
        out
    };
    let results: Vec<serde_json::Value> = results.iter().map(result).collect();
    let out = json!({
        "function": function, "results": results,
        "work": limits.work_done(), "memory": limits.memory_peak(),
    });
    format!("{out}\n")
}

/// Renders a value as JSON.
fn described(value: &Value) -> serde_json::Value {
    match value {
        Value::Tensor(tensor) => json!({
            "kind": "tensor", "dtype": tensor.dtype().to_string(), "shape": tensor.shape(),
            "checksum": format!("{:016x}", tensor.checksum()),
        }),
        Value::Shape(extents) => json!({ "kind": "shape", "value": **extents }),
        Value::Scalar(scalar) => {
            let number = match scalar.number {
                Number::Bool(value) => json!(value),
                Number::Int(value) => json!(value),
                Number::UInt(value) => json!(value),
                Number::Float(value) => json!(value),
            };
            json!({ "kind": "number", "dtype": scalar.dtype.to_string(), "value": number })
        }
        Value::Tuple(tuple) => {
            let fields: Vec<serde_json::Value> = tuple.fields().iter().map(described).collect();
            json!({ "kind": "tuple", "fields": fields })
        }
        other => json!({ "kind": "other", "value": other.described() }),
    }
}

/// Renders a binding with its value as a line of text.
pub(super) fn traced(function: &str, name: &str, value: &Value) -> String {
    format!("{function}  {name}  {}", traced_value(value))
}

fn traced_value(value: &Value) -> String {
    match value {
        Value::Tensor(tensor) => {
            format!("{} {} {:016x}", tensor.dtype(), shape_text(tensor.shape()), tensor.checksum())
        }
        Value::Tuple(tuple) => {
            let fields: Vec<String> = tuple.fields().iter().map(traced_value).collect();
            format!("({})", fields.join(", "))
        }
        other => other.described(),
    }
}

/// Renders the binding as JSON.
pub(super) fn traced_json(function: &str, name: &str, value: &Value) -> serde_json::Value {
    json!({ "function": function, "binding": name, "value": described(value) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_leave_out_what_is_no_number() {
        let values = vec![1.0f32, f32::NAN, -3.0, f32::INFINITY, f32::NEG_INFINITY, 5.0];
        let tensor = Tensor::from_vec(&[6], values).expect("a tensor");
        let expected = Figures { of_numbers: Some((-3.0, 5.0, 1.0)), nan: 1, infinite: 2 };
        assert_eq!(Figures::of(&tensor), expected);
        assert_eq!(Figures::of(&Tensor::from_vec::<f32>(&[0], Vec::new()).expect("empty")), Figures::default());
    }

    #[test]
    fn numbers_have_six_digits() {
        let texts = [0.0, -2.0, 0.123_456_789, 123.456_789, 1e-9, 1e30, 999_999.5].map(short);
        assert_eq!(texts, ["0", "-2", "0.12346", "123.457", "1.00000e-9", "1.00000e30", "1000000"]);
    }
}
