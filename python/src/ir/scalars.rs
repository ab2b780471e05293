//! Maps scalar operations between their numbers in records and their classes.

use crate::ir::classes::{Classes, Kind};
use passhost::plugin_api::scalar::PrimOp;
use pyo3::prelude::*;
use pyo3::types::PyType;

macro_rules! operations {
    ($($number:ident $kind:ident $field:ident;)*) => {
        /// Returns the class of a binary scalar operation.
        pub(crate) fn class_of(classes: &Classes, number: PrimOp) -> Option<&Py<PyType>> {
            Some(match number {
                $(PrimOp::$number => &classes.$field,)*
                PrimOp::TruncDiv => &classes.div,
                _ => return None,
            })
        }

        /// Returns the number of the binary scalar operation that an object represents.
        pub(crate) fn number_of(kind: Kind) -> Option<PrimOp> {
            Some(match kind {
                $(Kind::$kind => PrimOp::$number,)*
                _ => return None,
            })
        }
    };
}

operations! {
    Add Add add;
    Sub Sub sub;
    Mul Mul mul;
    FloorDiv FloorDiv floor_div;
    FloorMod FloorMod floor_mod;
    TruncMod Mod mod_;
    Min Min min;
    Max Max max;
    Eq Eq eq;
    Ne Ne ne;
    Lt Lt lt;
    Le Le le;
    Gt Gt gt;
    Ge Ge ge;
    And And and;
    Or Or or;
    Div Div div;
    Shl LShift shl;
    Shr RShift shr;
    BitAnd BitwiseAnd bit_and;
    BitOr BitwiseOr bit_or;
    BitXor BitwiseXor bit_xor;
}
