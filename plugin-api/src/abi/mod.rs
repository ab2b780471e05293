//! Everything that crosses the plugin boundary, and the only unsafe code of this crate.

pub(crate) mod codec;
pub mod entry;
mod evolution;
pub mod host;
pub mod host_log;
mod host_spans;
mod host_table;
pub mod in_process;
pub(crate) mod instrument;
pub mod layout;
mod live;
pub(crate) mod log;
mod meta_decode;
pub mod module;
mod older;
pub mod services;
mod tracing_sink;
pub mod view;
pub mod wire;

pub use instrument::PluginInstrument;
pub use meta_decode::MetaError;
pub(crate) use services::seal;

use crate::ir::forms;
use crate::ir::verify::{SealError, validate};
use view::{Body, RawView};

/// Copies, validates and makes a body in this library, in the one form that equal programs have.
///
/// # Errors
/// Says which record is wrong, and why.
pub(crate) fn seal_here(raw: &RawView<'_>) -> Result<Body, SealError> {
    let mut unusual = forms::Unusual::default();
    let body = Body::seal_with(raw, |raw| {
        unusual = validate(raw)?;
        Ok(())
    })?;
    if !unusual.any() {
        return Ok(body);
    }
    // Another order of valid records is valid.
    Body::seal_with(&forms::usual(body.raw(), unusual).raw(), |_| Ok(()))
}
