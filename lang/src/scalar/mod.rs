//! The single home of data types, elements, operations, intrinsics and linear forms.
//!
//! | to add | edit |
//! |---|---|
//! | a data type | its row in `dtype`; for computations, also [`Scalar`] and its Rust type in `element` |
//! | a function of one or two floats | `operation`, its row in `intrinsic`, and its implementation in `runtime/src/math.rs` |
//! | any other intrinsic | its row in `intrinsic` |
//!
//! Other crates look up rows. They may contain functions for rows, but no lists of data types or intrinsics (test
//! `tests/tests/layering.rs::numbers_have_one_home`).

mod computed;
mod dtype;
mod element;
mod format;
mod half;
mod intrinsic;
mod linear;
mod op;
mod operation;

pub use computed::{LlvmTypes, Scalar};
pub use dtype::{DType, DTypeInfo, UnknownDType};
pub use element::{AsElement, Element, Number, map_elements, number_of, word_of};
pub(crate) use element::{access, holds_all};
pub use format::Format;
pub use half::{Bf16, F16};
pub use intrinsic::{Computes, DTypePlace, Effect, Intrinsic, ResultRule};
pub use linear::{Coefficient, Linear, Split, ratio};
pub use op::PrimOp;
pub use operation::{Binary, Math, Unary};
