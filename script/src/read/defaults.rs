//! Adds the operands and attributes that TVM's Python functions add to a call.

use super::func::FnReader;
use super::types::float_of;
use passhost_lang::ir::{Attr, DType, Dim, V};

/// Attributes whose default cannot be declared by a plugin: this many float32 zeros.
const ZEROS: &[(&str, &str, usize)] = &[("relax.image.resize2d", "roi", 4), ("relax.image.resize3d", "roi", 6)];

impl FnReader<'_> {
    /// Adds the next default operand of TVM's Python function; for example, `R.arange(5)` is `R.arange(0, 5, 1)`.
    /// Returns true if there is one.
    pub(super) fn add_default(&mut self, op: &str, values: &mut Vec<V>) -> bool {
        let default = match (op, values.len()) {
            ("relax.arange", 1) => {
                let zero = self.b.prim_value(&Dim::Int(0));
                values.insert(0, zero);
                return true;
            }
            ("relax.eye", 1) => {
                values.push(values[0]);
                return true;
            }
            ("relax.arange", 2) => Dim::Int(1),
            ("relax.eye", 2) | ("relax.eye_like" | "relax.tril" | "relax.triu", 1) => Dim::Int(0),
            ("relax.unique", 1) => Dim::int(1, DType::BOOL),
            ("relax.unique", 2..=4) => Dim::int(0, DType::BOOL),
            _ => return false,
        };
        values.push(self.b.prim_value(&default));
        true
    }

    /// Completes the operands of a call: a single extent of `R.image.resize2d` is both height and width.
    pub(super) fn add_operands(&mut self, op: &str, values: &mut Vec<V>) {
        if let ("relax.image.resize2d", [data, size]) = (op, &values[..])
            && let Some(dim) = self.b.with(*size, |size| size.dim())
        {
            // One extent for height and width.
            let shape = self.b.shape(&[dim.clone(), dim]);
            *values = vec![*data, shape];
        }
    }

    /// Completes the attributes of a call, before the defaults declared by the operator.
    pub(super) fn add_attributes(&self, op: &str, values: &[V], entries: &mut Vec<(&str, Attr)>) {
        let given = |entries: &[(&str, Attr)], name: &str| {
            entries.iter().any(|(known, value)| *known == name && *value != Attr::None)
        };
        if op == "relax.arange" && !given(entries, "dtype") {
            entries.retain(|(known, _)| *known != "dtype");
            entries.push(("dtype", Attr::Str(self.dtype_of_range(values).to_string())));
        }
        for (_, name, n) in ZEROS.iter().filter(|(known, ..)| *known == op) {
            let zero = Attr::Dim(Dim::float(0.0, DType::F32));
            if !given(entries, name) {
                entries.retain(|(known, _)| known != name);
                entries.push((name, Attr::list(vec![zero; *n])));
            }
        }
    }

    /// Returns the data type of a range: int64, unless one of its numbers is a float.
    fn dtype_of_range(&self, values: &[V]) -> DType {
        let is_float = |v: &V| {
            self.b.with(*v, |value| {
                value.ty().dtype().is_float() || value.dim().is_some_and(|dim| float_of(&dim).is_some())
            })
        };
        if values.iter().any(is_float) { DType::F32 } else { DType::I64 }
    }
}
