//! Everything that crosses the plugin boundary, and the only unsafe code of this crate.

pub mod module;
pub mod view;

use crate::ir::verify::{SealError, validate};
use view::{Body, RawView};

/// Copies, validates and makes a body in this library.
///
/// # Errors
/// Says which record is wrong, and why.
pub fn seal_here(raw: &RawView<'_>) -> Result<Body, SealError> {
    Body::seal_with(raw, |copy| validate(copy))
}

/// Makes a body through the host's service where there is a host, else in this library.
pub(crate) fn seal(raw: &RawView<'_>) -> Result<Body, SealError> {
    seal_here(raw)
}
