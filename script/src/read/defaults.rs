//! What TVM's Python functions add to a call: operands and attributes that the operator itself needs.

use super::func::FnReader;
use super::types::float_of;
use plugin_api::ir::{Attr, DType, Dim, V};

/// Attributes with a default that no declaration of a plugin can say: so many float32 zeros.
const ZEROS: &[(&str, &str, usize)] = &[("relax.image.resize2d", "roi", 4), ("relax.image.resize3d", "roi", 6)];

impl FnReader<'_> {
    /// Completes the operands of a call: `R.arange(5)` is `R.arange(0, 5, 1)`.
    pub(super) fn add_operands(&mut self, op: &str, values: &mut Vec<V>) {
        if let ("relax.image.resize2d", [data, size]) = (op, &values[..])
            && let Some(dim) = self.b.with(*size, |size| size.dim())
        {
            // One extent for height and width.
            let shape = self.b.shape(&[dim.clone(), dim]);
            *values = vec![*data, shape];
            return;
        }
        if op != "relax.arange" {
            return;
        }
        let number = |reader: &mut Self, value| reader.b.prim_value(&Dim::Int(value));
        if let [end] = values[..] {
            *values = vec![number(self, 0), end];
        }
        if values.len() == 2 {
            values.push(number(self, 1));
        }
    }

    /// Completes the attributes of a call, before those that the operator declares a default for.
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

    /// The data type of a range: int64, unless a number of it is a float.
    fn dtype_of_range(&self, values: &[V]) -> DType {
        let is_float = |v: &V| {
            self.b.with(*v, |value| {
                value.ty().dtype().is_float() || value.dim().is_some_and(|dim| float_of(&dim).is_some())
            })
        };
        if values.iter().any(is_float) { DType::F32 } else { DType::I64 }
    }
}
