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

use crate::ir::verify::{SealError, validate};
use view::{Body, RawView};

/// Copies, validates and makes a body in this library.
///
/// # Errors
/// Says which record is wrong, and why.
pub(crate) fn seal_here(raw: &RawView<'_>) -> Result<Body, SealError> {
    Body::seal_with(raw, validate)
}
