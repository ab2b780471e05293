//! Writes the graph of the objects referred to by the printed module.

use super::weights::LARGE;
use super::{CONST, MAGIC, PLAIN_STRING, STRING, TENSOR, TYPE, base64};
use passhost_lang::ir::{DType, Tensor, Type};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

/// The data of a node.
enum Data {
    /// JSON.
    Text(String),
    /// A tensor, which is encoded only when it is written.
    Tensor(Tensor, DType, Vec<i64>),
}

/// Collects objects, and numbers them in order of insertion.
#[derive(Default)]
pub(crate) struct Writer {
    nodes: Vec<(&'static str, Data)>,
    /// Nodes by content; equal nodes are written once.
    known: HashMap<(&'static str, String), usize>,
    tables: BTreeMap<&'static str, Vec<usize>>,
    /// Numbers of nodes in their tables.
    entries: HashMap<(&'static str, usize), usize>,
    /// Numbers of tensors in their tables, by content, type and table.
    tensors: HashMap<(u64, u64, Type, &'static str), usize>,
    /// Length of the data of all tensors.
    data: usize,
}

impl Writer {
    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Returns true if the data of all tensors together is as large as a constant that is printed as a reference.
    pub(crate) fn is_large(&self) -> bool {
        self.data >= LARGE
    }

    /// Returns the number of a Relax constant; `None` if its type cannot be represented in the graph.
    pub(crate) fn constant(&mut self, tensor: &Tensor, ty: &Type) -> Option<usize> {
        self.tensor_in(CONST, tensor, ty)
    }

    /// Returns the number of a tensor attribute.
    pub(crate) fn tensor(&mut self, tensor: &Tensor, ty: &Type) -> Option<usize> {
        self.tensor_in(TENSOR, tensor, ty)
    }

    /// Returns the number of an unknown type.
    pub(crate) fn unknown_type(&mut self) -> usize {
        let none = self.none();
        let node = self.node(TYPE, object(&[("span", none)]));
        self.entry(TYPE, node)
    }

    /// Returns the number of a string expression.
    pub(crate) fn string(&mut self, text: &str) -> usize {
        let none = self.none();
        let ty = self.node("ir.StringType", object(&[("span", none)]));
        let value = self.node(PLAIN_STRING, json_string(text));
        let node = self.node(STRING, object(&[("span", none), ("ty", ty), ("value", value)]));
        self.entry(STRING, node)
    }

    /// Returns the number of a string attribute.
    pub(crate) fn plain_string(&mut self, text: &str) -> usize {
        let node = self.node(PLAIN_STRING, json_string(text));
        self.entry(PLAIN_STRING, node)
    }

    /// Returns the number of a node in a table; adds the node if necessary.
    fn entry(&mut self, table: &'static str, node: usize) -> usize {
        let list = self.tables.entry(table).or_default();
        *self.entries.entry((table, node)).or_insert_with(|| {
            list.push(node);
            list.len() - 1
        })
    }

    fn tensor_in(&mut self, table: &'static str, tensor: &Tensor, ty: &Type) -> Option<usize> {
        let (lo, hi) = tensor.hash128();
        if let Some(known) = self.tensors.get(&(lo, hi, ty.clone(), table)) {
            return Some(*known);
        }
        let of = ty.as_tensor().filter(|of| of.vdevice.is_none())?;
        let dims: Vec<i64> = of.shape.as_ref()?.iter().map(|dim| dim.as_int()).collect::<Option<_>>()?;
        // The type comes first, because a node must precede the nodes that refer to it.
        let said = (table == CONST).then(|| self.tensor_type(of.dtype, &dims));
        self.nodes.push((TENSOR, Data::Tensor(tensor.clone(), of.dtype, dims)));
        let mut node = self.nodes.len() - 1;
        if let Some(said) = said {
            let none = self.none();
            node = self.node(CONST, object(&[("span", none), ("ty", said), ("value", node)]));
        }
        self.data = self.data.saturating_add(tensor.bytes().len());
        let list = self.tables.entry(table).or_default();
        list.push(node);
        let at = list.len() - 1;
        self.tensors.insert((lo, hi, ty.clone(), table), at);
        Some(at)
    }

    fn tensor_type(&mut self, dtype: DType, dims: &[i64]) -> usize {
        let none = self.none();
        let int64 = self.prim_type(DType::I64);
        let values: Vec<usize> = dims
            .iter()
            .map(|dim| {
                let value = self.node("int", dim.to_string());
                self.node("ir.IntImm", object(&[("span", none), ("ty", int64), ("value", value)]))
            })
            .collect();
        let values = self.node("ffi.Array", list(&values));
        let ty = self.node("relax.ShapeType", object(&[("span", none), ("values", values), ("ndim", dims.len())]));
        let shape = self.node("relax.expr.ShapeExpr", object(&[("span", none), ("ty", ty), ("values", values)]));
        let dtype = self.prim_type(dtype);
        let fields = [("span", none), ("shape", shape), ("dtype", dtype), ("vdevice", none), ("ndim", dims.len())];
        self.node("relax.TensorType", object(&fields))
    }

    fn prim_type(&mut self, dtype: DType) -> usize {
        let none = self.none();
        self.node("ir.PrimType", format!("{{\n        \"span\": {none},\n        \"dtype\": \"{dtype}\"\n      }}"))
    }

    fn none(&mut self) -> usize {
        self.node("None", String::new())
    }

    fn node(&mut self, ty: &'static str, data: String) -> usize {
        if let Some(known) = self.known.get(&(ty, data.clone())) {
            return *known;
        }
        self.nodes.push((ty, Data::Text(data.clone())));
        self.known.insert((ty, data), self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    /// Appends the statement that loads the graph.
    pub(crate) fn write(mut self, out: &mut String) {
        let tables = std::mem::take(&mut self.tables);
        let mut pairs = Vec::new();
        for (key, items) in tables {
            pairs.push(self.node(PLAIN_STRING, json_string(key)));
            pairs.push(self.node("ffi.Array", list(&items)));
        }
        let root = self.node("ffi.Map", list(&pairs));
        out.push_str("metadata = tvm.ir.load_json(\"\"\"");
        escape(out, &format!("{{\n  \"root_index\": {root},\n  \"nodes\": [\n"));
        for (i, (ty, data)) in self.nodes.iter().enumerate() {
            escape(out, &format!("{}    {{\n      \"type\": \"{ty}\"", if i > 0 { ",\n" } else { "" }));
            match data {
                Data::Text(text) if text.is_empty() => {}
                Data::Text(text) => {
                    escape(out, ",\n      \"data\": ");
                    escape(out, text);
                }
                Data::Tensor(tensor, dtype, dims) => {
                    escape(out, ",\n      \"data\": \"");
                    tensor_text(out, tensor, *dtype, dims);
                    escape(out, "\"");
                }
            }
            out.push_str("\n    }");
        }
        escape(out, "\n  ],\n  \"metadata\": {\n    \"tvm_version\": \"0.27.0.post1\"\n  }\n}");
        out.push_str("\"\"\")\n");
    }
}

/// Escapes a string for a Python string literal.
fn escape(out: &mut String, text: &str) {
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
}

fn tensor_text(out: &mut String, tensor: &Tensor, dtype: DType, dims: &[i64]) {
    let bytes = tensor.bytes();
    let mut header = Vec::with_capacity(48 + dims.len() * 8);
    header.extend(MAGIC.to_le_bytes());
    header.extend(0u64.to_le_bytes());
    // The device type of the CPU, and its number.
    header.extend(1u32.to_le_bytes());
    header.extend(0u32.to_le_bytes());
    header.extend((dims.len() as u32).to_le_bytes());
    header.extend(dtype.0.to_le_bytes());
    dims.iter().for_each(|dim| header.extend(dim.to_le_bytes()));
    header.extend((bytes.len() as u64).to_le_bytes());
    // The length of every chunk except the last must be a multiple of three.
    let fill = ((3 - header.len() % 3) % 3).min(bytes.len());
    header.extend_from_slice(&bytes[..fill]);
    base64::encode(out, &header);
    base64::encode(out, &bytes[fill..]);
}

fn object(fields: &[(&str, usize)]) -> String {
    let mut out = "{".to_string();
    for (i, (key, node)) in fields.iter().enumerate() {
        let _ = write!(out, "{}\n        \"{key}\": {node}", if i > 0 { "," } else { "" });
    }
    out.push_str("\n      }");
    out
}

fn list(items: &[usize]) -> String {
    let mut out = "[".to_string();
    for (i, item) in items.iter().enumerate() {
        let _ = write!(out, "{}\n        {item}", if i > 0 { "," } else { "" });
    }
    out.push_str("\n      ]");
    out
}

fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
