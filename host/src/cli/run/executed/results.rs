//! Results of a function with their names.

use runtime::Tensor;
use runtime::vm::Value;

/// A result, or a field of a tuple.
pub(in crate::cli::run) struct Shown<'v> {
    /// `output`, or `output_0`, `output_1` and so on for fields.
    pub(in crate::cli::run) name: String,
    pub(in crate::cli::run) value: &'v Value,
}

impl Shown<'_> {
    /// Returns the value as an array for a file; `None` unless it is a tensor, a shape or a number.
    pub(in crate::cli::run) fn as_array(&self) -> Option<Tensor> {
        match self.value {
            Value::Tensor(tensor) => Some(tensor.clone()),
            Value::Shape(extents) => Tensor::from_vec(&[extents.len() as i64], extents.to_vec()).ok(),
            Value::Scalar(scalar) => Tensor::from_numbers(scalar.dtype, &[], [scalar.number]).ok(),
            _ => None,
        }
    }
}

/// Returns the fields of a result that is a tuple; otherwise, the result itself.
pub(in crate::cli::run) fn results(value: &Value) -> Vec<Shown<'_>> {
    let mut out = Vec::new();
    let mut work = vec![("output".to_string(), value)];
    while let Some((name, value)) = work.pop() {
        match value.as_tuple() {
            Some(fields) => {
                work.extend(fields.iter().enumerate().rev().map(|(i, field)| (format!("{name}_{i}"), field)));
            }
            None => out.push(Shown { name, value }),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_tuples_are_named_by_their_positions() {
        let one = || Value::shape(&[1]);
        let inner = Value::tuple(vec![one(), one()]).expect("a tuple");
        let outer = Value::tuple(vec![one(), inner]).expect("a tuple");
        let names: Vec<String> = results(&outer).into_iter().map(|shown| shown.name).collect();
        assert_eq!(names, ["output_0", "output_1_0", "output_1_1"]);
        assert_eq!(results(&one())[0].name, "output");
    }
}
