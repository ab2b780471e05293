//! Reads a file with a plugin's reader, and verifies the module.

use super::input::Input;
use super::rules::Rules;
use super::{Noticed, Reading};
use crate::context::services::{OutsideRuns, Reports};
use crate::context::{PassContext, Settings};
use crate::engine::Engine;
use crate::process::{self, Kind};
use crate::report::Report;
use crate::report::error::{Error, FormatFailure, exit};
use crate::report::said::ShownPlace;
use crate::verify::declared_form::read_in_declared_form;
use crate::verify::{verify_module, verify_read};
use crate::workers::Reads;
use passhost_lang::PassError;
use passhost_lang::ir::Module;
use passhost_lang::metadata::OptionValue;
use plugin_api::abi::host::{Diagnostic, RunFailure};
use plugin_api::declare::diagnostics::Severity;
use registry::{Direction, Format, Owner};
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

/// A call of a reader or a writer: its rules and settings, and its reports.
pub(super) struct FormatCall<'a> {
    engine: &'a Engine,
    rules: Rules<'a>,
    settings: Arc<Settings>,
    /// Name of the format.
    format: &'a str,
    said: RefCell<Vec<Said>>,
    /// Receives the bytes of a writer.
    take: Option<RefCell<&'a mut Take<'a>>>,
}

/// Receives the next bytes of a file: of the output, if the name is empty, otherwise of a file beside it.
pub(super) type Take<'a> = dyn FnMut(&str, &[u8]) -> bool + 'a;

/// A diagnostic of a reader.
struct Said {
    severity: Severity,
    function: Option<String>,
    node: Option<usize>,
    message: String,
    /// Further places with their messages.
    labels: Vec<(Option<String>, Option<usize>, String)>,
}

impl<'a> FormatCall<'a> {
    pub(super) fn new(engine: &'a Engine, format: &'a str, context: &PassContext) -> FormatCall<'a> {
        let settings = Arc::clone(context.settings());
        FormatCall { engine, rules: Rules::of(engine), settings, format, said: RefCell::default(), take: None }
    }

    /// Creates the call of a writer; `take` receives its bytes.
    pub(super) fn writing(
        engine: &'a Engine,
        format: &'a str,
        context: &PassContext,
        take: &'a mut Take<'a>,
    ) -> FormatCall<'a> {
        FormatCall { take: Some(RefCell::new(take)), ..FormatCall::new(engine, format, context) }
    }

    /// Calls code of a plugin.
    pub(super) fn run<R>(&self, f: impl FnOnce() -> R) -> R {
        let settings = Some(&*self.settings);
        OutsideRuns { engine: self.engine, settings, format: self.format, rules: &self.rules, reports: self }.run(f)
    }

    /// Converts the diagnostics to reports. Their places are in the printed module.
    pub(super) fn reports(
        &self,
        origin: &str,
        owner: &Owner,
        direction: Direction,
        module: Option<&Module>,
    ) -> Vec<Report> {
        let said = self.said.take();
        let has_place = |said: &Said| said.function.is_some() && said.node.is_some();
        let printed = module.filter(|_| said.iter().any(has_place));
        let printed = printed.and_then(|module| script::print_shown(module, self.engine).ok());
        let what = format!("<{origin}, as read>");
        let text: Option<(Arc<str>, _)> = printed.map(|printed| (printed.text.into(), printed.spans));
        let place = |function: &Option<String>, node: Option<usize>| -> Option<ShownPlace> {
            let (text, spans) = text.as_ref()?;
            let span = spans.get(function.as_deref()?)?.get(node?)?.clone();
            (!span.is_empty()).then(|| (what.clone(), Arc::clone(text), span))
        };
        let report = |said: Said| {
            let title = format!("{origin}: {}", said.message);
            let mut report = match said.severity {
                Severity::Error => Report::error(title),
                Severity::Warning => Report::warning(title),
                _ => Report::remark(title),
            };
            if let Some((what, text, span)) = place(&said.function, said.node) {
                let others = said.labels.iter().filter_map(|(function, node, label)| {
                    place(function, *node).map(|(_, _, span)| (span, label.clone()))
                });
                report = report.at(what, text, span, "").with_places(others);
            }
            let function = said.function.as_ref().map_or(String::new(), |name| format!(", function `{name}`"));
            report = report.note(format!("from {direction} `{}` of plugin `{}`{function}", self.format, owner.name));
            report = report.about("format", self.format).about_owner(owner);
            report.about.extend(said.function.map(|name| ("function", name)));
            report
        };
        said.into_iter().map(report).collect()
    }
}

impl Reports for FormatCall<'_> {
    fn put(&self, name: &str, bytes: &[u8]) -> bool {
        self.take.as_ref().is_some_and(|take| (take.borrow_mut())(name, bytes))
    }

    fn diagnose(&self, diagnostic: &Diagnostic<'_>) {
        // Remarks about matches are not requested from readers.
        if !matches!(diagnostic.severity, Severity::Missed | Severity::Matched) {
            self.said.borrow_mut().push(Said {
                severity: diagnostic.severity,
                function: diagnostic.function.map(str::to_string),
                node: diagnostic.node,
                message: diagnostic.message.to_string(),
                labels: Vec::new(),
            });
        }
    }

    fn label(&self, label: &Diagnostic<'_>) {
        if let Some(said) = self.said.borrow_mut().last_mut() {
            said.labels.push((label.function.map(str::to_string), label.node, label.message.to_string()));
        }
    }

    fn show_module(&self, module: &Module, header: &str) {
        self.engine.show_module(module, header);
    }
}

impl Engine {
    /// Reads an input with a reader, and verifies the module.
    pub(super) fn read_by(
        &self,
        input: &Input,
        format: Format<'_>,
        options: &[OptionValue],
        context: &PassContext,
    ) -> Reading {
        let owner = self.registry().owner(format.owner);
        let call = FormatCall::new(self, &format.info.name, context);
        let module = self.asked_reader(input, format, options, &call);
        let shown = module.as_ref().ok();
        let reports = call.reports(input.origin(), owner, Direction::Read, shown);
        let module = module.and_then(|module| {
            let rules = &call.rules;
            self.verified_of(input, module, rules, format).map_err(|error| match rules.broke() {
                true => Error::Rule(Box::new(error)),
                false => error,
            })
        });
        Reading { module, input: input.clone(), noticed: Noticed::Reports(reports) }
    }

    fn asked_reader(
        &self,
        input: &Input,
        format: Format<'_>,
        options: &[OptionValue],
        reader: &FormatCall<'_>,
    ) -> Result<Module, Error> {
        let owner = self.registry().owner(format.owner);
        let name = &format.info.name;
        let plugin = self.open_to_read(format.owner, input.path())?;
        let _span = self.span("read", "read the input", || serde_json::json!({ "format": name }));
        let file = owner.file.as_ref().map_or(&b""[..], |file| file.as_os_str().as_encoded_bytes());
        let call = process::Call {
            kind: Kind::Format,
            step: 0,
            name,
            plugin: &owner.name,
            file,
            about: &Direction::Read.to_string(),
        };
        let doing = process::begin(&call);
        let source = Reads { name: input.origin(), path: input.path(), bytes: &|| input.bytes() };
        let read = reader.run(|| plugin.read(format.at, &source, options));
        drop(doing);
        read?.map_err(|failure| failed(Direction::Read, input.origin(), name, owner, failure))
    }

    /// Returns the module that a reader made, if it is well-formed.
    fn verified_of(
        &self,
        input: &Input,
        module: Module,
        rules: &Rules<'_>,
        format: Format<'_>,
    ) -> Result<Module, Error> {
        if input.options.unchecked {
            return Ok(module);
        }
        let _span = self.span("verification", "verify", || serde_json::json!({}));
        let ill_formed = |function: String, why: String, place: Option<(String, Range<usize>)>| {
            let origin = input.origin();
            Error::Format(Box::new(FormatFailure {
                direction: Direction::Read,
                origin: origin.to_string(),
                format: format.info.name.clone(),
                owner: self.registry().owner(format.owner).clone(),
                function: Some(function).filter(|name| !name.is_empty()),
                message: format!("returned an ill-formed module: {why}"),
                place: place.map(|(text, span)| (format!("<{origin}, as read>"), text.into(), span)),
                code: exit::PLUGIN,
            }))
        };
        // Attributes that the reader omitted are added to calls, as for calls in a text.
        let module = read_in_declared_form(module, self)
            .map_err(|(function, why)| ill_formed(function, why.to_string(), None))?;
        let verify = if input.strict { verify_module } else { verify_read };
        match verify(&module, rules) {
            Ok(()) => Ok(module),
            Err(violation) => {
                let place = self.place_of(&module, &violation);
                Err(ill_formed(violation.function.clone(), violation.to_string(), place))
            }
        }
    }
}

/// Returns the error for a failed reader or writer.
pub(super) fn failed(direction: Direction, origin: &str, format: &str, owner: &Owner, failure: RunFailure) -> Error {
    let (message, function, code) = match failure {
        RunFailure::Error(PassError { message, function, is_of_option, .. }) => {
            (message, function, if is_of_option { exit::REQUEST } else { exit::INPUT })
        }
        RunFailure::Ended { message, function } => (message, function, exit::PLUGIN),
        other => (other.to_string(), None, exit::PLUGIN),
    };
    Error::Format(Box::new(FormatFailure {
        direction,
        origin: origin.to_string(),
        format: format.to_string(),
        owner: owner.clone(),
        function,
        message,
        place: None,
        code,
    }))
}
