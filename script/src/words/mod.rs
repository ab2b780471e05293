//! Shared by reading and printing: the spelling of names, the syntax of paths, TIR operators, TVM's constant folding,
//! virtual devices, diagnostics, and access to Relax operators.

pub(crate) mod devices;
pub(crate) mod diagnostic;
pub(crate) mod dtypes;
pub(crate) mod folding;
pub(crate) mod literals;
pub(crate) mod operators;
pub(crate) mod spelling;
pub(crate) mod syntax;
pub(crate) mod tir_ops;
pub(crate) mod versions;
