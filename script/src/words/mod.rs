//! What reading and printing share: how names are spelt, operators of TIR, what TVM computes while it reads, virtual devices,
//! diagnostics, and who knows the operators of Relax.

pub(crate) mod devices;
pub(crate) mod diagnostic;
pub(crate) mod dtypes;
pub(crate) mod float8;
pub(crate) mod folding;
pub(crate) mod literals;
pub(crate) mod operators;
pub(crate) mod spelling;
pub(crate) mod tir_ops;
pub(crate) mod versions;
