//! Generates types, dimensions, tensors and attributes.

use super::Choices;
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;

/// Data types of tensors and buffers.
pub(super) const DTYPES: &[&str] = &[
    "float32",
    "int64",
    "bool",
    "int32",
    "float16",
    "float64",
    "int8",
    "uint8",
    "bfloat16",
    "int16",
    "uint16",
    "uint32",
    "uint64",
    "float8_e4m3fn",
    "float8_e5m2",
];

/// Returns the data type named `name`.
pub(super) fn dtype(name: &str) -> DType {
    name.parse().expect("a data type")
}

pub(super) fn any_dtype(c: &Choices<'_>) -> DType {
    dtype(DTYPES[c.below(DTYPES.len())])
}

/// Returns a dimension over symbolic variables: a number, a variable, or an expression of both, which is not folded.
pub(super) fn dim(c: &Choices<'_>, syms: &[Dim]) -> Dim {
    if syms.is_empty() || c.below(3) == 0 {
        return Dim::Int(c.of(&[2, 4, 1, 3, 8, 16]));
    }
    let sym = syms[c.below(syms.len())].clone();
    let number = Dim::Int(c.within(2, 9));
    match c.below(11) {
        0..=4 => sym,
        5 => Dim::binary(PrimOp::Add, sym, number),
        6 => Dim::binary(PrimOp::Mul, sym, number),
        7 => Dim::binary(PrimOp::FloorDiv, sym, number),
        8 => Dim::binary(PrimOp::Min, sym, number),
        9 => Dim::if_then_else(Dim::binary(PrimOp::Gt, sym.clone(), number.clone()), sym, number),
        _ => Dim::binary(PrimOp::Mul, Dim::binary(PrimOp::Sub, sym, number), Dim::Int(c.within(2, 5))),
    }
}

/// Returns the dimensions of a tensor.
pub(super) fn dims(c: &Choices<'_>, syms: &[Dim]) -> Vec<Dim> {
    (0..c.of(&[2, 1, 0, 3, 4])).map(|_| dim(c, syms)).collect()
}

/// Returns a constant of static shape with random content.
pub(super) fn tensor(c: &Choices<'_>, shape: &[i64], dtype: DType) -> Tensor {
    let n = shape.iter().product::<i64>() as usize * dtype.bytes();
    let byte = |_| if dtype == DType::BOOL { c.byte() & 1 } else { c.byte() & 0x3b };
    Tensor::new(&(0..n).map(byte).collect::<Vec<u8>>())
}

/// Returns a string with characters that are hard to quote.
pub(super) fn text(c: &Choices<'_>) -> String {
    let words = ["a", "name", "", "two words", "a \"quote\"", "back\\slash", "ünï", "x.y:z", "#", "{}", "tab\t"];
    c.of(&words).to_string()
}

const KEYS: &[&str] = &["num_input", "op_pattern", "Composite", "a.b", "key", "tirx.noalias", "relax.force_pure_", "z"];

/// Returns an attribute without values of the function.
pub(super) fn attr(c: &Choices<'_>, depth: usize) -> Attr {
    match c.below(if depth == 0 { 4 } else { 6 }) {
        0 => Attr::Int(c.of(&[1, 0, -1, 7, 1 << 40])),
        1 => Attr::Str(text(c)),
        2 => Attr::Bool(c.coin()),
        3 => Attr::Float(c.of(&[0.5, -1.25, 3.0, 1e-5, 1e30])),
        4 => Attr::List((0..c.below(3)).map(|_| attr(c, depth - 1)).collect()),
        _ => Attr::Dict(entries(c, depth - 1).into()),
    }
}

/// Returns attributes with unique keys, sorted by key.
pub(super) fn entries(c: &Choices<'_>, depth: usize) -> Vec<(String, Attr)> {
    let mut found: Vec<(String, Attr)> = Vec::new();
    for _ in 0..1 + c.below(3) {
        let key = c.of(KEYS);
        if found.iter().all(|(known, _)| known != key) {
            found.push((key.to_string(), attr(c, depth)));
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}
