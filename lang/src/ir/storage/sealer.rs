//! The one way up from the IR: in a plugin, the host makes bodies, modules and tensors. The boundary, which is above the IR,
//! sets who does.

use super::body_handle::Body;
use super::module_handle::Module;
use super::sections::RawView;
use super::tensor::Tensor;
use crate::ir::SealError;
use std::sync::OnceLock;

/// Makes what is sealed, where another copy of this crate has to.
#[doc(hidden)]
pub trait Sealer: Sync {
    /// Validates the sections and makes a body; `None` if it has to be made here.
    fn seal(&self, raw: &RawView<'_>) -> Option<Result<Body, SealError>>;
    /// Makes a module of functions that are sorted by name; `None` if it has to be made here.
    fn module(&self, functions: &[(String, Body)], meta: Option<&Body>) -> Option<Module>;
    /// Makes a module with some bodies replaced, by position; `None` if it has to be made here.
    fn module_with(&self, module: &Module, changed: &[(usize, Body)]) -> Option<Module>;
    /// Makes a tensor; `None` if it has to be made here.
    fn tensor(&self, bytes: &[u8]) -> Option<Tensor>;
}

static HOST: OnceLock<&'static dyn Sealer> = OnceLock::new();

/// Sets who seals, once.
#[doc(hidden)]
pub fn set(sealer: &'static dyn Sealer) {
    let _ = HOST.set(sealer);
}

/// Who seals; `None` where this copy of the crate does.
pub(super) fn host() -> Option<&'static dyn Sealer> {
    HOST.get().copied()
}

/// Makes a body: through the host where there is one, else here.
///
/// # Errors
/// Says which record is wrong, and why.
pub(crate) fn seal(raw: &RawView<'_>) -> Result<Body, SealError> {
    host().and_then(|host| host.seal(raw)).unwrap_or_else(|| crate::ir::make::seal_here(raw))
}
