//! Construction of bodies: builder, pool of interned records, importer, validation, and the canonical form that equal
//! programs share.

pub(crate) mod builder;
pub mod import;
mod pool;
pub mod type_bytes;
pub(crate) mod usual_form;
pub mod validate;

use super::storage::body_handle::Body;
use super::storage::sections::RawView;
use validate::{SealError, validate};

/// Copies and validates sections, and creates a body in this library, in the canonical form that equal programs share.
///
/// # Errors
/// An error that names the invalid record and the reason.
#[doc(hidden)]
pub fn seal_here(raw: &RawView<'_>) -> Result<Body, SealError> {
    let mut unusual = usual_form::Unusual::default();
    let body = Body::seal_with(raw, |raw| {
        unusual = validate(raw)?;
        Ok(())
    })?;
    if !unusual.any() {
        return Ok(body);
    }
    // No check is needed, because valid records stay valid when they are reordered.
    Body::seal_with(&usual_form::usual(body.raw(), unusual).raw(), |_| Ok(()))
}
