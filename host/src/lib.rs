//! Loads compiler passes from plugins and runs them over Relax and TIR modules.

pub mod cli;
pub mod crates;
pub mod engine;
pub mod error;
pub mod get_pass;
pub mod instruments;
pub mod loader;
pub mod lock;
pub mod manifest;
pub mod object_file;
pub mod output;
mod paranoia;
pub mod report;
pub mod run;
pub mod verify;
mod verify_tir;

pub use engine::Engine;
pub use error::Error;
pub use get_pass::{get_pass, load_manifest};
pub use instruments::{Instrument, Instruments};
pub use manifest::Manifest;
pub use run::{RunReport, Runner};
