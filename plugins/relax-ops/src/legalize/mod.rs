//! Legalizations of operator calls to PrimFuncs. Each operator has one row in a table; functions that several rows use
//! follow the table.
//!
//! Names of functions and blocks, and the order of operations, match TVM 0.27, so that schedules and patterns written
//! for its output also apply here.

mod attention;
mod blocks;
mod conv;
mod create;
mod elementwise;
mod image;
mod index;
mod layout;
mod nn;
mod norm;
mod pool;
mod reduce;
mod scatter;
mod shape;
mod vision;

use crate::declare::number;
use plugin_api::ir::{Attr, AttrView, Call, DType, Dim, DimExpr, Type};
use plugin_api::typing::legalized::Legalized;
use plugin_api::typing::operators::{InferError, LegalizeFn, OpDecl};

/// An operator name and its legalization.
type Row = (&'static str, LegalizeFn);
/// The result of a legalization.
type Legal = Result<Legalized, InferError>;

const TABLES: [&[Row]; 14] = [
    elementwise::ROWS,
    create::ROWS,
    shape::ROWS,
    index::ROWS,
    reduce::ROWS,
    nn::ROWS,
    conv::ROWS,
    pool::ROWS,
    norm::ROWS,
    attention::ROWS,
    layout::ROWS,
    image::ROWS,
    scatter::ROWS,
    vision::ROWS,
];

/// Adds legalizations to operators. A row for an unknown operator does not compile.
pub(crate) const fn with_legalizations<const N: usize>(mut operators: [OpDecl; N]) -> [OpDecl; N] {
    let mut table = 0;
    while table < TABLES.len() {
        let mut row = 0;
        while row < TABLES[table].len() {
            let (name, legalize) = TABLES[table][row];
            let at = position(&operators, name);
            operators[at].legalize = Some(legalize);
            row += 1;
        }
        table += 1;
    }
    operators
}

const fn position(operators: &[OpDecl], name: &str) -> usize {
    let mut at = 0;
    while at < operators.len() {
        if same(operators[at].name.as_bytes(), name.as_bytes()) {
            return at;
        }
        at += 1;
    }
    panic!("a legalization is for an operator of the plugin")
}

/// Returns true if two names are equal. Names usually differ at their ends, so the comparison starts there.
const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut i = a.len();
    while i > 0 {
        i -= 1;
        if a[i] != b[i] {
            return false;
        }
    }
    true
}

/// Returns the error for a call that cannot be legalized.
fn cannot<T>(why: impl Into<String>) -> Result<T, InferError> {
    Err(InferError::wrong(why))
}

/// Returns an argument that is a known integer.
fn int_arg(call: Call<'_>, i: usize) -> Option<i64> {
    match call.arg(i)?.ty().to_owned() {
        Type::Prim { value: Some(dim), .. } => dim.as_int(),
        _ => None,
    }
}

/// Returns an argument that is a known number.
fn number_arg(call: Call<'_>, i: usize) -> Option<Known> {
    match call.arg(i)?.ty().to_owned() {
        Type::Prim { value: Some(Dim::Expr(expr)), .. } => match *expr {
            DimExpr::Float(bits, _) => Some(Known::Float(f64::from_bits(bits))),
            DimExpr::Int(value, DType::U64) => Some(Known::Int(i128::from(value as u64))),
            DimExpr::Int(value, _) => Some(Known::Int(value.into())),
            _ => None,
        },
        Type::Prim { value: Some(dim), .. } => dim.as_int().map(|value| Known::Int(value.into())),
        _ => None,
    }
}

/// A known number.
#[derive(Clone, Copy)]
enum Known {
    Int(i128),
    Float(f64),
}

/// Returns the dimensions of the result of a call.
fn result_shape(call: Call<'_>) -> Result<Vec<Dim>, InferError> {
    match call.ty().to_owned() {
        Type::Tensor(ty) => ty.shape.ok_or_else(|| InferError::wrong("the shape of its result is unknown")),
        _ => cannot("its result is not a tensor"),
    }
}

/// Returns the dimensions in an argument that is a tuple of scalars.
fn dims(call: Call<'_>, i: usize) -> Result<Vec<Dim>, InferError> {
    let unknown = || InferError::wrong(format!("argument {i} contains numbers that are not known"));
    let tuple = call.arg(i).ok_or_else(unknown)?;
    let Type::Tuple(fields) = tuple.ty().to_owned() else { return Err(unknown()) };
    let each = fields.into_iter().map(|field| match field {
        Type::Prim { value: Some(dim), .. } => Ok(dim),
        _ => Err(unknown()),
    });
    each.collect()
}

/// Returns the numbers in an argument that is a tuple of constant scalars.
fn numbers(call: Call<'_>, i: usize) -> Result<Vec<i64>, InferError> {
    let unknown = || InferError::wrong(format!("argument {i} contains numbers that are not constant"));
    dims(call, i).map_err(|_| unknown())?.iter().map(|dim| dim.as_int().ok_or_else(unknown)).collect()
}

/// Returns a numeric attribute of a call.
fn float_attr(call: Call<'_>, key: &str) -> Option<f64> {
    number_of(call.attr(key)?)
}

/// Converts an attribute to a number.
fn number_of(attr: AttrView<'_>) -> Option<f64> {
    attr.as_float().or_else(|| attr.as_int().map(|value| value as f64)).or_else(|| match attr.to_owned() {
        Attr::Dim(dim) => number(&dim),
        _ => None,
    })
}

/// Normalizes an axis, which counts from the end if negative.
fn axis_of(axis: i64, ndim: usize) -> usize {
    (if axis < 0 { axis + ndim as i64 } else { axis }).clamp(0, ndim as i64) as usize
}

/// Returns the dimensions of each result of a call.
fn result_shapes(call: Call<'_>) -> Result<Vec<Vec<Dim>>, InferError> {
    let unknown = || InferError::wrong("the shapes of its results are unknown");
    let Type::Tuple(fields) = call.ty().to_owned() else { return cannot("its result is not a tuple") };
    let shape = |ty: &Type| match ty {
        Type::Tensor(ty) => ty.shape.clone().ok_or_else(unknown),
        _ => Err(unknown()),
    };
    fields.iter().map(shape).collect()
}
