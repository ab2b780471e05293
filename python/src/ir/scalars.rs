//! Maps scalar operations between their numbers in records and their classes.

use crate::ir::classes::{Classes, Kind};
use passhost::plugin_api::ir::records::prim;
use pyo3::prelude::*;
use pyo3::types::PyType;

macro_rules! operations {
    ($($number:ident $kind:ident $field:ident;)*) => {
        /// Returns the class of a binary scalar operation.
        pub(crate) fn class_of(classes: &Classes, number: u16) -> Option<&Py<PyType>> {
            Some(match number {
                $(prim::$number => &classes.$field,)*
                prim::TRUNCDIV => &classes.div,
                _ => return None,
            })
        }

        /// Returns the number of the binary scalar operation that an object represents.
        pub(crate) fn number_of(kind: Kind) -> Option<u16> {
            Some(match kind {
                $(Kind::$kind => prim::$number,)*
                _ => return None,
            })
        }
    };
}

operations! {
    ADD Add add;
    SUB Sub sub;
    MUL Mul mul;
    FLOORDIV FloorDiv floor_div;
    FLOORMOD FloorMod floor_mod;
    TRUNCMOD Mod mod_;
    MIN Min min;
    MAX Max max;
    EQ Eq eq;
    NE Ne ne;
    LT Lt lt;
    LE Le le;
    GT Gt gt;
    GE Ge ge;
    AND And and;
    OR Or or;
    DIV Div div;
    SHL LShift shl;
    SHR RShift shr;
    BITAND BitwiseAnd bit_and;
    BITOR BitwiseOr bit_or;
    BITXOR BitwiseXor bit_xor;
}
