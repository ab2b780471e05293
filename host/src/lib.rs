//! Loads compiler passes from plugins and runs them over Relax and TIR modules.

pub mod cli;
pub mod context;
pub mod crates;
pub mod declared;
pub mod engine;
pub mod error;
pub mod get_pass;
pub mod instruments;
pub mod library;
pub mod loader;
pub mod lock;
pub mod made;
pub mod manifest;
pub mod object_file;
pub mod output;
mod paranoia;
pub mod pass;
mod process;
pub mod report;
pub mod run;
mod stdio;
mod undeclared;
pub mod verify;
mod verify_plain;
mod verify_symbols;
mod verify_tir;
mod verify_tir_scopes;

pub use context::{ContextScope, PassContext, Target};
pub use engine::Engine;
pub use error::Error;
pub use get_pass::{get_pass, load_manifest, register_pass};
pub use instruments::{Instrument, Instruments};
pub use made::{MadePass, create_dataflow_block_pass, create_function_pass, create_module_pass, create_prim_func_pass};
pub use manifest::Manifest;
pub use pass::{Pass, Sequential};
#[cfg(unix)]
pub use process::watch;
pub use run::{RunReport, Runner};

/// What `docs/embedding.md` shows is true.
#[cfg(doctest)]
#[doc = include_str!("../../docs/embedding.md")]
mod embedding {}
