//! A host for passes that tests call directly. Its answers are set in advance, and it records reports of passes.
#![allow(dead_code, reason = "each test file uses only a part of this module")]

use plugin_api::abi::host::{Diagnostic, HostServices};
use plugin_api::declare::diagnostics::Severity;
use plugin_api::ir::{Body, Call};
use plugin_api::metadata::OptionValue;
use plugin_api::typing::operators::{InferError, Inferred};
use std::cell::RefCell;

/// The function, node and message of a diagnostic.
pub(crate) type Told = (Option<String>, Option<usize>, String);

/// Returns config values.
type Config = Box<dyn Fn(&str) -> Option<OptionValue>>;

/// The host. The passes in these tests do not infer types.
#[derive(Default)]
pub(crate) struct Host {
    pub(crate) pass: &'static str,
    pub(crate) target: Option<&'static str>,
    /// `None` means that no key is set.
    pub(crate) config: Option<Config>,
    /// The reports, without errors.
    pub(crate) told: RefCell<Vec<Told>>,
}

impl HostServices for Host {
    fn infer(&self, call: Call<'_>) -> Result<Inferred, InferError> {
        Err(InferError::NoHost(call.op().unwrap_or_default().to_string()))
    }

    fn print(&self, body: &Body) -> String {
        format!("<{} nodes>", body.len())
    }

    fn config(&self, key: &str) -> Option<OptionValue> {
        self.config.as_ref().and_then(|config| config(key))
    }

    fn pass_name(&self) -> String {
        self.pass.to_string()
    }

    fn target(&self) -> Option<String> {
        self.target.map(str::to_string)
    }

    fn diagnose(&self, diagnostic: &Diagnostic<'_>) {
        assert_ne!(diagnostic.severity, Severity::Error);
        let function = diagnostic.function.map(str::to_string);
        self.told.borrow_mut().push((function, diagnostic.node, diagnostic.message.to_string()));
    }
}
