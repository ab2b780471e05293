//! Errors of steps, with their place in the module if it is known.

use super::ShownPlace;
use super::shown::Shown;
use super::steps::Run;
use crate::report::error::{Cause, Error, Kept, StepKind, exit};
use crate::verify::Violation;
use passhost_lang::ir::Module;
use plugin_api::abi::host::RunFailure;
use registry::{Owner, PassId, Unit};

/// The message shown for a pass that returned an error without a message.
const NO_REASON: &str = "returned an error without a message; its author should add one";

impl Run<'_> {
    /// Builds the error of a pass that failed.
    pub(super) fn failure(&self, pass: PassId, function: Option<&str>, module: &Module, failure: RunFailure) -> Error {
        let (message, node, named, cause) = match failure {
            RunFailure::Error(error) => {
                let cause = if error.is_of_option { Cause::Option } else { Cause::Error };
                (error.message, error.node, error.function, cause)
            }
            RunFailure::Panic(text) => {
                self.mark(pass, "panicked in");
                (format!("panicked: {text}"), None, None, Cause::Panic)
            }
            RunFailure::Protocol(text) => (text, None, None, Cause::Error),
            RunFailure::Ended { message, function } => (message, None, function, Cause::Crash),
        };
        let function = named.or_else(|| function.map(str::to_string));
        let place =
            function.as_ref().zip(node).and_then(|(name, node)| self.place(module, name, node, "before the pass"));
        self.step_error(pass, function, message, place).caused_by(cause)
    }

    /// Builds the error of a pass that returned an ill-formed module.
    pub(super) fn violation(&self, pass: PassId, after: &Module, violation: &Violation) -> Error {
        let place = self.place(after, &violation.function, violation.node, "the module that the pass returned");
        let message = format!("returned an ill-formed module: {}", violation.message);
        // A fault in the attributes of the module does not belong to a function.
        let function = Some(violation.function.clone()).filter(|name| !name.is_empty());
        self.step_error(pass, function, message, place).caused_by(Cause::IllFormed)
    }

    /// Builds an error of the current pass.
    pub(super) fn step_error(
        &self,
        pass: PassId,
        function: Option<String>,
        message: String,
        place: Option<ShownPlace>,
    ) -> Error {
        let message = if message.trim().is_empty() { NO_REASON.to_string() } else { message };
        let registry = self.engine.registry();
        let owner = registry.pass_owner(pass);
        Error::Step {
            position: self.position,
            kind: StepKind::Pass,
            pass: registry.pass(pass).name.clone(),
            plugin: owner.name.clone(),
            file: owner.file.clone(),
            function,
            message,
            place,
            kept: Kept::Nothing,
            cause: Cause::Error,
            code: if self.engine.lacks_a_worker() { exit::FAULT } else { exit::PLUGIN },
        }
    }

    /// Builds the error of a step whose requirement is not available.
    pub(super) fn stuck(&self, unit: &Unit, position: usize, message: String) -> Error {
        let kind = if unit.pass().is_some() { StepKind::Pass } else { StepKind::Sequential };
        self.whole_error(unit, kind, position, message, exit::REQUEST)
    }

    /// Builds the error of a step that is not a call of a pass.
    pub(super) fn whole_error(&self, unit: &Unit, kind: StepKind, position: usize, message: String, code: u8) -> Error {
        let registry = self.engine.registry();
        let owner = unit.pass().map(|pass| registry.pass_owner(pass));
        Error::Step {
            position,
            kind,
            pass: unit.name(registry).to_string(),
            plugin: owner.map_or(Owner::EMBEDDER, |owner| &owner.name).to_string(),
            file: owner.and_then(|owner| owner.file.clone()),
            function: None,
            message,
            place: None,
            kept: Kept::Nothing,
            cause: Cause::Error,
            code,
        }
    }

    /// Finds a node in the printed module.
    pub(super) fn place(&self, module: &Module, function: &str, node: usize, what: &str) -> Option<ShownPlace> {
        Shown::new(self.engine, module, what).place(function, node)
    }

    /// Quarantines the plugin of a pass, so that it is not called again.
    pub(super) fn mark(&self, pass: PassId, did: &str) {
        let registry = self.engine.registry();
        let why = format!("plugin `{}` {did} `{}`", registry.pass_owner(pass).name, registry.pass(pass).name);
        self.services.marks.add(registry.pass_place(pass).0, why);
    }
}
