//! Shared helpers of the tests and benchmarks that span crates.
#![forbid(unsafe_code)]

pub mod conformance;
pub mod fuzz;
pub mod generate;
pub mod kernels;
pub mod large;
pub mod races;
pub mod synthetic;
pub mod validation;

use passhost::{Engine, Manifest};
use plugin_api::ir::Module;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Returns the folder of the workspace.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests lie in a folder of the workspace")
}

/// Returns the engine of the default manifest, which is created once.
pub fn engine() -> &'static Engine {
    shared_engine()
}

/// Returns the same engine, for callers that keep it.
pub fn shared_engine() -> &'static Arc<Engine> {
    static ENGINE: OnceLock<Arc<Engine>> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let manifest = Manifest::load(&root().join("passes.toml")).expect("the default manifest");
        Arc::new(Engine::new(&manifest).expect("the standard plugins"))
    })
}

/// Describes the differences between the functions of two modules, node by node, for test messages.
pub fn differing(a: &Module, b: &Module) -> String {
    let mut out = String::new();
    for (name, body) in a.functions() {
        match b.get(name) {
            Some(other) if !other.structural_eq(body) => {
                let (a, b) = (plugin_api::walk::dump::dump(body), plugin_api::walk::dump::dump(other));
                let lines = a.lines().zip(b.lines()).filter(|(a, b)| a != b).take(5);
                lines.for_each(|(a, b)| out.push_str(&format!("{name}:\n  made {a}\n  read {b}\n")));
                if a.lines().count() != b.lines().count() {
                    out.push_str(&format!("{name}: {} lines and {}\n", a.lines().count(), b.lines().count()));
                }
            }
            Some(_) => {}
            None => out.push_str(&format!("{name} is missing\n")),
        }
    }
    out
}
