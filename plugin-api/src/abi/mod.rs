//! The plugin boundary. Contains all unsafe code of this crate.

pub mod entry;
pub mod export;
mod formats;
pub mod host;
pub mod in_process;
pub(crate) mod instrument;
pub mod layout;
pub(crate) mod log;
pub mod relay;
mod version;

pub use crate::metadata::decode::MetaError;
pub use instrument::PluginInstrument;
