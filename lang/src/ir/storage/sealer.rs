//! The only call from the IR to a higher layer: in a plugin, the host creates bodies, modules and tensors. The plugin boundary sets the
//! sealer.

use super::body_handle::Body;
use super::module_handle::Module;
use super::sections::RawView;
use super::tensor::Tensor;
use crate::ir::SealError;
use std::sync::OnceLock;

/// Creates sealed objects on behalf of this copy of the crate, if a different copy has to own them.
#[doc(hidden)]
pub trait Sealer: Sync {
    /// Validates the sections and makes a body. Returns `None` if the caller must make it.
    fn seal(&self, raw: &RawView<'_>) -> Option<Result<Body, SealError>>;
    /// Makes a module of functions that are sorted by name. Returns `None` if the caller must make it.
    fn module(&self, functions: &[(String, Body)], meta: Option<&Body>) -> Option<Module>;
    /// Makes a module with some bodies replaced, by position. Returns `None` if the caller must make it.
    fn module_with(&self, module: &Module, changed: &[(usize, Body)]) -> Option<Module>;
    /// Makes a tensor. Returns `None` if the caller must make it.
    fn tensor(&self, bytes: &[u8]) -> Option<Tensor>;
}

static HOST: OnceLock<&'static dyn Sealer> = OnceLock::new();

/// Sets the sealer, once.
#[doc(hidden)]
pub fn set(sealer: &'static dyn Sealer) {
    let _ = HOST.set(sealer);
}

/// Returns the sealer; `None` if this copy of the crate creates sealed objects itself.
pub(super) fn host() -> Option<&'static dyn Sealer> {
    HOST.get().copied()
}

/// Creates a body: in the host if this is a plugin, otherwise in this copy of the crate.
///
/// # Errors
/// An error that names the invalid record and the reason.
pub(crate) fn seal(raw: &RawView<'_>) -> Result<Body, SealError> {
    host().and_then(|host| host.seal(raw)).unwrap_or_else(|| crate::ir::make::seal_here(raw))
}
