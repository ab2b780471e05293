//! How the IR lies in memory: records in sections, and the reference-counted handles of bodies, modules and tensors. All
//! unsafe code of the IR is here.

pub(crate) mod body_handle;
mod equal;
pub(crate) mod layout;
pub(crate) mod live;
pub(crate) mod module_handle;
pub(crate) mod sealer;
pub(crate) mod sections;
pub(crate) mod tensor;
