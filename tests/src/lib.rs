//! Shared helpers of the tests and benchmarks that span crates.
#![forbid(unsafe_code)]

pub mod conformance;
pub mod fuzz;
pub mod generate;
pub mod synthetic;

use passhost::{Engine, Manifest};
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// The folder of the workspace.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests lie in a folder of the workspace")
}

/// The engine of the default manifest; it is made once.
pub fn engine() -> &'static Engine {
    shared_engine()
}

/// The same engine, for those who keep it.
pub fn shared_engine() -> &'static Arc<Engine> {
    static ENGINE: OnceLock<Arc<Engine>> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let manifest = Manifest::load(&root().join("passes.toml")).expect("the default manifest");
        Arc::new(Engine::new(&manifest).expect("the standard plugins"))
    })
}
