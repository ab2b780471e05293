//! The Relax virtual machine. It executes functions of a module, binding by binding, and frees each value after its
//! last use.
//!
//! A [`Machine`] calls PrimFuncs through [`Kernels`], which prepares each of them once; operators that are not yet
//! legalized through a [`Lower`]; and packed functions by name through [`Packed`]. It notifies an [`Observer`]
//! before and after each binding. A [`Failure`] contains a [`Cause`] and the calls that led to it.

mod bind;
mod calls;
mod count;
mod failure;
mod inputs;
mod kernels;
mod lowered;
mod machine;
mod observe;
mod packed;
mod plan;
mod symbols;
#[cfg(test)]
mod tests;
mod value;

pub use count::calls_of;
pub use failure::{At, Cause, Failure, NO_LEGALIZATION};
pub use inputs::{Between, Bounds, InputError, InputRange, Inputs, NUM_INPUT, USUAL_EXTENT};
pub use kernels::Kernels;
pub use lowered::{Lower, NoLegalization};
pub use machine::{DEEPEST, Machine};
pub use observe::{Binding, Observer};
pub use packed::{Filling, Packed, Returning, Writing};
pub use value::{Closure, DEEPEST_VALUE, Piece, Scalar, Tuple, Value, number_text, shape_text};
