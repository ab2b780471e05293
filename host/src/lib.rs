//! Loads compiler passes from plugins and runs them over Relax and TIR modules.

pub mod cli;
pub mod context;
pub mod engine;
pub mod files;
pub mod instruments;
pub mod passes;
pub mod plugins;
mod process;
pub mod report;
pub mod run;
pub mod text;
pub mod verify;

pub use context::{ContextScope, PassContext};
pub use engine::Engine;
pub use engine::made::{
    MadePass, create_dataflow_block_pass, create_function_pass, create_module_pass, create_prim_func_pass,
};
pub use instruments::{Instrument, Instruments};
pub use passes::get_pass::{get_pass, load_locked, load_manifest, register_pass};
pub use passes::{Pass, Sequential};
pub use plugins::manifest::Manifest;
pub use plugins::target::Target;
#[cfg(unix)]
pub use process::watch;
pub use report::error::Error;
pub use run::{RunReport, Runner};
pub use text::Input;

/// What `docs/embedding.md` shows is true.
#[cfg(doctest)]
#[doc = include_str!("../../docs/embedding.md")]
mod embedding {}
