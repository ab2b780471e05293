//! The services of the host for plugin code that no pass of a run calls.

use super::Settings;
use crate::engine::Engine;
use passhost_lang::ir::{Body, Call, Module};
use passhost_lang::metadata::OptionValue;
use passhost_lang::typing::legalized::Legalized;
use passhost_lang::typing::operators::{Infer, InferError, Inferred};
use plugin_api::abi::host::{Diagnostic, HostServices, with_current};

/// The services of the host for plugin code that no pass of a run calls: instruments between runs, readers and writers, and rules and
/// legalizations during execution.
pub(crate) struct OutsideRuns<'a> {
    pub(crate) engine: &'a Engine,
    /// The config options and the target; `None` if the code gets neither.
    pub(crate) settings: Option<&'a Settings>,
    /// Name of the format; empty if the code does not convert a file.
    pub(crate) format: &'a str,
    /// The rules of operators.
    pub(crate) rules: &'a dyn Infer,
    pub(crate) reports: &'a dyn Reports,
}

/// Receives the reports of plugin code and the bytes of writers. By default, only diagnostics are received.
pub(crate) trait Reports {
    fn diagnose(&self, diagnostic: &Diagnostic<'_>);

    fn label(&self, _label: &Diagnostic<'_>) {}

    fn put(&self, _name: &str, _bytes: &[u8]) -> bool {
        false
    }

    fn show_module(&self, _module: &Module, _header: &str) {}
}

/// Drops all reports.
pub(crate) struct NoReports;

impl Reports for NoReports {
    fn diagnose(&self, _: &Diagnostic<'_>) {}
}

impl OutsideRuns<'_> {
    /// Calls code of a plugin with these services.
    pub(crate) fn run<R>(&self, f: impl FnOnce() -> R) -> R {
        with_current(self, self.settings.map_or(0, |settings| settings.opt_level), f)
    }
}

impl HostServices for OutsideRuns<'_> {
    fn infer(&self, call: Call<'_>) -> Result<Inferred, InferError> {
        self.rules.infer(call)
    }

    fn legalize(&self, call: Call<'_>) -> Result<Option<Legalized>, InferError> {
        self.engine.legalize(call)
    }

    fn print(&self, body: &Body) -> String {
        self.engine.text_of_body(body)
    }

    fn config(&self, key: &str) -> Option<OptionValue> {
        self.settings?.config(key, self.engine)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> bool {
        self.reports.put(name, bytes)
    }

    fn pass_name(&self) -> String {
        self.format.to_string()
    }

    fn target(&self) -> Option<String> {
        self.settings?.target()
    }

    fn diagnose(&self, diagnostic: &Diagnostic<'_>) {
        self.reports.diagnose(diagnostic);
    }

    fn label(&self, label: &Diagnostic<'_>) {
        self.reports.label(label);
    }

    fn show_module(&self, module: &Module, header: &str) {
        self.reports.show_module(module, header);
    }
}
