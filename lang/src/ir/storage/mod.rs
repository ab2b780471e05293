//! The memory layout of the IR: records in sections, and the reference-counted handles of bodies, modules and tensors. All unsafe code of the IR is
//! here.

#[doc(hidden)]
pub mod body_handle;
mod equal;
#[doc(hidden)]
pub mod layout;
#[doc(hidden)]
pub mod live;
#[doc(hidden)]
pub mod module_handle;
#[doc(hidden)]
pub mod region;
#[doc(hidden)]
pub mod sealer;
#[doc(hidden)]
pub mod sections;
#[doc(hidden)]
pub mod tensor;
