//! Prints constants: scalars inline, larger constants as metadata or as references to a file.

use super::func::Writer;
use super::text::python_float;
use passhost_lang::ir::constant::Number;
use passhost_lang::ir::records::tykind;
use passhost_lang::ir::{Constant, Expr, Type, Value};

/// Number of elements of the largest constant that is printed inline.
const FEW: usize = 64;

impl Writer<'_, '_, '_> {
    /// Prints a scalar inline, as in TVM, and a larger constant as metadata or as a reference to a file.
    pub(super) fn constant(&mut self, value: Value<'_>) {
        let (Some(constant), ty) = (value.as_constant(), value.ty()) else {
            return self.p.cannot("a constant without a fixed shape");
        };
        let number =
            scalar_text(&constant).or_else(|| list_text(&constant, &ty.to_owned()).filter(|_| self.p.with_values));
        match (number, ty.kind()) {
            (Some(number), tykind::DTENSOR) => {
                self.p.out.push_str(&format!("R.dist.const({number}, "));
                self.ty(ty);
                self.p.out.push(')');
            }
            (Some(number), _) => self.p.out.push_str(&format!("R.const({number}, \"{}\")", ty.dtype())),
            (None, _) => {
                let Expr::Const(tensor) = value.view() else { return };
                let said = ty.to_owned();
                let plain = said == Type::tensor(constant.shape().iter().copied(), constant.dtype());
                if plain && self.p.reference(tensor, &said) {
                    return;
                }
                match self.p.metadata.constant(tensor, &said) {
                    Some(index) => self.p.metadata_ref(crate::metadata::CONST, index),
                    None => self.p.cannot("a constant without a fixed shape"),
                }
            }
        }
    }
}

/// Returns the printed form of a scalar, for the data types whose values TVM prints.
fn scalar_text(constant: &Constant<'_>) -> Option<String> {
    let dtype = constant.dtype();
    let written = matches!((dtype.code(), dtype.bits()), (0 | 6, _) | (2, _));
    let number = constant.numbers().ok().filter(|_| written && constant.shape().is_empty())?.next()?;
    let mut out = String::new();
    push_number(&mut out, number);
    Some(out)
}

/// Prints a small constant as nested lists; `None` if these would not read back as the same constant.
fn list_text(constant: &Constant<'_>, ty: &Type) -> Option<String> {
    let shape = constant.shape();
    let plain = *ty == Type::tensor(shape.iter().copied(), constant.dtype());
    // Printed as a list, an empty constant would lose all dimensions after the first.
    let said = !shape.is_empty() && (shape == [0] || !constant.is_empty());
    let numbers: Vec<Number> = constant.numbers().ok().filter(|all| plain && said && all.len() <= FEW)?.collect();
    // There are many NaN values, but only one printed form.
    if numbers.iter().any(|number| matches!(number, Number::Float(v) if v.is_nan())) {
        return None;
    }
    let mut out = String::new();
    push_list(&mut out, &numbers, shape);
    Some(out)
}

/// Prints nested lists of a shape. An element opens one list for each list length that divides its index.
fn push_list(out: &mut String, numbers: &[Number], shape: &[i64]) {
    let mut lengths: Vec<usize> = shape.iter().rev().map(|dim| *dim as usize).collect();
    for at in 1..lengths.len() {
        lengths[at] *= lengths[at - 1];
    }
    let ends = |at: usize| lengths.iter().filter(|length| **length > 0 && at.is_multiple_of(**length)).count();
    if numbers.is_empty() {
        out.push_str("[]");
    }
    for (at, number) in numbers.iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        out.extend(std::iter::repeat_n('[', ends(at)));
        push_number(out, *number);
        out.extend(std::iter::repeat_n(']', ends(at + 1)));
    }
}

fn push_number(out: &mut String, number: Number) {
    match number {
        Number::Bool(v) => out.push_str(if v { "True" } else { "False" }),
        Number::Int(v) => out.push_str(&v.to_string()),
        Number::UInt(v) => out.push_str(&v.to_string()),
        Number::Float(v) => python_float(out, v),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use passhost_lang::ir::Array;

    fn text(array: &Array) -> Option<String> {
        list_text(&array.view(), &array.ty())
    }

    #[test]
    fn lists_have_the_shape() {
        let numbers = |shape: &[i64]| {
            let n = shape.iter().product::<i64>();
            text(&Array::new(shape, 0..n).expect("made"))
        };
        assert_eq!(numbers(&[3]).as_deref(), Some("[0, 1, 2]"));
        assert_eq!(numbers(&[1, 2]).as_deref(), Some("[[0, 1]]"));
        assert_eq!(numbers(&[2, 1, 2]).as_deref(), Some("[[[0, 1]], [[2, 3]]]"));
        assert_eq!(numbers(&[0]).as_deref(), Some("[]"));
        assert_eq!((numbers(&[2, 0]), numbers(&[0, 2]), numbers(&[])), (None, None, None), "no list says this");
        assert_eq!((numbers(&[64]).is_some(), numbers(&[65])), (true, None), "the metadata has what is large");
    }

    #[test]
    fn only_what_is_read_as_the_same_number_is_written() {
        let half = Array::new(&[2], [0.5f32, f32::INFINITY]).expect("made");
        assert_eq!(text(&half).as_deref(), Some("[0.5, float(\"inf\")]"));
        assert_eq!(text(&Array::new(&[1], [f32::NAN]).expect("made")), None, "which of them");
        assert_eq!(text(&Array::new(&[2], [true, false]).expect("made")).as_deref(), Some("[True, False]"));
    }
}
