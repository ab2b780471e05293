//! The Relax virtual machine: executes functions of a module, binding by binding, and frees each value after its last use.
//!
//! A [`Machine`] calls PrimFuncs through [`Kernels`], which prepares each of them once; operators that are not legalized
//! through what a [`Lower`] says of them; and packed functions by the names in [`Packed`]. An [`Observer`] sees each
//! binding before and after it is executed. What goes wrong is a [`Failure`]: its [`Cause`], and the calls that led to it.

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
