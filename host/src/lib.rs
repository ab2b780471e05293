//! Loads compiler passes from plugins and runs them over Relax and TIR modules.
//!
//! A program needs only this crate: [`Engine`] lists plugins, reads modules and prints them; [`Pass`] and [`Runner`] run passes.
//! `docs/embedding.md` in the repository is a guide.

pub mod bundle;
pub mod cli;
pub mod context;
pub mod engine;
pub mod files;
pub mod instruments;
mod onnx;
pub mod page;
pub mod passes;
pub mod plugins;
mod process;
pub mod report;
pub mod run;
pub mod text;
pub mod tune;
pub mod verify;
pub mod workers;

pub use context::{ContextScope, PassContext, Question};
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
pub use run::{Expectation, RunReport, Runner};
pub use text::Input;
pub use workers::{Isolation, Limits, worker};

/// Modules and functions.
pub use passhost_lang::ir;
/// The API of passes, with which a program creates passes from closures, uses their instruments, and changes modules.
pub use plugin_api;

/// Values of executed modules, and the virtual machine, which packed functions use.
pub use ::runtime;

/// Pipelines as text, plans, and the names that plugins contribute.
pub mod plan {
    pub use registry::{
        ConfigError, Form, Outcome, Owner, OwnerId, PassId, Pipeline, PipelineError, Plan, PlanError, Registry,
        RegistryError, Selection, Skip, Stage, Step, Unit, Warning, Why,
    };
}

/// Diagnostics of the TVMScript reader and printer. [`Engine::read_module`] reads and verifies.
pub mod script {
    pub use ::script::{Diagnostic, ReadError, ReadOptions, Unprintable, line_column};
}
