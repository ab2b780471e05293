//! Adds the operands and attributes that TVM's Python functions add to a call.

use super::arguments::{accept, dtype_of, keyword};
use super::dims::float_of;
use super::reader::FnReader;
use crate::words::syntax::{Read, span};
use passhost_lang::ir::{Attr, AttrsId, DType, Dim, Type, TypeId, V};
use ruff_python_ast::ExprCall;

/// Attributes whose default cannot be declared by a plugin: a number of float32 zeros.
const ZEROS: &[(&str, &str, usize)] = &[("relax.image.resize2d", "roi", 4), ("relax.image.resize3d", "roi", 6)];

/// The attributes of pooling operators, in the order of TVM's Python functions.
const POOL: &[&str] =
    &["pool_size", "strides", "padding", "dilation", "ceil_mode", "count_include_pad", "layout", "out_layout"];

/// Returns the order of unnamed attributes in TVM's Python function, if it differs from the order in the operator's
/// declaration.
pub(super) fn positions(op: &str) -> Option<&'static [&'static str]> {
    match op.strip_prefix("relax.")? {
        "quantize" | "dequantize" => Some(&["axis", "out_dtype"]),
        "nn.pad" => Some(&["pad_width", "pad_mode", "pad_value"]),
        "nn.max_pool1d" | "nn.max_pool2d" | "nn.max_pool3d" => Some(POOL),
        "nn.avg_pool1d" | "nn.avg_pool2d" | "nn.avg_pool3d" => Some(POOL),
        "grad.max_pool2d_backward" | "grad.avg_pool2d_backward" => Some(POOL),
        _ => None,
    }
}

/// Returns the number of axes for which a single number of an attribute is repeated, if the declaration does not
/// specify it.
fn axes_of(op: &str, attr: &str) -> Option<usize> {
    match (op.strip_prefix("relax.nn.adaptive_avg_pool")?, attr) {
        (axes, "output_size") => axes.strip_suffix('d')?.parse().ok(),
        _ => None,
    }
}

impl<'a> FnReader<'a> {
    /// Reads a call of a TVM Python function that creates several calls: `R.nn.relu6(x)` is `R.clip(x, 0, 6)`, and
    /// `R.linear(x, w, b)` is a matrix product and a sum. Returns `None` for other names.
    pub(super) fn shorthand(&mut self, name: &str, call: &'a ExprCall) -> Read<Option<V>> {
        const LINEAR: &[&str] = &["data", "weight", "bias", "out_dtype"];
        let given = |names: &[&str], at: usize| {
            let value = call.arguments.args.get(at).or_else(|| keyword(call, names[at]));
            value.filter(|value| !value.is_none_literal_expr())
        };
        match name {
            "nn.relu6" => {
                accept(call, 1, &["data"], "R.nn.relu6(data)")?;
                let Some(data) = given(&["data"], 0) else { return Ok(None) };
                let args = [self.expr(data)?, self.b.prim_value(&Dim::Int(0)), self.b.prim_value(&Dim::Int(6))];
                self.made("relax.clip", &args, &[], call).map(Some)
            }
            "linear" => {
                accept(call, LINEAR.len(), LINEAR, "R.linear(data, weight, bias, out_dtype)")?;
                let (Some(data), Some(weight)) = (given(LINEAR, 0), given(LINEAR, 1)) else { return Ok(None) };
                let data = self.expr(data)?;
                let weight = self.expr(weight)?;
                let dtype = given(LINEAR, 3).map(dtype_of).transpose()?;
                let dtype = dtype.map_or(Attr::None, |dtype| Attr::Str(dtype.to_string()));
                let weight = self.made("relax.permute_dims", &[weight], &[("axes", Attr::None)], call)?;
                let product = self.made("relax.matmul", &[data, weight], &[("out_dtype", dtype)], call)?;
                let Some(bias) = given(LINEAR, 2) else { return Ok(Some(product)) };
                let bias = self.expr(bias)?;
                self.made("relax.add", &[product, bias], &[], call).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Builds a call of an operator for a call in the source.
    fn made(&mut self, op: &str, args: &[V], attrs: &[(&str, Attr)], call: &'a ExprCall) -> Read<V> {
        let (callee, attrs) = (self.b.op(op), self.b.attrs(attrs.iter().cloned()));
        let v = self.b.call(callee, args, attrs, TypeId::NONE, false, None);
        let what = self.scope.text.get(span(&*call.func)).unwrap_or("the call");
        self.infer(v, span(call), what)
    }

    /// Adds the next default operand of TVM's Python function; for example, `R.arange(5)` is `R.arange(0, 5, 1)`.
    /// Returns true if a default was added.
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
            // TVM's values for omitted arguments.
            ("relax.memory.view", 1..=3) if !self.scope.as_written => {
                let (null, any) = (self.b.op("relax.null_value"), self.b.ty(&Type::Object));
                let nothing = match values.len() {
                    2 => self.b.call(null, &[], AttrsId::NONE, any, false, None),
                    _ => self.b.tuple(&[], None),
                };
                values.push(nothing);
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
            // A single extent is both height and width.
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
        for (name, value) in entries.iter_mut() {
            match (&*value, axes_of(op, name)) {
                (Attr::List(items), Some(n)) if items.len() == 1 => *value = Attr::list(vec![items[0].clone(); n]),
                (Attr::Float(scale), _) if *name == "scale" && op.starts_with("relax.nn.attention") => {
                    *value = Attr::Dim(Dim::float(*scale, DType::F32));
                }
                _ => {}
            }
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
