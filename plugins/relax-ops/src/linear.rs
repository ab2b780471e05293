//! Matrix products.

use crate::declare::*;
use plugin_api::arith::prove_equal;
use plugin_api::ir::{Call, Dim, TensorType};
use plugin_api::metadata::{ArgKind, AttrType};
use plugin_api::typing::operators::{DefaultDecl, OpDecl};
use std::collections::BTreeMap;

pub(crate) const OPERATORS: &[OpDecl] = &[
    op(
        "relax.matmul",
        documented!(
            "Matrix product over the last two axes, with broadcasting of all other axes; a one-dimensional tensor is a vector.",
            "the broadcast leading axes, then the rows of `x1` and the columns of `x2`; elements of `out_dtype`, by default of the operands' data type",
            r#"x1: R.Tensor((8, 2, 3), "float32"), x2: R.Tensor((3, 4), "float32")"#,
            "R.matmul(x1, x2)",
            r#"R.Tensor((8, 2, 4), "float32")"#
        ),
        X1_X2,
        &[attr_or("out_dtype", AttrType::DType, DefaultDecl::None)],
        matmul,
    ),
    op(
        "relax.outer",
        documented!(
            "Products of each element of the first vector with each element of the second vector.",
            "the lengths of both vectors, with their data type",
            r#"x1: R.Tensor((4,), "float32"), x2: R.Tensor((5,), "float32")"#,
            "R.outer(x1, x2)",
            r#"R.Tensor((4, 5), "float32")"#
        ),
        X1_X2,
        &[],
        outer,
    ),
    op(
        "relax.einsum",
        documented!(
            "Sum of products, with dimensions named by letters; `...` denotes the broadcast dimensions.",
            "the dimensions of the letters after `->`; without `->`, the dimensions of `...`, then the dimensions of the letters that appear once, in order",
            r#"a: R.Tensor((2, 3), "float32"), b: R.Tensor((3, 4), "float32")"#,
            r#"R.einsum((a, b), subscripts="ij,jk->ik")"#,
            r#"R.Tensor((2, 4), "float32")"#
        ),
        &[arg("operands", ArgKind::Tuple)],
        &[attr("subscripts", AttrType::Str)],
        einsum,
    ),
];

fn matmul(call: Call<'_>) -> Inferred {
    let (a, b) = (tensor(call, 0)?, tensor(call, 1)?);
    let dtype = match asked_dtype(call, "out_dtype") {
        Some(dtype) => dtype,
        None => same_dtype(a.dtype, b.dtype)?,
    };
    let vdevice = same_device(&a, &b)?;
    if a.ndim == 0 || b.ndim == 0 {
        return wrong("the matrix product needs tensors with dimensions".to_string());
    }
    let ndim = match (a.ndim, b.ndim) {
        (x, y) if x < 0 || y < 0 => -1,
        (1, 1) => 0,
        (1, n) | (n, 1) => n - 1,
        (x, y) => x.max(y),
    };
    let like = TensorType { dtype, ndim, shape: None, vdevice };
    let unknown = with_shape(&like, ndim, None);
    let (Some(x), Some(y)) = (&a.shape, &b.shape) else { return Ok(unknown) };
    let (rows, inner) = match x.as_slice() {
        [inner] => (None, inner),
        [.., rows, inner] => (Some(rows), inner),
        [] => return Ok(unknown),
    };
    let (inner2, columns) = match y.as_slice() {
        [inner] => (inner, None),
        [.., inner, columns] => (inner, Some(columns)),
        [] => return Ok(unknown),
    };
    if prove_equal(inner, inner2) == Some(false) {
        return wrong(format!(
            "the first tensor has {} columns, but the second has {} rows",
            show(inner),
            show(inner2)
        ));
    }
    let outer = |dims: &'_ [Dim]| dims[..dims.len().saturating_sub(2)].to_vec();
    let Some(mut dims) = broadcast(&outer(x), &outer(y))? else { return Ok(unknown) };
    dims.extend(rows.into_iter().chain(columns).cloned());
    Ok(with_shape(&like, ndim, Some(dims)))
}

fn outer(call: Call<'_>) -> Inferred {
    let (a, b) = (tensor(call, 0)?, tensor(call, 1)?);
    if a.ndim != 1 || b.ndim != 1 {
        return wrong(format!("needs two vectors, found {} and {} dimensions", a.ndim, b.ndim));
    }
    let like = TensorType { dtype: same_dtype(a.dtype, b.dtype)?, ndim: 2, shape: None, vdevice: same_device(&a, &b)? };
    let dims = a.shape.zip(b.shape).map(|(a, b)| a.into_iter().chain(b).collect());
    Ok(with_shape(&like, 2, dims))
}

/// The axis names of the operands and of the result of an einsum.
pub(crate) struct Subscripts {
    pub(crate) inputs: Vec<Vec<char>>,
    pub(crate) output: Vec<char>,
}

/// Returns the name of an axis that `...` covers, counted from the last axis. No subscripts contain this name.
fn unnamed(from_the_end: usize) -> char {
    u32::try_from(from_the_end).ok().and_then(|n| char::from_u32(0xE000 + n)).unwrap_or('\u{E000}')
}

fn called(name: char) -> String {
    if ('\u{E000}'..='\u{F8FF}').contains(&name) { "an axis of `...`".to_string() } else { format!("`{name}`") }
}

impl Subscripts {
    /// Returns the subscripts of a call whose operands have `ndims` dimensions, or `None` if `...` covers an unknown
    /// number of axes. Without `->`, the result has the axes of `...`, then the letters that occur once, in order.
    pub(crate) fn of_call(call: Call<'_>, ndims: &[Option<usize>]) -> Result<Option<Subscripts>, String> {
        let subscripts = text(call, "subscripts").unwrap_or_default().replace(' ', "");
        let (inputs, output) = subscripts.split_once("->").map_or((subscripts.as_str(), None), |(i, o)| (i, Some(o)));
        let terms: Vec<&str> = inputs.split(',').collect();
        if terms.len() != ndims.len() {
            return Err(format!("\"{subscripts}\" names {} operands, found {}", terms.len(), ndims.len()));
        }
        let (mut inputs, mut most) = (Vec::new(), 0);
        for (term, ndim) in terms.iter().zip(ndims) {
            let letters = term.replacen("...", "", 1);
            if letters.contains('.') {
                return Err(format!("\"{term}\" has dots that do not form `...`"));
            }
            if letters.len() == term.len() {
                if let Some(ndim) = ndim.filter(|ndim| *ndim != term.len()) {
                    return Err(format!("\"{term}\" names {} dimensions, but the operand has {ndim}", term.len()));
                }
                inputs.push(term.chars().collect());
                continue;
            }
            let Some(ndim) = ndim else { return Ok(None) };
            let Some(more) = ndim.checked_sub(letters.len()) else {
                return Err(format!(
                    "\"{term}\" names at least {} dimensions, but the operand has {ndim}",
                    letters.len()
                ));
            };
            most = most.max(more);
            inputs.push(expanded(term, more));
        }
        let output = match output {
            Some(output) if most > 0 && !output.contains("...") => {
                return Err(format!(
                    "the result \"{output}\" must contain `...`, because the operands have axes for it"
                ));
            }
            Some(output) => expanded(output, most),
            None => {
                let all: Vec<char> = inputs.iter().flatten().copied().collect();
                let once = |name: &char| all.iter().filter(|other| *other == name).count() == 1;
                let mut letters: Vec<char> =
                    all.iter().filter(|name| name.is_alphabetic() && once(name)).copied().collect();
                letters.sort_unstable();
                (0..most).rev().map(unnamed).chain(letters).collect()
            }
        };
        Ok(Some(Subscripts { inputs, output }))
    }
}

/// Returns the axis names of a term in which `...` covers `axes` axes.
fn expanded(term: &str, axes: usize) -> Vec<char> {
    let (before, after) = term.split_once("...").unwrap_or((term, ""));
    let axes = if before.len() == term.len() { 0 } else { axes };
    before.chars().chain((0..axes).rev().map(unnamed)).chain(after.chars()).collect()
}

/// Infers an einsum. An axis name has the same length in all operands.
fn einsum(call: Call<'_>) -> Inferred {
    let operands = tensors(call, 0)?;
    let Some(first) = operands.first() else { return wrong("needs at least one tensor".to_string()) };
    let mut dtype = first.dtype;
    for t in &operands {
        dtype = same_dtype(dtype, t.dtype)?;
    }
    let like = TensorType { dtype, ..first.clone() };
    let ndims: Vec<Option<usize>> = operands.iter().map(|t| usize::try_from(t.ndim).ok()).collect();
    let Subscripts { inputs, output } = match Subscripts::of_call(call, &ndims) {
        Ok(Some(subscripts)) => subscripts,
        Ok(None) => return Ok(with_shape(&like, -1, None)),
        Err(why) => return wrong(why),
    };
    let mut sizes: BTreeMap<char, Dim> = BTreeMap::new();
    let mut known = true;
    for (names, t) in inputs.iter().zip(&operands) {
        let Some(dims) = &t.shape else {
            known = false;
            continue;
        };
        for (name, dim) in names.iter().zip(dims) {
            match sizes.get(name).map(|size| (size, prove_equal(size, dim))) {
                Some((size, Some(false))) if size.as_int() != Some(1) && dim.as_int() != Some(1) => {
                    let (size, dim) = (show(size), show(dim));
                    return wrong(format!("{} is {size} in one operand and {dim} in another", called(*name)));
                }
                Some((size, _)) if size.as_int() != Some(1) => {}
                _ => {
                    sizes.insert(*name, dim.clone());
                }
            }
        }
    }
    let ndim = output.len() as i32;
    let dims = if known { output.iter().map(|name| sizes.get(name).cloned()).collect() } else { None };
    Ok(with_shape(&like, ndim, dims))
}
