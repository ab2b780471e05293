//! PyTorch's type promotion: the data type in which an operator computes. Tensors with dimensions take precedence over tensors of rank 0,
//! and these over numbers, unless the type of the latter is of a higher kind. The kinds are, in ascending order, truth values, integers and
//! floats.

use importer::known::Elem;
use importer::tensor::T;
use plugin_api::prelude::*;

/// An operand of an elementwise operator.
#[derive(Clone)]
pub(crate) enum Operand {
    Tensor(T),
    Number(Elem),
    Bool(bool),
}

/// Returns the kind of a data type: 0 for truth values, 1 for integers, 2 for floats.
fn kind(dtype: DType) -> u8 {
    match dtype {
        DType::BOOL => 0,
        _ if dtype.is_float() => 2,
        _ => 1,
    }
}

/// Returns the smallest data type that represents the values of both.
pub(crate) fn common(a: DType, b: DType) -> DType {
    let (a, b) = if kind(a) < kind(b) || (kind(a) == kind(b) && a.bits() < b.bits()) { (b, a) } else { (a, b) };
    match (a, b) {
        _ if a == b || kind(a) > kind(b) => a,
        (DType::F16, DType::BF16) | (DType::BF16, DType::F16) => DType::F32,
        _ if kind(a) == 2 => a,
        // An unsigned type and a signed type that does not contain it.
        _ if a.bits() == b.bits() => match a.bits() {
            8 => DType::I16,
            16 => DType::I32,
            _ => DType::I64,
        },
        (DType::U16, DType::I8) => DType::I32,
        _ => a,
    }
}

/// Combines a type with a type that counts only if it is of a higher kind.
fn decided(first: Option<DType>, second: Option<DType>) -> Option<DType> {
    match (first, second) {
        (Some(a), Some(b)) if kind(a) < kind(b) => Some(common(a, b)),
        (Some(a), _) => Some(a),
        (None, b) => b,
    }
}

/// Returns the data type in which an operator with these operands computes.
pub(crate) fn result(operands: &[&Operand]) -> DType {
    let (mut dims, mut zero, mut number): (Option<DType>, Option<DType>, Option<DType>) = (None, None, None);
    for operand in operands {
        let (place, dtype) = match operand {
            Operand::Tensor(x) if x.rank().is_ok_and(|rank| rank == 0) => (&mut zero, x.dtype()),
            Operand::Tensor(x) => (&mut dims, x.dtype()),
            Operand::Number(Elem::Int(_)) => (&mut number, DType::I64),
            Operand::Number(_) => (&mut number, DType::F32),
            Operand::Bool(_) => (&mut number, DType::BOOL),
        };
        *place = Some(place.map_or(dtype, |other| common(other, dtype)));
    }
    decided(dims, decided(zero, number)).unwrap_or(DType::F32)
}

/// Returns the data type in which an operator with float results computes.
pub(crate) fn float(dtype: DType) -> DType {
    if dtype.is_float() { dtype } else { DType::F32 }
}
